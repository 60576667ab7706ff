//! Stories of queues.

use super::check;

#[test]
fn the_type_is_chosen_and_written_down() {
    check(
        "
        queue a
        arguments a => x-queue-type=classic
        queue b x-queue-type=quorum
        arguments b => x-queue-type=quorum
        queue c x-queue-type=
        arguments c => x-queue-type=classic
        queue d x-queue-type=undefined x-max-length=3
        arguments d => x-queue-type=classic x-max-length=3
        queue e x-queue-type=bogus => 406 invalid arg 'x-queue-type' for queue 'e' in vhost '/': \"unsupported queue type 'bogus'\"
        queue e x-queue-type=5 => 406 invalid arg 'x-queue-type' for queue 'e' in vhost '/': {unacceptable_type,signedint}
        queue e x-queue-type=stream => 540 queue type 'stream' of queue 'e' in vhost '/' is not implemented
        queues => a:classic b:quorum c:classic d:classic
        ",
    );
}

#[test]
fn a_default_type_of_quorum_is_passed_over_where_it_cannot_be() {
    check(
        "
        vhost v default quorum
        queue a in v
        queue b in v transient
        queue c in v exclusive as 1
        queue d in v auto-delete
        queue e in v x-queue-type=classic
        queues => a:quorum b:classic:transient c:classic:transient d:classic e:classic
        queue a in v => same queue a
        queue a in v x-queue-type=quorum => same queue a
        queue e in v => 406 inequivalent arg 'x-queue-type' for queue 'e' in vhost 'v': received 'quorum' but current is 'classic'
        ",
    );
}

#[test]
fn declaring_again_alike_finds_the_queue() {
    check(
        "
        queue q x-expires=60000 x-message-ttl=5000l => new queue q
        queue q x-expires=60000l x-message-ttl=5000 => same queue q
        queue q x-expires=60000 x-message-ttl=5000 x-my-own=v other=1 => same queue q
        queue q x-expires=60000 x-message-ttl=5000 x-queue-type=classic => same queue q
        ",
    );
}

#[test]
fn declaring_again_otherwise_names_the_first_difference() {
    check(
        "
        queue q x-expires=60000 x-message-ttl=5000
        queue q transient x-expires=60000 x-message-ttl=5000 => 406 inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'
        queue q auto-delete x-expires=60000 x-message-ttl=5000 => 406 inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'
        queue q x-message-ttl=5000 => 406 inequivalent arg 'x-expires' for queue 'q' in vhost '/': received none but current is the value '60000' of type 'signedint'
        queue q x-expires=60001 x-message-ttl=5000 => 406 inequivalent arg 'x-expires' for queue 'q' in vhost '/': received '60001' but current is '60000'
        queue q x-expires=60000 x-message-ttl=5000 x-max-length=1000 => 406 inequivalent arg 'x-max-length' for queue 'q' in vhost '/': received the value '1000' of type 'signedint' but current is none
        queue q x-expires='60000' x-message-ttl=5000 => 406 inequivalent arg 'x-expires' for queue 'q' in vhost '/': received '60000' but current is '60000'
        queue q x-expires=60000 x-message-ttl=5000 x-queue-type=quorum => 406 inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'
        queue q x-expires=60000 x-message-ttl=5000 x-queue-type=bogus => 406 inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'bogus' but current is 'classic'
        queue qq x-queue-type=quorum x-delivery-limit=5
        queue qq x-queue-type=quorum => 406 inequivalent arg 'x-delivery-limit' for queue 'qq' in vhost '/': received none but current is the value '5' of type 'signedint'
        ",
    );
}

#[test]
fn an_exclusive_queue_is_its_connections_own() {
    let locked = "405 cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.";
    check(&format!(
        "
        exchange x direct
        queue q exclusive as 1
        queues => q:classic:transient
        queue q exclusive as 1 => same queue q
        queue q exclusive transient as 1 => same queue q
        queue q as 1 => {locked}
        queue q exclusive as 2 => {locked}
        use q as 1 => ok
        use q as 2 => {locked}
        use q => {locked}
        bind x -> q k as 2 => {locked}
        bind x -> q k as 1
        unbind x -> q k as 2 => {locked}
        route x k => q
        delete-queue q as 2 => {locked}
        delete-queue q as 1 => unbound x -> q k; deleted queue q Deleted
        "
    ));
    check(&format!(
        "
        queue q
        queue q exclusive as 1 => {locked}
        "
    ));
}

#[test]
fn the_exclusive_queues_of_a_connection_end_with_it() {
    check(
        "
        queue a exclusive as 1
        queue b exclusive as 2
        queue c exclusive as 1
        queue d as 1
        end-connection 1 => deleted queue a OwnerGone; deleted queue c OwnerGone
        end-connection 1 => nothing
        queues => b:classic:transient d:classic
        ",
    );
}

#[test]
fn names_are_reserved_and_bounded() {
    let long = "n".repeat(256);
    check(&format!(
        "
        queue amq.foo => 403 queue name 'amq.foo' contains reserved prefix 'amq.*'
        queue amq.gen-abc server-named exclusive as 1 => new queue amq.gen-abc
        queue amq.gen-abc exclusive as 1 => 403 queue name 'amq.gen-abc' contains reserved prefix 'amq.*'
        use amq.none => 404 no queue 'amq.none' in vhost '/'
        queue amq.gen-x server-named x-queue-type=quorum => 406 Cannot declare a server-named queue for type rabbit_quorum_queue
        queue {long} => 406 queue name is longer than 255 bytes
        queue q in nope => 530 vhost nope not found
        "
    ));
}

