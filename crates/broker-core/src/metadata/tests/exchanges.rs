//! Stories of exchanges.

use super::check;

#[test]
fn a_vhost_begins_with_the_standard_exchanges() {
    check(
        "
        exchange amq.direct direct => same exchange amq.direct
        exchange amq.fanout fanout => same exchange amq.fanout
        exchange amq.topic topic => same exchange amq.topic
        exchange amq.headers headers => same exchange amq.headers
        exchange amq.match headers => same exchange amq.match
        exchange amq.rabbitmq.trace topic internal => same exchange amq.rabbitmq.trace
        route amq.rabbitmq.trace k => 403 cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'
        ",
    );
}

#[test]
fn declaring_again_alike_changes_nothing() {
    check(
        "
        exchange x topic auto-delete internal => new exchange x
        exchange x topic auto-delete internal => same exchange x
        exchange y direct alternate-exchange=ae other=1 => new exchange y
        exchange y direct alternate-exchange=ae other=2 more=3 => same exchange y
        exchanges => x y
        ",
    );
}

#[test]
fn declaring_again_otherwise_names_the_first_difference() {
    check(
        "
        exchange x direct
        exchange x fanout => 406 inequivalent arg 'type' for exchange 'x' in vhost '/': received 'fanout' but current is 'direct'
        exchange x x-modulus-hash => 406 inequivalent arg 'type' for exchange 'x' in vhost '/': received ''x-modulus-hash'' but current is 'direct'
        exchange h x-modulus-hash
        exchange h topic => 406 inequivalent arg 'type' for exchange 'h' in vhost '/': received 'topic' but current is ''x-modulus-hash''
        exchange x direct transient => 406 inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'false' but current is 'true'
        exchange x direct auto-delete => 406 inequivalent arg 'auto_delete' for exchange 'x' in vhost '/': received 'true' but current is 'false'
        exchange x direct internal => 406 inequivalent arg 'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'
        exchange x direct alternate-exchange=ae => 406 inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received the value 'ae' of type 'longstr' but current is none
        exchange y direct alternate-exchange=ae
        exchange y direct => 406 inequivalent arg 'alternate-exchange' for exchange 'y' in vhost '/': received none but current is the value 'ae' of type 'longstr'
        exchange y direct alternate-exchange=other => 406 inequivalent arg 'alternate-exchange' for exchange 'y' in vhost '/': received 'other' but current is 'ae'
        ",
    );
}

#[test]
fn the_default_exchange_is_out_of_reach() {
    check(
        "
        queue q
        exchange x direct
        exchange '' direct => 403 operation not permitted on the default exchange
        delete-exchange '' => 403 operation not permitted on the default exchange
        bind '' -> q k => 403 operation not permitted on the default exchange
        unbind '' -> q q => 403 operation not permitted on the default exchange
        bind x -> exchange: k => 403 operation not permitted on the default exchange
        bind '' -> exchange:x k => 403 operation not permitted on the default exchange
        ",
    );
}

#[test]
fn unknown_types_are_refused() {
    check(
        "
        exchange x bogus => 406 unknown exchange type 'bogus'
        exchange x queue => 406 invalid exchange type 'queue'
        exchange x '' => 406 invalid exchange type ''
        exchange x x-jms-topic => 406 unknown exchange type 'x-jms-topic'
        ",
    );
}

#[test]
fn reserved_names_are_not_given() {
    check(
        "
        exchange amq.mine direct => 403 exchange name 'amq.mine' contains reserved prefix 'amq.*'
        exchange amq.mine bogus => 406 unknown exchange type 'bogus'
        delete-exchange amq.direct => 403 deletion of system exchange 'amq.direct' in vhost '/' not allowed
        delete-exchange amq.none => 403 deletion of system exchange 'amq.none' in vhost '/' not allowed
        ",
    );
}

#[test]
fn deleting_takes_the_bindings_of_both_ends() {
    check(
        "
        exchange x direct
        exchange y direct
        queue q
        bind x -> q a
        bind y -> exchange:x b
        delete-exchange x => unbound x -> q a; unbound y -> exchange:x b; deleted exchange x
        delete-exchange x => nothing
        bindings =>
        exchange x direct => new exchange x
        route x a => nowhere
        route y b => nowhere
        ",
    );
}

