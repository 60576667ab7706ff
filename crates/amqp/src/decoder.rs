//! Cutting whole frames out of a buffer.
//!
//! Copies nothing and keeps nothing: the caller owns the buffer, offers what it has, and drops
//! what was consumed. The announced size is judged before anything waits for it, so a buffer of
//! [`FrameDecoder::buffer_bytes_max`] always suffices.

use crate::content_header::CONTENT_HEADER_BYTES_MIN;
use crate::frame::{
    FRAME_END, FRAME_ENVELOPE_BYTES, FRAME_HEADER_BYTES, Frame, FrameFault, FrameKind, Snippet,
};
use crate::method::METHOD_IDS_BYTES;

/// Cuts frames of at most the negotiated size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameDecoder {
    frame_size_max: u32,
}

impl FrameDecoder {
    /// Takes the negotiated frame size in bytes, envelope included; 0 sets no limit.
    #[must_use]
    pub const fn new(frame_size_max: u32) -> Self {
        Self { frame_size_max }
    }

    /// The most bytes that may have to be in the buffer before a frame can be cut.
    #[must_use]
    pub fn buffer_bytes_max(&self) -> usize {
        usize::try_from(self.payload_bytes_max())
            .unwrap_or(usize::MAX)
            .saturating_add(FRAME_ENVELOPE_BYTES)
    }

    /// The size of the frame that `buffer` begins with, envelope included, as soon as its first
    /// seven octets are there. Tells a reader how much to make room for.
    ///
    /// # Errors
    /// [`FrameFault::TooLarge`].
    pub fn frame_bytes(&self, buffer: &[u8]) -> Result<Option<usize>, FrameFault> {
        let Some((head, _)) = Head::read(buffer) else {
            return Ok(None);
        };
        self.payload_bytes(head)
            .map(|payload_bytes| Some(payload_bytes.saturating_add(FRAME_ENVELOPE_BYTES)))
    }

    /// Cuts the frame that `buffer` begins with; also answers how many bytes it took. `None`
    /// while the frame is not whole.
    ///
    /// # Errors
    /// Any [`FrameFault`] except content on channel 0, which only its reader can judge
    /// ([`FrameFault::unexpected`]). An oversized frame is refused from its first seven octets.
    // Inlined by force: a call passes the answer through memory, a good part of its whole cost.
    #[inline(always)]
    pub fn next<'a>(&self, buffer: &'a [u8]) -> Result<Option<(Frame<'a>, usize)>, FrameFault> {
        let Some((head, rest)) = Head::read(buffer) else {
            return Ok(None);
        };
        let payload_bytes = self.payload_bytes(head)?;
        let Some((payload, behind)) = rest.split_at_checked(payload_bytes) else {
            return Ok(None);
        };
        let Some(end_octet) = behind.first() else {
            return Ok(None);
        };
        if *end_octet != FRAME_END {
            return Err(invalid_end(head, *end_octet, payload));
        }
        let frame = classify(head, payload)?;
        Ok(Some((
            frame,
            payload_bytes.saturating_add(FRAME_ENVELOPE_BYTES),
        )))
    }

    #[inline]
    fn payload_bytes(&self, head: Head) -> Result<usize, FrameFault> {
        if head.size > self.payload_bytes_max() {
            return Err(self.too_large(head));
        }
        usize::try_from(head.size).map_err(|_| self.too_large(head))
    }

    // rabbitmq: eight octets more than the negotiated size are let through, so a client that
    // takes frame_max for the size of the payload works.
    #[inline]
    fn payload_bytes_max(&self) -> u32 {
        if self.frame_size_max == 0 {
            u32::MAX
        } else {
            self.frame_size_max
        }
    }

    #[cold]
    fn too_large(&self, head: Head) -> FrameFault {
        const ENVELOPE: u32 = FRAME_ENVELOPE_BYTES as u32;
        FrameFault::TooLarge {
            type_octet: head.type_octet,
            channel: head.channel,
            size: head.size,
            max: self.payload_bytes_max().saturating_sub(ENVELOPE),
        }
    }
}

/// The seven octets in front of a payload.
#[derive(Clone, Copy)]
struct Head {
    type_octet: u8,
    channel: u16,
    size: u32,
}

impl Head {
    #[inline]
    fn read(buffer: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = buffer.split_first_chunk::<FRAME_HEADER_BYTES>()?;
        let [type_octet, c1, c0, s3, s2, s1, s0] = *head;
        let channel = u16::from_be_bytes([c1, c0]);
        let size = u32::from_be_bytes([s3, s2, s1, s0]);
        Some((
            Self {
                type_octet,
                channel,
                size,
            },
            rest,
        ))
    }
}

#[inline]
fn classify<'a>(head: Head, payload: &'a [u8]) -> Result<Frame<'a>, FrameFault> {
    let kind = match FrameKind::from_octet(head.type_octet) {
        Some(kind) if payload.len() >= payload_bytes_min(kind) => kind,
        _ => return Err(unknown(head, payload)),
    };
    let frame = Frame {
        kind,
        channel: head.channel,
        payload,
    };
    if kind == FrameKind::Heartbeat {
        check_heartbeat(head, &frame)?;
    }
    Ok(frame)
}

