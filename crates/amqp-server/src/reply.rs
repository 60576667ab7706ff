//! What is said to a client: closes with their codes and texts, and the short answers.
//!
//! The explanations come from `broker_core::Refusal` and from [`ProtocolFault`]; here they get
//! their code's name in front and the protocol's length. Knows methods, not channels or sockets.

use amqp::protocol::{AMQPClass, access, basic, channel, confirm, connection, exchange, queue, tx};
use amqp::{ReplyCode, protocol_types::ShortString, reply_text};
use broker_core::Refusal;
use broker_core::refusal::Scope;

use crate::fault::{MethodId, ProtocolFault};
use crate::handshake::TuneFault;

/// A close as it goes on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: ReplyCode,
    /// `NAME - explanation`, at most 255 bytes.
    pub(crate) text: String,
    pub(crate) at: MethodId,
}

impl Close {
    fn new(code: ReplyCode, explanation: &str, at: MethodId) -> Self {
        let text = reply_text(code, explanation);
        let text = String::from_utf8_lossy(text.as_bytes()).into_owned();
        Self { code, text, at }
    }

    /// The close that answers a refusal.
    pub(crate) fn refusal(refusal: &Refusal, at: MethodId) -> Self {
        let code = ReplyCode::from_number(refusal.code().number());
        match (code, refusal) {
            // What is broken here is for the log; the client sees the bare code.
            (None, _) | (_, Refusal::Broken { .. }) => Self::new(ReplyCode::InternalError, "", at),
            (Some(code), refusal) => Self::new(code, &refusal.to_string(), at),
        }
    }

    /// The close that answers a breach of the protocol.
    pub(crate) fn fault(fault: &ProtocolFault, at: MethodId) -> Self {
        Self::new(fault.code(), &fault.to_string(), at)
    }

    /// The close that answers bad terms. RabbitMQ drops the socket without a word, and its clients
    /// never learn why; being told harms none of them.
    pub(crate) fn tune(fault: &TuneFault) -> Self {
        const TUNE_OK: MethodId = MethodId {
            class: 10,
            method: 31,
        };
        Self::new(ReplyCode::NotAllowed, &fault.to_string(), TUNE_OK)
    }

    /// As connection.close.
    pub(crate) fn of_connection(&self) -> AMQPClass {
        AMQPClass::Connection(connection::AMQPMethod::Close(connection::Close {
            reply_code: self.code.number(),
            reply_text: short(&self.text),
            class_id: self.at.class,
            method_id: self.at.method,
        }))
    }

    /// As channel.close.
    pub(crate) fn of_channel(&self) -> AMQPClass {
        AMQPClass::Channel(channel::AMQPMethod::Close(channel::Close {
            reply_code: self.code.number(),
            reply_text: short(&self.text),
            class_id: self.at.class,
            method_id: self.at.method,
        }))
    }
}

/// What a refusal on this channel ends. Channel 0 has no smaller thing to close than the
/// connection.
pub(crate) fn scope(refusal: &Refusal, channel: u16) -> Scope {
    if channel == 0 {
        Scope::Connection
    } else {
        refusal.scope()
    }
}

/// Names come from the wire or are generated, so they are at most 255 bytes; a longer text is
/// cut at a character's boundary.
pub(crate) fn short(text: &str) -> ShortString {
    let end = text.floor_char_boundary(amqp::SHORT_STRING_BYTES_MAX);
    ShortString::try_new(&text[..end]).unwrap_or_default()
}

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident = $class:ident, $module:ident, $method:ident;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name() -> AMQPClass {
            AMQPClass::$class($module::AMQPMethod::$method($module::$method {}))
        })*
    };
}

answers! {
    /// access.request-ok; its ticket is always 1.
    access_ok = Access, access, RequestOk;
    bind_exchange_ok = Exchange, exchange, BindOk;
    bind_queue_ok = Queue, queue, BindOk;
    channel_close_ok = Channel, channel, CloseOk;
    channel_open_ok = Channel, channel, OpenOk;
    connection_close_ok = Connection, connection, CloseOk;
    connection_open_ok = Connection, connection, OpenOk;
    confirm_ok = Confirm, confirm, SelectOk;
    declare_exchange_ok = Exchange, exchange, DeclareOk;
    delete_exchange_ok = Exchange, exchange, DeleteOk;
    get_empty = Basic, basic, GetEmpty;
    qos_ok = Basic, basic, QosOk;
    recover_ok = Basic, basic, RecoverOk;
    tx_commit_ok = Tx, tx, CommitOk;
    tx_rollback_ok = Tx, tx, RollbackOk;
    tx_select_ok = Tx, tx, SelectOk;
    unbind_exchange_ok = Exchange, exchange, UnbindOk;
    unbind_queue_ok = Queue, queue, UnbindOk;
    unblocked = Connection, connection, Unblocked;
    update_secret_ok = Connection, connection, UpdateSecretOk;
}

/// basic.cancel from the broker: the client must not answer it.
pub(crate) fn cancel(consumer_tag: &str) -> AMQPClass {
    let consumer_tag = short(consumer_tag);
    AMQPClass::Basic(basic::AMQPMethod::Cancel(basic::Cancel {
        consumer_tag,
        nowait: true,
    }))
}

/// basic.cancel-ok.
pub(crate) fn cancel_ok(consumer_tag: &str) -> AMQPClass {
    let consumer_tag = short(consumer_tag);
    AMQPClass::Basic(basic::AMQPMethod::CancelOk(basic::CancelOk {
        consumer_tag,
    }))
}