#[test]
fn if_unused_asks_for_bindings_that_lead_away() {
    check(
        "
        exchange x1 direct
        exchange y direct
        queue q
        bind x1 -> q k
        bind y -> exchange:x1 k
        delete-exchange x1 if-unused => 406 exchange 'x1' in vhost '/' in use
        unbind x1 -> q k => unbound x1 -> q k
        delete-exchange x1 if-unused => unbound y -> exchange:x1 k; deleted exchange x1
        ",
    );
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    check(
        "
        exchange x direct auto-delete
        queue q
        exchanges => x
        bind x -> q a
        bind x -> q b
        unbind x -> q a => unbound x -> q a
        unbind x -> q b => unbound x -> q b; deleted exchange x auto
        exchanges =>
        ",
    );
}

#[test]
fn auto_delete_exchanges_fall_like_dominoes() {
    check(
        "
        exchange a fanout auto-delete
        exchange b fanout auto-delete
        exchange c fanout auto-delete
        queue q
        bind a -> exchange:b
        bind b -> exchange:c
        bind c -> q
        delete-queue q => unbound c -> q; unbound b -> exchange:c; deleted exchange c auto; unbound a -> exchange:b; deleted exchange b auto; deleted exchange a auto; deleted queue q Deleted
        exchanges =>
        ",
    );
    check(
        "
        exchange a fanout auto-delete
        exchange b fanout
        bind a -> exchange:b
        delete-exchange b => unbound a -> exchange:b; deleted exchange b; deleted exchange a auto
        ",
    );
}

#[test]
fn being_a_destination_keeps_no_auto_delete_exchange() {
    check(
        "
        exchange a fanout
        exchange b fanout auto-delete
        queue q
        bind a -> exchange:b
        bind b -> q
        unbind b -> q => unbound b -> q; unbound a -> exchange:b; deleted exchange b auto
        exchanges => a
        ",
    );
}

#[test]
fn an_exchange_bound_to_itself_can_be_deleted() {
    check(
        "
        exchange x fanout
        queue q
        bind x -> exchange:x
        bind x -> q
        route x k => q
        delete-exchange x => unbound x -> exchange:x; unbound x -> q; deleted exchange x
        bindings =>
        ",
    );
}

#[test]
fn arguments_of_exchanges_are_checked() {
    check(
        "
        exchange x direct alternate-exchange=5 => 406 invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'
        exchange x x-consistent-hash hash-header=h hash-property=message_id => 406 hash-header and hash-property are mutually exclusive
        exchange x x-consistent-hash hash-property=bogus => 406 Unsupported property: bogus
        exchange x x-consistent-hash hash-header=5 => 406 Invalid argument, 'hash-header' must be a string
        exchange x x-consistent-hash hash-header=h => new exchange x
        exchange r x-recent-history x-recent-history-length=0 => 406 Invalid argument 0, 'x-recent-history-length' must be a positive integer
        exchange r x-recent-history x-recent-history-length='3' => 406 Invalid argument 3, 'x-recent-history-length' must be a positive integer
        exchange r x-recent-history x-recent-history-length=20000 => 406 Invalid argument, 'x-recent-history-length' must not be greater than 10000
        exchange r x-recent-history x-recent-history-length=3 => new exchange r
        exchange d x-delayed-message => 406 Invalid argument, 'x-delayed-type' must be an existing exchange type
        exchange d x-delayed-message x-delayed-type=5 => 406 Invalid argument, 'x-delayed-type' must be an existing exchange type
        exchange d x-delayed-message x-delayed-type=x-delayed-message => 406 Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'
        exchange d x-delayed-message x-delayed-type=bogus => 406 unknown exchange type 'bogus'
        exchange d x-delayed-message x-delayed-type=x-consistent-hash hash-property=bogus => 406 Unsupported property: bogus
        exchange d x-delayed-message x-delayed-type=topic => new exchange d
        ",
    );
}

#[test]
fn what_is_transient_does_not_outlive_a_restart() {
    check(
        "
        exchange t fanout transient
        exchange d fanout
        queue q
        queue tq transient
        queue eq exclusive as 1
        bind t -> q
        bind d -> q
        bind d -> tq
        bind d -> exchange:t
        restart => unbound d -> tq; deleted queue tq Restarted; deleted queue eq Restarted; unbound t -> q; unbound d -> exchange:t; deleted exchange t
        bindings => d -> q
        exchanges => d
        queues => q:classic
        ",
    );
}

#[test]
fn the_cluster_may_limit_exchanges() {
    check(
        "
        defaults exchanges=8
        exchange a direct => new exchange a
        exchange b direct => 406 cannot declare exchange 'b' in vhost '/': exchange limit of 8 is reached
        exchange a direct => same exchange a
        ",
    );
}
