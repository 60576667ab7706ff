//! Stories of messages on their way.

use super::check;

#[test]
fn every_queue_is_reached_by_its_name() {
    check(
        "
        queue q
        route '' q => q
        route '' nope => nowhere
        route '' x cc q,q => q
        route nope k => 404 no exchange 'nope' in vhost '/'
        ",
    );
}

#[test]
fn a_queue_gets_one_copy_however_many_bindings_match() {
    check(
        "
        exchange t topic
        exchange f fanout
        queue q
        bind t -> q a.*
        bind t -> q a.#
        bind t -> q #
        bind f -> q k1
        bind f -> q k2
        bind f -> exchange:t
        route t a.b => q
        route f a.b => q
        unbind f -> q k1
        route f x => q
        ",
    );
}

#[test]
fn many_queues_get_one_copy_each() {
    let queues: Vec<String> = (10..60).map(|n| format!("q{n}")).collect();
    let declared: String = queues
        .iter()
        .map(|q| format!("queue {q}\n bind f -> {q} a\n bind f -> {q} b\n bind g -> {q}\n"))
        .collect();
    check(&format!(
        "
        exchange f fanout
        exchange g fanout
        bind f -> exchange:g
        {declared}
        route f k => {}
        ",
        queues.join(" ")
    ));
}

#[test]
fn direct_takes_the_key_byte_by_byte() {
    check(
        "
        exchange d direct
        queue a
        queue b
        bind d -> a k
        bind d -> a k2
        bind d -> b k
        bind d -> b K
        route d k => a b
        route d K => b
        route d k2 => a
        route d k3 => nowhere
        route d k3 cc k2,K => a b
        unbind d -> a k
        route d k => b
        ",
    );
}

#[test]
fn one_binding_of_two_with_different_arguments_goes() {
    check(
        "
        exchange d direct
        queue q
        bind d -> q k a=1
        bind d -> q k a=2
        unbind d -> q k a=1
        route d k => q
        unbind d -> q k a=2
        route d k => nowhere
        ",
    );
}

#[test]
fn exchanges_pass_on_with_the_same_key_and_cycles_end() {
    check(
        "
        exchange a topic
        exchange b topic internal
        exchange c direct
        queue q
        queue p
        bind a -> exchange:b x.#
        bind b -> exchange:a x.#
        bind b -> exchange:c x.y
        bind c -> q x.y
        bind b -> p x.*
        route a x.y => p q
        route a x.z => p
        route a y => nowhere
        route b x.y => 403 cannot publish to internal exchange 'b' in vhost '/'
        route b x.y by-broker => p q
        ",
    );
}

#[test]
fn what_is_not_routed_goes_to_the_alternate_exchange() {
    check(
        "
        exchange x direct alternate-exchange=ae
        exchange y direct alternate-exchange=gone
        queue q
        queue lost
        bind x -> q k
        route x other => nowhere
        exchange ae fanout
        bind ae -> lost
        route x k => q
        route x other => lost
        route y k => nowhere
        ",
    );
}

#[test]
fn alternate_exchanges_may_lead_on_and_round() {
    check(
        "
        exchange a direct alternate-exchange=b
        exchange b direct alternate-exchange=a
        exchange c direct alternate-exchange=a
        exchange f fanout
        queue q
        bind b -> q k
        bind f -> exchange:c
        route a k => q
        route c k => q
        route f k => q
        route a none => nowhere
        ",
    );
}

#[test]
fn the_alternate_exchange_of_a_policy_yields_to_the_argument() {
    check(
        "
        exchange x direct
        exchange y direct alternate-exchange=by-argument
        exchange by-argument fanout
        exchange by-policy fanout
        queue a
        queue p
        bind by-argument -> a
        bind by-policy -> p
        policy ae ^[xy]$ exchanges 0 alternate-exchange=by-policy => new policy ae; reconfigured exchange x; reconfigured exchange y
        route x k => p
        route y k => a
        policy all .* exchanges 9 alternate-exchange=by-policy
        route '' no-such-queue => nowhere
        delete-policy all
        delete-policy ae => deleted policy ae; reconfigured exchange x; reconfigured exchange y
        route x k => nowhere
        ",
    );
}

