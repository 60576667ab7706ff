//! Puts a publish together from its method, content header and body frames.
//!
//! Two ways. [`whole_content`] finds a message that lies whole in the read buffer and answers
//! slices of it: nothing is copied. [`Assembly`] is the state of one channel whose message comes
//! in several frames or reads; it owns what came so far. What a header announces is never
//! believed before the bytes are there. Knows frames, not channels or queues.

use amqp::{BASIC_CLASS_ID, BasicPublish, ContentHeader, FrameDecoder, FrameKind};

use crate::fault::ProtocolFault;
use crate::options::MESSAGE_SIZE_CEILING;

/// A message whose frames all lie in the read buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WholeContent<'a> {
    /// Raw property block.
    pub(crate) properties: &'a [u8],
    pub(crate) body: &'a [u8],
    /// Bytes of the frames taken from the buffer.
    pub(crate) used: usize,
}

/// Looks for header and body of a message right at the beginning of `bytes`. `None` when they
/// are not both there in one piece, or anything is wrong with them: the frame by frame way then
/// finds the same and says so.
pub(crate) fn whole_content<'a>(
    decoder: &FrameDecoder,
    bytes: &'a [u8],
    channel: u16,
    size_max: u64,
) -> Option<WholeContent<'a>> {
    let (frame, used) = decoder.next(bytes).ok()??;
    if frame.kind != FrameKind::Header || frame.channel != channel {
        return None;
    }
    let header = read_header(frame.payload).ok()?;
    let properties = header.properties.raw();
    if header.body_size == 0 {
        return Some(WholeContent {
            properties,
            body: &[],
            used,
        });
    }
    if header.body_size > size_max {
        return None;
    }
    let (frame, body_used) = decoder.next(bytes.get(used..)?).ok()??;
    let is_whole = frame.kind == FrameKind::Body
        && frame.channel == channel
        && frame.payload.len() as u64 == header.body_size;
    is_whole.then_some(WholeContent {
        properties,
        body: frame.payload,
        used: used + body_used,
    })
}

/// Reads a content header and checks what a publish needs of it.
fn read_header(payload: &[u8]) -> Result<ContentHeader<'_>, ProtocolFault> {
    let header = ContentHeader::decode(payload).map_err(|_| ProtocolFault::Internal)?;
    // rabbitmq: the weight is looked at first.
    if header.weight != 0 {
        return Err(ProtocolFault::HeaderExpected);
    }
    if header.class_id != BASIC_CLASS_ID {
        return Err(ProtocolFault::HeaderOfOtherClass {
            class: header.class_id,
        });
    }
    if header.body_size > MESSAGE_SIZE_CEILING {
        return Err(ProtocolFault::BodyAnnouncedTooLarge {
            size: header.body_size,
            max: MESSAGE_SIZE_CEILING,
        });
    }
    Ok(header)
}

/// A basic.publish whose content is under way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishCall {
    pub(crate) exchange: Box<str>,
    pub(crate) routing_key: Box<str>,
    pub(crate) mandatory: bool,
    pub(crate) immediate: bool,
}

impl From<&BasicPublish<&str>> for PublishCall {
    fn from(call: &BasicPublish<&str>) -> Self {
        Self {
            exchange: call.exchange.into(),
            routing_key: call.routing_key.into(),
            mandatory: call.mandatory,
            immediate: call.immediate,
        }
    }
}

/// A publish that came in pieces and is complete.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) call: PublishCall,
    /// Raw property block.
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// Size of the body on the wire. Larger than `body` when the body was over the limit and
    /// has been dropped as it came.
    pub(crate) body_size: u64,
}

/// A channel's unfinished publish.
#[derive(Debug)]
pub(crate) enum Assembly {
    /// The method came; its header is due.
    AwaitHeader(PublishCall),
    /// The header came; body bytes are due.
    AwaitBody {
        /// What is there so far.
        content: Content,
        /// Bytes still due.
        remaining: u64,
    },
}

/// What a frame made of an assembly.
#[derive(Debug)]
pub(crate) enum Step {
    /// More frames are due.
    More(Assembly),
    /// The message is whole.
    Complete(Content),
}

impl Assembly {
    /// Bytes of the body that are kept here.
    pub(crate) fn kept_bytes(&self) -> usize {
        match self {
            Self::AwaitHeader(_) => 0,
            Self::AwaitBody { content, .. } => content.body.len(),
        }
    }

    /// Size of the body that its header announced; 0 for one above `size_max`, which is not kept.
    pub(crate) fn announced_bytes(&self, size_max: u64) -> u64 {
        match self {
            Self::AwaitBody { content, .. } if content.body_size <= size_max => content.body_size,
            Self::AwaitHeader(_) | Self::AwaitBody { .. } => 0,
        }
    }

    /// The fault of a frame that does not belong here, for instance a method.
    pub(crate) fn out_of_turn(&self) -> ProtocolFault {
        match self {
            Self::AwaitHeader(_) => ProtocolFault::HeaderExpected,
            Self::AwaitBody { .. } => ProtocolFault::BodyExpected,
        }
    }

    /// Takes a content header frame.
    ///
    /// # Errors
    /// It is not due, of another class, malformed, or announces more than the protocol's ceiling.
    pub(crate) fn header(self, payload: &[u8]) -> Result<Step, ProtocolFault> {
        let Self::AwaitHeader(call) = self else {
            return Err(ProtocolFault::BodyExpected);
        };
        let header = read_header(payload)?;
        let content = Content {
            call,
            properties: header.properties.raw().to_vec(),
            body: Vec::new(),
            body_size: header.body_size,
        };
        Ok(match header.body_size {
            0 => Step::Complete(content),
            remaining => Step::More(Self::AwaitBody { content, remaining }),
        })
    }

    /// Takes a body frame. A body announced above `size_max` is counted and dropped.
    ///
    /// # Errors
    /// It is not due, or longer than announced.
    pub(crate) fn body(self, payload: &[u8], size_max: u64) -> Result<Step, ProtocolFault> {
        let Self::AwaitBody {
            mut content,
            remaining,
        } = self
        else {
            return Err(ProtocolFault::HeaderExpected);
        };
        let remaining = remaining
            .checked_sub(payload.len() as u64)
            .ok_or(ProtocolFault::BodyTooLong)?;
        if content.body_size <= size_max {
            content.body.extend_from_slice(payload);
        }
        Ok(match remaining {
            0 => Step::Complete(content),
            remaining => Step::More(Self::AwaitBody { content, remaining }),
        })
    }
}

#[cfg(test)]
mod tests;
