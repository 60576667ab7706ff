//! Stories of bindings.

use super::check;

#[test]
fn a_binding_is_its_ends_key_and_arguments() {
    check(
        "
        exchange h headers
        queue q1
        bind h -> q1 '' x-match=all kind=a => new binding h -> q1  kind=a x-match=all
        bind h -> q1 '' kind=a x-match=all => same binding h -> q1  kind=a x-match=all
        bind h -> q1 '' x-match=all kind=c => new binding h -> q1  kind=c x-match=all
        unbind h -> q1 '' x-match=all kind=z => nothing
        unbind h -> q1 => nothing
        unbind h -> q1 '' kind=a x-match=all => unbound h -> q1  kind=a x-match=all
        bindings => h -> q1  kind=c x-match=all
        ",
    );
}

#[test]
fn the_source_is_missed_first() {
    check(
        "
        exchange x direct
        queue q
        bind nox -> noq k => 404 no exchange 'nox' in vhost '/'
        bind x -> noq k => 404 no queue 'noq' in vhost '/'
        bind x -> exchange:noe k => 404 no exchange 'noe' in vhost '/'
        ",
    );
}

#[test]
fn unbinding_what_is_not_there_is_no_error() {
    check(
        "
        exchange x direct
        queue q
        unbind x -> q k => nothing
        unbind nox -> q k => nothing
        unbind x -> noq k => nothing
        ",
    );
}

#[test]
fn each_type_checks_its_bindings() {
    check(
        "
        queue q
        queue qq x-queue-type=quorum
        exchange t topic
        bind t -> q #.a.#.b.# => 406 Topic binding key '#.a.#.b.#' uses 3 '#' wildcards, at most 2 are allowed
        bind t -> q #.a.# => new binding t -> q #.a.#
        bind t -> q #a.#b.#c.## => new binding t -> q #a.#b.#c.##
        exchange h headers
        bind h -> q '' x-match=bogus => 406 Invalid x-match field value <<\"bogus\">>; expected all, any, all-with-x, or any-with-x
        bind h -> q '' x-match=1 => 406 Invalid x-match field type signedint (value 1); expected longstr
        exchange c x-consistent-hash
        bind c -> q abc => 406 The binding key must be an integer: <<\"abc\">>
        bind c -> q 0 => 406 The binding key must be greater than 0
        bind c -> q -3 => 406 The binding key must be greater than 0
        bind c -> q 99999999999 => 406 The binding key must not be greater than 4294967295
        bind c -> q 5 => new binding c -> q 5
        exchange l x-local-random
        bind l -> q k => 406 Non empty binding 'k' key not permitted
        bind l -> qq => 406 Queue type rabbit_quorum_queue not valid for this exchange type
        bind l -> exchange:t => 406 Destination not found
        bind l -> q => new binding l -> q
        exchange d x-delayed-message x-delayed-type=topic
        bind d -> q #.#.# => 406 Topic binding key '#.#.#' uses 3 '#' wildcards, at most 2 are allowed
        ",
    );
}

#[test]
fn keys_are_bounded() {
    let long = "k".repeat(256);
    check(&format!(
        "
        exchange x direct
        queue q
        bind x -> q {long} => 406 binding key name is longer than 255 bytes
        "
    ));
}
