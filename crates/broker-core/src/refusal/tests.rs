//! Every text, code and scope of the reference, in one table.

use super::*;

fn vhost() -> VhostName {
    VhostName::new("/")
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name)
}

fn exchange(name: &str) -> ExchangeName {
    ExchangeName::new(name)
}

fn user(name: &str) -> UserName {
    UserName::new(name)
}

fn check(refusal: Refusal, code: u16, scope: Scope, text: &str) {
    assert_eq!(refusal.to_string(), text);
    assert_eq!(refusal.code().number(), code, "{text}");
    assert_eq!(refusal.scope(), scope, "{text}");
}

fn on_channel(refusal: Refusal, code: u16, text: &str) {
    check(refusal, code, Scope::Channel, text);
}

fn on_connection(refusal: Refusal, code: u16, text: &str) {
    check(refusal, code, Scope::Connection, text);
}

#[test]
fn a_missing_thing_is_404() {
    on_channel(
        Refusal::ExchangeNotFound {
            exchange: exchange("nope"),
            vhost: vhost(),
        },
        404,
        "no exchange 'nope' in vhost '/'",
    );
    on_channel(
        Refusal::QueueNotFound {
            queue: queue("nope"),
            vhost: vhost(),
        },
        404,
        "no queue 'nope' in vhost '/'",
    );
    on_channel(
        Refusal::NoPreviousQueue,
        404,
        "no previously declared queue",
    );
    on_channel(
        Refusal::QueueDown {
            node: "n@h".into(),
            queue: queue("q"),
            vhost: vhost(),
        },
        404,
        "home node 'n@h' of durable queue 'q' in vhost '/' is down or inaccessible",
    );
    on_channel(
        Refusal::QueueStopped {
            queue: queue("q"),
            vhost: vhost(),
        },
        404,
        "queue 'q' in vhost '/' process is stopped by supervisor",
    );
    on_connection(
        Refusal::VhostNotFound { vhost: vhost() },
        530,
        "vhost / not found",
    );
}