/// basic.consume-ok.
pub(crate) fn consume_ok(consumer_tag: &str) -> AMQPClass {
    let consumer_tag = short(consumer_tag);
    AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(basic::ConsumeOk {
        consumer_tag,
    }))
}

/// connection.blocked; the reason names the alarm.
pub(crate) fn blocked(reason: &str) -> AMQPClass {
    let reason = short(reason);
    AMQPClass::Connection(connection::AMQPMethod::Blocked(connection::Blocked {
        reason,
    }))
}

/// channel.flow from the broker.
pub(crate) fn flow(active: bool) -> AMQPClass {
    AMQPClass::Channel(channel::AMQPMethod::Flow(channel::Flow { active }))
}

/// channel.flow-ok.
pub(crate) fn flow_ok(active: bool) -> AMQPClass {
    AMQPClass::Channel(channel::AMQPMethod::FlowOk(channel::FlowOk { active }))
}

/// queue.declare-ok.
pub(crate) fn declare_queue_ok(name: &str, message_count: u32, consumer_count: u32) -> AMQPClass {
    let queue = short(name);
    let declared = queue::DeclareOk {
        queue,
        message_count,
        consumer_count,
    };
    AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared))
}

/// queue.purge-ok.
pub(crate) fn purge_ok(message_count: u32) -> AMQPClass {
    AMQPClass::Queue(queue::AMQPMethod::PurgeOk(queue::PurgeOk { message_count }))
}

/// queue.delete-ok.
pub(crate) fn delete_queue_ok(message_count: u32) -> AMQPClass {
    AMQPClass::Queue(queue::AMQPMethod::DeleteOk(queue::DeleteOk {
        message_count,
    }))
}

#[cfg(test)]
mod tests {
    use broker_core::{QueueName, VhostName};

    use super::*;

    const DECLARE: MethodId = MethodId {
        class: 50,
        method: 10,
    };

    fn missing(queue: &str) -> Refusal {
        Refusal::QueueNotFound {
            queue: QueueName::new(queue),
            vhost: VhostName::new("/"),
        }
    }

    #[test]
    fn a_refusal_becomes_code_name_and_explanation() {
        let close = Close::refusal(&missing("q"), DECLARE);
        assert_eq!(close.code, ReplyCode::NotFound);
        assert_eq!(close.text, "NOT_FOUND - no queue 'q' in vhost '/'");
        let AMQPClass::Channel(channel::AMQPMethod::Close(wire)) = close.of_channel() else {
            panic!("a channel.close");
        };
        assert_eq!(
            (wire.reply_code, wire.class_id, wire.method_id),
            (404, 50, 10)
        );
    }

    #[test]
    fn a_long_text_is_cut_to_a_short_string_ending_in_dots() {
        let close = Close::refusal(&missing(&"ü".repeat(200)), DECLARE);
        assert!(close.text.len() <= 255);
        assert!(close.text.ends_with("..."));
        let AMQPClass::Connection(connection::AMQPMethod::Close(wire)) = close.of_connection()
        else {
            panic!("a connection.close");
        };
        assert_eq!(wire.reply_text.as_str(), close.text);
    }

    #[test]
    fn our_own_failures_are_not_explained_to_clients() {
        let refusal = Refusal::Broken {
            what: "index 7 points nowhere".into(),
        };
        let close = Close::refusal(&refusal, DECLARE);
        assert_eq!(
            (close.code.number(), close.text.as_str()),
            (541, "INTERNAL_ERROR")
        );
    }

    #[test]
    fn soft_refusals_on_channel_0_end_the_connection() {
        assert_eq!(scope(&missing("q"), 1), Scope::Channel);
        assert_eq!(scope(&missing("q"), 0), Scope::Connection);
        assert_eq!(scope(&Refusal::ImmediateNotSupported, 1), Scope::Connection);
    }

    #[test]
    fn faults_of_the_protocol_have_their_codes_and_words() {
        let cases: [(ProtocolFault, u16, &str); 9] = [
            (
                ProtocolFault::ContentWithoutPublish,
                505,
                "UNEXPECTED_FRAME - expected method frame, got non method frame instead",
            ),
            (
                ProtocolFault::HeaderOfOtherClass { class: 50 },
                505,
                "UNEXPECTED_FRAME - expected content header for class 60, \
                 got one for class 50 instead",
            ),
            (
                ProtocolFault::BodyTooLong,
                501,
                "FRAME_ERROR - content body frame exceeds remaining content size",
            ),
            (
                ProtocolFault::BodyAnnouncedTooLarge {
                    size: 536_870_913,
                    max: 536_870_912,
                },
                501,
                "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912",
            ),
            (ProtocolFault::Internal, 541, "INTERNAL_ERROR"),
            (
                ProtocolFault::ChannelNotOpen,
                504,
                "CHANNEL_ERROR - expected 'channel.open'",
            ),
            (
                ProtocolFault::ChannelOpenTwice,
                504,
                "CHANNEL_ERROR - second 'channel.open' seen",
            ),
            (
                ProtocolFault::UnexpectedInRunning,
                504,
                "CHANNEL_ERROR - unexpected method in connection state running",
            ),
            (
                ProtocolFault::UnimplementedMethod,
                503,
                "COMMAND_INVALID - unimplemented method",
            ),
        ];
        for (fault, code, text) in cases {
            let close = Close::fault(&fault, MethodId::NONE);
            assert_eq!((close.code.number(), close.text.as_str()), (code, text));
        }
    }
}