#[test]
fn headers_match_by_value() {
    check(
        "
        exchange h headers
        queue all
        queue any
        queue x
        queue anyx
        queue present
        queue empty
        queue never
        bind h -> all '' a=1 b=two
        bind h -> any '' x-match=any a=1l b=two
        bind h -> x '' x-match=all-with-x x-a=1
        bind h -> anyx '' x-match=any-with-x x-a=1 x-b=2
        bind h -> present '' x-match=all p=void
        bind h -> empty
        bind h -> never '' x-match=any
        route h k => empty
        route h k a=1b b=two => all any empty
        route h k a=1 => any empty
        route h k a=1.0 => empty
        route h k a='1' => empty
        route h k a=true => empty
        route h k x-a=1l => anyx empty x
        route h k x-b=2 => anyx empty
        route h k p=anything => empty present
        ",
    );
}

#[test]
fn headers_that_start_with_x_take_no_part_unless_asked() {
    check(
        "
        exchange h headers
        queue q
        bind h -> q '' x-match=all x-secret=1 a=[1,x]
        route h k a=[1l,x] => q
        route h k a=[x,1] => nowhere
        ",
    );
}

#[test]
fn random_takes_one_of_the_bound() {
    check(
        "
        exchange r x-random
        exchange l x-local-random
        queue a
        queue b
        bind r -> a
        bind r -> b k
        bind l -> a
        bind l -> b
        seed 0
        route r any => a
        route l any => a
        seed 1
        route r any => b
        route l any => b
        seed 2
        route r any => a
        delete-queue a
        route r any => b
        delete-queue b
        route r any => nowhere
        ",
    );
}

#[test]
fn recent_history_is_a_fanout_that_asks_to_be_remembered() {
    check(
        "
        exchange r x-recent-history
        queue q
        bind r -> q
        route r k => q history r
        route r k x-recent-history-no-store=true => q
        ",
    );
}

#[test]
fn a_delayed_exchange_holds_what_asks_for_it() {
    check(
        "
        exchange d x-delayed-message x-delayed-type=direct alternate-exchange=ae
        exchange ae fanout
        exchange f fanout
        queue q
        queue lost
        bind d -> q k
        bind ae -> lost
        bind f -> exchange:d
        bind f -> lost
        route d k => q
        route d other => lost
        route d k x-delay=5000 => delay d 5000
        route d k x-delay=5000l => delay d 5000
        route d k x-delay='300' => delay d 300
        route d k x-delay=2.9 => delay d 2
        route d k x-delay=0 => q
        route d k x-delay=-5000 => q
        route d k x-delay=4294967295l => delay d 4294967295
        route d k x-delay=4294967296l => q
        route d k x-delay=soon => q
        route f k x-delay=7 => lost delay d 7
        ",
    );
}

#[test]
fn an_explanation_names_the_bindings() {
    check(
        "
        exchange t topic
        exchange f fanout
        exchange x direct alternate-exchange=f
        queue q
        queue p
        bind t -> q a.*
        bind t -> q b.*
        bind t -> exchange:f #.z
        bind f -> p
        explain t a.b => t -> q a.*
        explain t a.z => t -> q a.*; t -> exchange:f #.z; f -> p
        explain t none => nowhere
        explain x k => x alternate f; f -> p
        explain '' q => name q
        ",
    );
    check(
        "
        exchange d x-delayed-message x-delayed-type=headers
        queue q
        bind d -> q '' a=1
        explain d k a=1 => d -> q  a=1
        explain d k a=1 x-delay=5 => d delay 5
        exchange r x-random
        queue p
        bind r -> q
        bind r -> p
        seed 1
        explain r k => r -> p
        ",
    );
}

#[test]
fn a_route_that_depends_on_more_than_the_key_is_not_kept() {
    use crate::metadata::*;
    use crate::router::{NoMessage, RouteRequest, Routed};

    let mut metadata = Metadata::new(Defaults::default());
    let vhost = crate::VhostName::new("/");
    let put = MetadataChange::PutVhost {
        vhost: vhost.clone(),
        record: VhostRecord::default(),
    };
    metadata.apply(&put).unwrap();
    let kept = [
        ("direct", true),
        ("fanout", true),
        ("topic", true),
        ("x-modulus-hash", true),
        ("x-consistent-hash", true),
        ("headers", false),
        ("x-random", false),
        ("x-local-random", false),
        ("x-recent-history", false),
    ];
    for (kind, expected) in kept {
        let declare = MetadataChange::DeclareExchange {
            vhost: vhost.clone(),
            exchange: crate::ExchangeName::new(kind),
            exchange_type: kind.into(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: amqp::Table::new(),
        };
        metadata.apply(&declare).unwrap();
        let mut routed = Routed::default();
        let request = RouteRequest::publish(kind, b"k", &NoMessage);
        metadata
            .vhost(&vhost)
            .unwrap()
            .route(&request, &mut routed)
            .unwrap();
        assert_eq!(routed.cacheable, expected, "{kind}");
    }
}