#[test]
fn what_is_not_allowed_is_403() {
    on_channel(
        Refusal::AccessRefused {
            permission: Permission::Configure,
            resource: Resource::queue("q", &vhost()),
            user: user("bob"),
        },
        403,
        "configure access to queue 'q' in vhost '/' refused for user 'bob'",
    );
    on_channel(
        Refusal::TopicAccessRefused {
            permission: Permission::Write,
            key: "other".into(),
            exchange: exchange("w-x"),
            vhost: VhostName::new("ref"),
            user: user("lim"),
        },
        403,
        "write access to topic 'other' in exchange 'w-x' in vhost 'ref' refused for user 'lim'",
    );
    on_channel(
        Refusal::BuiltInExchange {
            exchange: "sluicemq.reason".into(),
        },
        403,
        "exchange 'sluicemq.reason' is built in and cannot be declared",
    );
    on_channel(
        Refusal::DoorMessage {
            exchange: "sluicemq.deadline".into(),
            why: "header 'delivery-tag' is missing".into(),
        },
        406,
        "message for exchange 'sluicemq.deadline' not understood: header 'delivery-tag' is missing",
    );
    on_channel(
        Refusal::DefaultExchange,
        403,
        "operation not permitted on the default exchange",
    );
    on_channel(
        Refusal::ReservedPrefix {
            kind: ResourceKind::Exchange,
            name: "amq.foo".into(),
        },
        403,
        "exchange name 'amq.foo' contains reserved prefix 'amq.*'",
    );
    on_channel(
        Refusal::ReservedPrefix {
            kind: ResourceKind::Queue,
            name: "amq.foo".into(),
        },
        403,
        "queue name 'amq.foo' contains reserved prefix 'amq.*'",
    );
    on_channel(
        Refusal::DeletionOfSystemExchange {
            exchange: exchange("amq.direct"),
            vhost: vhost(),
        },
        403,
        "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    );
    on_channel(
        Refusal::InternalExchange {
            exchange: exchange("xi"),
            vhost: vhost(),
        },
        403,
        "cannot publish to internal exchange 'xi' in vhost '/'",
    );
    on_channel(
        Refusal::ExclusiveUse {
            queue: queue("cq"),
            vhost: vhost(),
        },
        403,
        "queue 'cq' in vhost '/' in exclusive use",
    );
    on_channel(
        Refusal::VolatileQueueBinding,
        403,
        "cannot bind or unbind to a volatile (direct reply-to) queue",
    );
    on_connection(
        Refusal::LoginRefused {
            mechanism: "PLAIN".into(),
        },
        403,
        "Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
    );
}

#[test]
fn what_is_locked_is_405() {
    on_channel(
        Refusal::ResourceLocked {
            queue: queue("ex1"),
            vhost: vhost(),
        },
        405,
        "cannot obtain exclusive access to locked queue 'ex1' in vhost '/'. It could be \
         originally declared on another connection or the exclusive property value does not \
         match that of the original declaration.",
    );
    on_channel(
        Refusal::SingleActiveConsumerGet {
            queue: queue("qsac"),
            vhost: vhost(),
        },
        405,
        "cannot obtain access to locked queue 'qsac' in vhost '/'. basic.get operations are not \
         supported by <<\"quorum\">> queues with single active consumer",
    );
}

#[test]
fn what_does_not_fit_is_406() {
    on_channel(
        Refusal::UnknownExchangeType {
            exchange_type: "bogus".into(),
        },
        406,
        "unknown exchange type 'bogus'",
    );
    on_channel(
        Refusal::InvalidExchangeType {
            exchange_type: "queue".into(),
        },
        406,
        "invalid exchange type 'queue'",
    );
    on_channel(
        Refusal::InvalidArgumentType {
            key: "alternate-exchange".into(),
            type_name: "signedint".into(),
            resource: Resource::exchange("x3", &vhost()),
        },
        406,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x3' in vhost '/'",
    );
    on_channel(
        Refusal::ExchangeInUse {
            exchange: exchange("x1"),
            vhost: vhost(),
        },
        406,
        "exchange 'x1' in vhost '/' in use",
    );
    on_channel(
        Refusal::ServerNamedQueue {
            kind: QueueKind::Quorum,
        },
        406,
        "Cannot declare a server-named queue for type rabbit_quorum_queue",
    );
    on_channel(
        Refusal::InvalidProperty {
            property: "non-durable".into(),
            queue: queue("q2"),
            vhost: vhost(),
        },
        406,
        "invalid property 'non-durable' for queue 'q2' in vhost '/'",
    );
    on_channel(
        Refusal::QueueInUse {
            queue: queue("cq"),
            vhost: vhost(),
        },
        406,
        "queue 'cq' in vhost '/' in use",
    );
    on_channel(
        Refusal::QueueNotEmpty {
            queue: queue("cq"),
            vhost: vhost(),
        },
        406,
        "queue 'cq' in vhost '/' not empty",
    );
    on_channel(
        Refusal::UnsupportedArgument {
            key: "x-consumer-timeout".into(),
            queue: queue("cq"),
            vhost: vhost(),
            kind: QueueKind::Classic,
        },
        406,
        "invalid arg 'x-consumer-timeout' for queue 'cq' in vhost '/' of queue type \
         rabbit_classic_queue",
    );
    on_channel(
        Refusal::UserIdMismatch {
            claimed: "bob".into(),
            user: user("guest"),
        },
        406,
        "user_id property set to 'bob' but authenticated user was 'guest'",
    );
    on_channel(
        Refusal::InvalidCarbonCopy {
            header: "CC".into(),
            type_name: "longstr".into(),
        },
        406,
        "invalid message: {unacceptable_type_in_header,\"CC\",longstr}",
    );
    on_channel(
        Refusal::UnknownDeliveryTag { tag: 5 },
        406,
        "unknown delivery tag 5",
    );
    on_channel(
        Refusal::ConfirmAfterTx,
        406,
        "cannot switch from tx to confirm mode",
    );
    on_channel(
        Refusal::TxAfterConfirm,
        406,
        "cannot switch from confirm to tx mode",
    );
    on_channel(
        Refusal::NotTransactional,
        406,
        "channel is not transactional",
    );
    on_channel(Refusal::PartialTransaction, 406, "partial tx completion");
    on_channel(
        Refusal::ReplyConsumerAcknowledges,
        406,
        "reply consumer cannot acknowledge",
    );
    on_channel(
        Refusal::ReplyConsumerExists,
        406,
        "reply consumer already set",
    );
    on_channel(
        Refusal::ReplyConsumerMissing,
        406,
        "fast reply consumer does not exist",
    );
    on_channel(
        Refusal::MessageTooLarge {
            size: 16_777_217,
            max: 16_777_216,
            configured: true,
        },
        406,
        "message size 16777217 is larger than configured max size 16777216",
    );
    on_channel(
        Refusal::MessageTooLarge {
            size: 536_870_913,
            max: 536_870_912,
            configured: false,
        },
        406,
        "message size 536870913 is larger than max size 536870912",
    );
    on_channel(
        Refusal::DeliveryTimedOut {
            channel: 1,
            timeout_ms: 500,
        },
        406,
        "delivery acknowledgement on channel 1 timed out. Timeout value used: 500 ms. This \
         timeout value can be configured, see consumers doc guide to learn more",
    );
}

#[test]
fn a_difference_tells_what_was_received_and_what_is() {
    let inequivalent = |key: &str, difference| Refusal::InequivalentArgument {
        key: key.into(),
        resource: Resource::queue("q", &vhost()),
        difference,
    };
    on_channel(
        inequivalent(
            "durable",
            DeclareDifference::Both {
                received: "false".into(),
                current: "true".into(),
            },
        ),
        406,
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is \
         'true'",
    );
    on_channel(
        inequivalent(
            "x-max-length",
            DeclareDifference::OnlyReceived {
                value: "1000".into(),
                type_name: "signedint".into(),
            },
        ),
        406,
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '1000' \
         of type 'signedint' but current is none",
    );
    on_channel(
        inequivalent(
            "x-max-length",
            DeclareDifference::OnlyCurrent {
                value: "1000".into(),
                type_name: "signedint".into(),
            },
        ),
        406,
        "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received none but current \
         is the value '1000' of type 'signedint'",
    );
}

#[test]
fn a_bad_argument_tells_its_fault() {
    let faults = [
        (ArgumentFault::Negative(-1), "{value_negative,-1}"),
        (ArgumentFault::Zero, "{value_zero,0}"),
        (
            ArgumentFault::TooLarge(315_360_000_001),
            "{value_too_large,315360000001}",
        ),
        (
            ArgumentFault::NotInteger("longstr".into()),
            "\"expected integer, got longstr\"",
        ),
        (
            ArgumentFault::UnacceptableType("signedint".into()),
            "{unacceptable_type,signedint}",
        ),
        (
            ArgumentFault::UnsupportedQueueType("bogus".into()),
            "\"unsupported queue type 'bogus'\"",
        ),
        (
            ArgumentFault::UnsupportedQueueVersion(1),
            "\"unsupported queue version '1'\"",
        ),
        (ArgumentFault::Overflow, "invalid_overflow"),
        (
            ArgumentFault::DeadLetterKeyAlone,
            "routing_key_but_no_dlx_defined",
        ),
        (ArgumentFault::DeadLetterStrategy, "invalid_dlx_strategy"),
        (
            ArgumentFault::PriorityTooHigh(256),
            "{max_value_exceeded,256}",
        ),
        (ArgumentFault::LeaderLocator, "invalid_queue_locator_arg"),
    ];
    for (why, text) in faults {
        on_channel(
            Refusal::InvalidArgument {
                key: "x-a".into(),
                queue: queue("q"),
                vhost: vhost(),
                why,
            },
            406,
            &format!("invalid arg 'x-a' for queue 'q' in vhost '/': {text}"),
        );
    }
}

#[test]
fn a_bad_binding_tells_its_fault() {
    let faults = [
        (
            BindingFault::TooManyHashes {
                key: "#.a.#.b.#".into(),
                count: 3,
            },
            "Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed",
        ),
        (
            BindingFault::HeadersMatchValue("bogus".into()),
            "Invalid x-match field value <<\"bogus\">>; expected all, any, all-with-x, or \
             any-with-x",
        ),
        (
            BindingFault::HeadersMatchType {
                type_name: "signedint".into(),
                value: "1".into(),
            },
            "Invalid x-match field type signedint (value 1); expected longstr",
        ),
        (
            BindingFault::KeyNotEmpty("k".into()),
            "Non empty binding 'k' key not permitted",
        ),
        (
            BindingFault::QueueKindNotValid(QueueKind::Quorum),
            "Queue type rabbit_quorum_queue not valid for this exchange type",
        ),
        (BindingFault::DestinationNotFound, "Destination not found"),
        (
            BindingFault::WeightNotInteger("abc".into()),
            "The binding key must be an integer: <<\"abc\">>",
        ),
        (
            BindingFault::WeightNotPositive,
            "The binding key must be greater than 0",
        ),
    ];
    for (why, text) in faults {
        on_channel(
            Refusal::InvalidBinding {
                source_exchange: exchange("x"),
                vhost: vhost(),
                why,
            },
            406,
            text,
        );
    }
}

#[test]
fn what_the_connection_may_not_is_530() {
    on_connection(
        Refusal::VhostAccessRefused {
            vhost: vhost(),
            user: user("u"),
        },
        530,
        "access to vhost '/' refused for user 'u'",
    );
    on_connection(
        Refusal::VhostConnectionLimit {
            vhost: vhost(),
            user: user("u"),
            limit: 2,
        },
        530,
        "access to vhost '/' refused for user 'u': connection limit (2) is reached",
    );
    on_connection(
        Refusal::UserConnectionLimit {
            user: user("u"),
            limit: 2,
        },
        530,
        "connection refused for user 'u': user connection limit (2) is reached",
    );
    on_connection(
        Refusal::NodeConnectionLimit { limit: 2 },
        530,
        "connection refused: node connection limit (2) is reached",
    );
    on_connection(
        Refusal::ChannelMaxReached { max: 2047 },
        530,
        "number of channels opened (2047) has reached the negotiated channel_max (2047)",
    );
    on_connection(
        Refusal::UserChannelLimit {
            user: user("u"),
            limit: 3,
        },
        530,
        "number of channels opened for user 'u' has reached the maximum allowed user limit of 3",
    );
    on_connection(
        Refusal::NodeChannelLimit {
            node: "n".into(),
            limit: 3,
        },
        530,
        "number of channels opened on node 'n' has reached the maximum allowed limit of 3",
    );
    on_connection(
        Refusal::ConsumerTagInUse { tag: "a".into() },
        530,
        "attempt to reuse consumer tag 'a'",
    );
    on_connection(
        Refusal::ConsumersPerChannel { max: 10 },
        530,
        "reached maximum (10) of consumers per channel",
    );
}

#[test]
fn what_the_broker_cannot_do_is_540() {
    on_connection(Refusal::ImmediateNotSupported, 540, "immediate=true");
    on_connection(
        Refusal::PrefetchSizeNotSupported { prefetch_size: 1 },
        540,
        "prefetch_size!=0 (1)",
    );
    on_connection(Refusal::RecoverWithoutRequeue, 540, "requeue=false");
    on_connection(
        Refusal::DeleteConditionNotSupported {
            queue: queue("cqq"),
            vhost: vhost(),
            condition: DeleteCondition::IfUnused,
        },
        540,
        "cannot delete queue 'cqq' in vhost '/'. queue.delete operations with if-unused flag set \
         are not supported by quorum queues",
    );
    on_connection(
        Refusal::QueueTypeNotImplemented {
            queue_type: "stream".into(),
            queue: queue("s"),
            vhost: vhost(),
        },
        540,
        "queue type 'stream' of queue 's' in vhost '/' is not implemented",
    );
}

#[test]
fn what_the_operator_ends_is_320_and_what_is_broken_541() {
    on_connection(
        Refusal::UserDeleted { user: user("u") },
        320,
        "user 'u' is deleted",
    );
    on_connection(
        Refusal::VhostDeleted { vhost: vhost() },
        320,
        "vhost '/' is deleted",
    );
    on_connection(
        Refusal::ClosedByOperator {
            reason: "Closed via management plugin".into(),
        },
        320,
        "Closed via management plugin",
    );
    on_connection(
        Refusal::Shutdown,
        320,
        "broker forced connection closure with reason 'shutdown'",
    );
    on_connection(Refusal::CredentialExpired, 320, "credential expired");
    on_connection(
        Refusal::VhostDown {
            vhost: vhost(),
            user: user("u"),
        },
        541,
        "access to vhost '/' refused for user 'u': vhost '/' is down",
    );
    on_connection(
        Refusal::DeprecatedFeature {
            feature: "queue_master_locator".into(),
        },
        541,
        "Feature `queue_master_locator` is deprecated.\nBy default, this feature is not permitted \
         anymore.",
    );
}

#[test]
fn a_reached_limit_names_it() {
    on_channel(
        Refusal::VhostQueueLimit {
            queue: queue("q"),
            vhost: vhost(),
            limit: 1,
        },
        406,
        "cannot declare queue 'q': queue limit in vhost '/' (1) is reached",
    );
    on_channel(
        Refusal::UserQueueLimit {
            queue: queue("q"),
            user: user("u"),
            limit: 2,
        },
        406,
        "cannot declare queue 'q': queue limit of user 'u' (2) is reached",
    );
    on_channel(
        Refusal::ClusterQueueLimit {
            queue: queue("q"),
            limit: 9,
        },
        406,
        "cannot declare queue 'q': queue limit in cluster (9) is reached",
    );
    on_channel(
        Refusal::ClusterExchangeLimit {
            exchange: exchange("x"),
            vhost: vhost(),
            limit: 9,
        },
        406,
        "cannot declare exchange 'x' in vhost '/': exchange limit of 9 is reached",
    );
}

#[test]
fn the_http_api_gets_the_same_texts() {
    on_channel(
        Refusal::VhostProtected {
            vhost: VhostName::new("v3"),
        },
        406,
        "Refusing to delete virtual host 'v3' because it is protected from deletion",
    );
    on_channel(
        Refusal::VhostOrUserNotFound {
            vhost: vhost(),
            user: user("u"),
        },
        406,
        "vhost_or_user_not_found",
    );
    on_channel(
        Refusal::DefinitionsVhostMissing {
            vhost: VhostName::new("nope"),
        },
        406,
        "Please create virtual host \"nope\" prior to importing definitions.",
    );
    on_channel(
        Refusal::InvalidQueueType {
            queue_type: "bogus".into(),
        },
        406,
        "bogus is not a valid queue type",
    );
    on_channel(
        Refusal::ParameterComponentNotFound {
            component: "bogus".into(),
        },
        406,
        "Validation failed\n\ncomponent bogus not found\n",
    );
}

#[test]
fn each_fault_is_laid_at_the_right_door() {
    assert_eq!(
        Refusal::UnknownDeliveryTag { tag: 1 }.fault(),
        Fault::Protocol
    );
    assert_eq!(Refusal::DefaultExchange.fault(), Fault::Forbidden);
    assert_eq!(Refusal::NoPreviousQueue.fault(), Fault::Request);
    assert_eq!(
        Refusal::NodeConnectionLimit { limit: 1 }.fault(),
        Fault::Resource
    );
    assert_eq!(Refusal::Broken { what: "x".into() }.fault(), Fault::Ours);
}