/// RabbitMQ takes a method or header frame without room for its ids for no frame at all.
#[inline]
const fn payload_bytes_min(kind: FrameKind) -> usize {
    match kind {
        FrameKind::Method => METHOD_IDS_BYTES,
        FrameKind::Header => CONTENT_HEADER_BYTES_MIN,
        FrameKind::Body | FrameKind::Heartbeat => 0,
    }
}

#[cold]
fn check_heartbeat(head: Head, frame: &Frame<'_>) -> Result<(), FrameFault> {
    if !frame.payload.is_empty() {
        return Err(unknown(head, frame.payload));
    }
    if frame.channel != 0 {
        return Err(FrameFault::unexpected(frame));
    }
    Ok(())
}

#[cold]
fn unknown(head: Head, payload: &[u8]) -> FrameFault {
    FrameFault::Unknown {
        type_octet: head.type_octet,
        snippet: Snippet::of(payload),
    }
}

#[cold]
fn invalid_end(head: Head, end_octet: u8, payload: &[u8]) -> FrameFault {
    let snippet = Snippet::of(payload);
    FrameFault::InvalidEnd {
        type_octet: head.type_octet,
        end_octet,
        snippet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECODER: FrameDecoder = FrameDecoder::new(131_072);

    fn fault(bytes: &[u8]) -> (u16, String) {
        let fault = DECODER.next(bytes).expect_err("a fault");
        (fault.reply_code().number(), fault.explanation())
    }

    fn head(type_octet: u8, channel: u16, size: u32) -> Vec<u8> {
        let mut bytes = vec![type_octet];
        bytes.extend_from_slice(&channel.to_be_bytes());
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes
    }

    fn frame(type_octet: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = head(type_octet, channel, payload.len() as u32);
        bytes.extend_from_slice(payload);
        bytes.push(FRAME_END);
        bytes
    }

    #[test]
    fn a_frame_is_cut_and_what_follows_is_left() {
        let mut bytes = frame(3, 7, b"body");
        bytes.extend_from_slice(b"rest");
        let (cut, consumed) = DECODER.next(&bytes).expect("no fault").expect("whole");
        assert_eq!(
            cut,
            Frame {
                kind: FrameKind::Body,
                channel: 7,
                payload: b"body"
            }
        );
        assert_eq!(&bytes[consumed..], b"rest");
    }

    #[test]
    fn an_oversized_frame_is_refused_from_its_first_seven_octets() {
        let text = "type 3, all octets = <<>>: {frame_too_large,131073,131064}";
        assert_eq!(fault(&head(3, 1, 131_073)), (501, text.to_owned()));
        let text = "type 71, all octets = <<>>: {frame_too_large,4294967295,131064}";
        assert_eq!(fault(&head(71, 1, u32::MAX)), (501, text.to_owned()));
    }

    #[test]
    fn a_payload_of_exactly_the_frame_size_is_accepted() {
        let bytes = frame(3, 1, &vec![0; 131_072]);
        assert_eq!(bytes.len(), DECODER.buffer_bytes_max());
        let (cut, consumed) = DECODER.next(&bytes).expect("no fault").expect("whole");
        assert_eq!((cut.payload.len(), consumed), (131_072, bytes.len()));
    }

    #[test]
    fn the_size_of_a_frame_is_known_from_its_first_seven_octets() {
        assert_eq!(DECODER.frame_bytes(&head(3, 1, 100)[..6]), Ok(None));
        assert_eq!(DECODER.frame_bytes(&head(3, 1, 100)), Ok(Some(108)));
        assert!(DECODER.frame_bytes(&head(3, 1, 131_073)).is_err());
    }

    #[test]
    fn a_wrong_end_octet_is_named() {
        let mut bytes = frame(8, 0, b"");
        *bytes.last_mut().expect("an end") = 0;
        let text = "type 8, all octets = <<>>: {invalid_frame_end_marker,0}";
        assert_eq!(fault(&bytes), (501, text.to_owned()));
    }

    #[test]
    fn unknown_types_and_frames_without_room_for_ids_are_unknown_frames() {
        let text = r#"type 9, all octets = <<"abc">>: unknown_frame"#;
        assert_eq!(fault(&frame(9, 1, b"abc")), (501, text.to_owned()));
        let text = "type 1, all octets = <<0,60>>: unknown_frame";
        assert_eq!(fault(&frame(1, 1, &[0, 60])), (501, text.to_owned()));
        let first_16 = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15";
        let text = format!("type 4, first 16 octets = <<{first_16}>>: unknown_frame");
        let octets: Vec<u8> = (0..17).collect();
        assert_eq!(fault(&frame(4, 1, &octets)), (501, text));
    }

    #[test]
    fn a_heartbeat_has_no_payload_and_belongs_to_channel_0() {
        assert!(DECODER.next(&frame(8, 0, b"")).expect("no fault").is_some());
        let text = r#"type 8, all octets = <<"x">>: unknown_frame"#;
        assert_eq!(fault(&frame(8, 0, b"x")), (501, text.to_owned()));
        assert_eq!(
            fault(&frame(8, 1, b"")),
            (505, "type 8, all octets = <<>>".to_owned())
        );
    }

    #[test]
    fn without_a_limit_every_size_is_waited_for() {
        assert_eq!(FrameDecoder::new(0).next(&head(3, 1, u32::MAX)), Ok(None));
    }
}