#[test]
fn a_quorum_queue_is_durable_and_everybodys() {
    check(
        "
        queue q2 transient x-queue-type=quorum => 406 invalid property 'non-durable' for queue 'q2' in vhost '/'
        queue q2 exclusive as 1 x-queue-type=quorum => 406 invalid property 'exclusive-owner' for queue 'q2' in vhost '/'
        queue q2 auto-delete x-queue-type=quorum => 406 invalid property 'auto-delete' for queue 'q2' in vhost '/'
        queue q2 auto-delete x-queue-type=quorum x-max-priority=3 => 406 invalid arg 'x-max-priority' for queue 'q2' in vhost '/' of queue type rabbit_quorum_queue
        ",
    );
}

#[test]
fn conditions_of_a_deletion_hold() {
    check(
        "
        queue cq
        delete-queue cq if-unused consumers=1 => 406 queue 'cq' in vhost '/' in use
        delete-queue cq if-empty ready=1 => 406 queue 'cq' in vhost '/' not empty
        delete-queue cq if-unused if-empty => deleted queue cq Deleted
        delete-queue cq if-unused => nothing
        queue cqq x-queue-type=quorum
        delete-queue cqq if-unused => 540 cannot delete queue 'cqq' in vhost '/'. queue.delete operations with if-unused flag set are not supported by quorum queues
        delete-queue cqq if-empty => 540 cannot delete queue 'cqq' in vhost '/'. queue.delete operations with if-empty flag set are not supported by quorum queues
        delete-queue cqq consumers=3 ready=4 => deleted queue cqq Deleted
        ",
    );
}

#[test]
fn the_broker_deletes_by_id() {
    check(
        "
        queue q
        remove-queue q => deleted queue q AutoDeleted
        queues =>
        ",
    );
}

#[test]
fn a_name_that_is_declared_again_starts_afresh() {
    check(
        "
        exchange x direct
        queue q
        bind x -> q k
        delete-queue q
        queue q
        bindings =>
        route x k => nowhere
        route '' q => q
        ",
    );
}

#[test]
fn limits_count_at_creation_only() {
    check(
        "
        queue a
        vhost-limit / max-queues 1 => limits of vhost /
        queue b => 406 cannot declare queue 'b': queue limit in vhost '/' (1) is reached
        queue a => same queue a
        vhost-limit / max-queues -1
        queue b => new queue b
        vhost-limit / max-queues 0
        queue c => 406 cannot declare queue 'c': queue limit in vhost '/' (0) is reached
        clear-vhost-limit / max-queues => limits of vhost /
        clear-vhost-limit / max-queues => nothing
        queue c => new queue c
        defaults queues=3
        queue d => 406 cannot declare queue 'd': queue limit in cluster (3) is reached
        ",
    );
}

#[test]
fn limits_come_before_arguments_and_reserved_names_before_limits() {
    check(
        "
        vhost-limit / max-queues 0
        queue q x-expires=0 => 406 cannot declare queue 'q': queue limit in vhost '/' (0) is reached
        queue amq.q => 403 queue name 'amq.q' contains reserved prefix 'amq.*'
        ",
    );
}

#[test]
fn deleting_a_vhost_takes_everything_in_it() {
    check(
        "
        vhost v => new vhost v
        vhost v => same vhost v
        exchange x direct in v
        queue b in v
        queue a in v
        bind x -> a k in v
        user u
        permission u .* .* .* in v
        delete-vhost v => deleted queue b VhostDeleted; deleted queue a VhostDeleted; deleted vhost v
        delete-vhost v => nothing
        queues =>
        bindings =>
        exchanges =>
        vhost v => new vhost v
        connect u in v => 530 access to vhost 'v' refused for user 'u'
        ",
    );
    check(
        "
        vhost v3 protected
        delete-vhost v3 => 406 Refusing to delete virtual host 'v3' because it is protected from deletion
        vhost v3
        delete-vhost v3 => deleted vhost v3
        ",
    );
}

#[test]
fn the_firehose_is_switched_by_the_vhost() {
    check(
        "
        vhost v tracing => new vhost v; tracing v true
        vhost v tracing => same vhost v
        vhost v => same vhost v; tracing v false
        ",
    );
}

#[test]
fn the_cluster_may_limit_vhosts() {
    check(
        "
        defaults vhosts=2
        vhost a => new vhost a
        vhost b => 406 cannot create vhost 'b': vhost limit of 2 is reached
        vhost a => same vhost a
        ",
    );
}

#[test]
fn a_user_may_be_limited_in_queues_of_all_vhosts_that_live() {
    check(
        "
        vhost v
        user ann
        user-limit ann max-queues 2
        queue a by ann => new queue a
        queue b exclusive by ann in v as 1 => new queue b
        queue c by ann => 406 cannot declare queue 'c': queue limit of user 'ann' (2) is reached
        queue a by ann => same queue a
        queue c by bob => new queue c
        queue d => new queue d
        end-connection 1
        queue e by ann => new queue e
        queue f by ann => 406 cannot declare queue 'f': queue limit of user 'ann' (2) is reached
        delete-queue a
        queue f by ann in v => new queue f
        delete-vhost v
        queue g by ann => new queue g
        clear-user-limit ann max-queues
        queue h by ann => new queue h
        ",
    );
}
