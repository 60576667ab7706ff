//! Stories of policies.

use super::check;

#[test]
fn the_highest_matching_policy_is_taken_whole() {
    check(
        "
        queue jobs.a
        policy low .* queues 1 max-length=1 message-ttl=60000 => new policy low; reconfigured jobs.a
        policy high ^jobs\\. all 9 max-length=3 => new policy high; reconfigured jobs.a
        policy other ^JOBS all 99 max-length=0 => new policy other
        policy exch .* exchanges 100 alternate-exchange=x
        settings jobs.a => max-length=3(policy:high)
        policies-of jobs.a => high - max-length=3
        delete-policy high => deleted policy high; reconfigured jobs.a
        settings jobs.a => max-length=1(policy:low) message-ttl=60000(policy:low)
        delete-policy low => deleted policy low; reconfigured jobs.a
        settings jobs.a => plain
        delete-policy low => nothing
        ",
    );
}

#[test]
fn equal_priorities_go_by_name_and_fractions_count() {
    check(
        "
        queue q
        policy b .* queues 1 max-length=2
        policy a .* queues 1 max-length=1
        policies-of q => a - max-length=1
        policy c .* queues 1.5 max-length=3
        policies-of q => c - max-length=3
        ",
    );
}

#[test]
fn a_pattern_is_searched_anywhere_and_the_empty_one_matches_all() {
    check(
        "
        queue my-orders-q
        policy p orders queues 0 max-length=1
        policies-of my-orders-q => p - max-length=1
        policy p ^orders queues 0 max-length=1
        policies-of my-orders-q => - -
        policy p '' queues 0 max-length=1
        policies-of my-orders-q => p - max-length=1
        policy p ^(?!my-) queues 0 max-length=1
        policies-of my-orders-q => - -
        ",
    );
}

#[test]
fn apply_to_narrows() {
    check(
        "
        queue c
        queue q x-queue-type=quorum
        policy p .* quorum_queues 5 max-length=1
        policies-of c => - -
        policies-of q => p - max-length=1
        policy p .* classic_queues 5 max-length=1
        policies-of c => p - max-length=1
        policies-of q => - -
        policy p .* streams 5 max-age=1h
        policies-of c => - -
        policy p .* exchanges 5 alternate-exchange=x
        policies-of q => - -
        ",
    );
}

#[test]
fn one_key_that_the_type_does_not_know_skips_the_policy() {
    check(
        "
        queue c
        queue q x-queue-type=quorum
        policy first .* all 9 delivery-limit=3 max-length=7
        policy second .* all 1 max-length=5 queue-mode=lazy
        policies-of c => second - max-length=5 queue-mode=<<\"lazy\">>
        policies-of q => first - delivery-limit=3 max-length=7
        delete-policy first
        policies-of q => - -
        ",
    );
}

#[test]
fn an_operator_policy_bounds_what_users_say() {
    check(
        "
        queue q
        policy user ^q$ all 0 max-length=9 overflow=reject-publish
        operator-policy ops ^q all 0 max-length=2 message-ttl=60000
        policies-of q => user ops max-length=2 message-ttl=60000 overflow=<<\"reject-publish\">>
        settings q => max-length=2(operator:ops) message-ttl=60000(operator:ops) overflow=reject-publish(policy:user)
        policy user ^q$ all 0 max-length=1
        settings q => max-length=1(policy:user) message-ttl=60000(operator:ops)
        delete-operator-policy ops => deleted policy ops; reconfigured q
        settings q => max-length=1(policy:user)
        ",
    );
}

#[test]
fn each_key_has_its_rule_against_the_operator() {
    check(
        "
        queue q x-queue-type=quorum
        policy u .* all 0 delivery-limit=5 overflow=drop-head target-group-size=3 delayed-retry-type=all delayed-retry-min=10 delayed-retry-max=100 expires=9 capacity=0
        operator-policy o .* all 0 delivery-limit=7 overflow=reject-publish target-group-size=5 delayed-retry-type=failed delayed-retry-min=20 delayed-retry-max=50 expires=8 capacity=70
        policies-of q => u o capacity=70 delayed-retry-max=50 delayed-retry-min=20 delayed-retry-type=<<\"failed\">> delivery-limit=5 expires=8 overflow=<<\"reject-publish\">> target-group-size=5
        policy u .* all 0 delivery-limit=-1
        operator-policy o .* all 0 delivery-limit=7
        policies-of q => u o delivery-limit=7
        operator-policy o .* all 0 delivery-limit=-1
        policy u .* all 0 delivery-limit=7
        policies-of q => u o delivery-limit=7
        ",
    );
}

#[test]
fn arguments_and_policies_settle_key_by_key() {
    check(
        "
        queue c x-max-length=5 x-message-ttl=100 x-overflow=reject-publish x-dead-letter-exchange=a
        policy p .* all 0 max-length=3 message-ttl=200 overflow=drop-head dead-letter-exchange=b dead-letter-routing-key=k expires=1000
        settings c => dead-letter-exchange=a(argument) dead-letter-routing-key=k(policy:p) expires=1000(policy:p) max-length=3(policy:p) message-ttl=100(argument) overflow=reject-publish(argument)
        queue q x-queue-type=quorum x-overflow=reject-publish x-max-length=2
        settings q => consumer-timeout=1800000(default) dead-letter-exchange=b(policy:p) dead-letter-routing-key=k(policy:p) delivery-limit=20(default) expires=1000(policy:p) max-length=2(argument) message-ttl=200(policy:p) overflow=drop-head(policy:p)
        ",
    );
}

#[test]
fn the_smaller_delivery_limit_holds_unless_one_is_none() {
    check(
        "
        queue q x-queue-type=quorum x-delivery-limit=5
        settings q => consumer-timeout=1800000(default) delivery-limit=5(argument)
        policy p .* quorum_queues 0 delivery-limit=3
        settings q => consumer-timeout=1800000(default) delivery-limit=3(policy:p)
        policy p .* quorum_queues 0 delivery-limit=-1
        settings q => consumer-timeout=1800000(default) delivery-limit=5(argument)
        queue u x-queue-type=quorum x-delivery-limit=-1
        settings u => consumer-timeout=1800000(default) delivery-limit=-1(argument)
        queue w x-queue-type=quorum x-delivery-limit=abc
        settings w => consumer-timeout=1800000(default) delivery-limit=-1(policy:p)
        ",
    );
}

#[test]
fn the_defaults_of_a_vhost_hold_when_nobody_says_more() {
    check(
        "
        queue q
        vhost-defaults / capacity=1000 max-length=50
        settings q => capacity=1000(vhost) max-length=50(vhost)
        policies-of q => - -
        policy p .* queues 0 max-length=70
        settings q => capacity=1000(vhost) max-length=70(policy:p)
        operator-policy o .* queues 0 capacity=500
        settings q => capacity=500(operator:o) max-length=70(policy:p)
        vhost-defaults /
        settings q => capacity=500(operator:o) max-length=70(policy:p)
        vhost-defaults / bogus=1 => 406 Validation failed||[{<<\"bogus\">>,1}] are not recognised policy settings
        ",
    );
}

#[test]
fn the_clusters_defaults_reach_quorum_queues() {
    check(
        "
        queue c
        queue q x-queue-type=quorum
        queue own x-queue-type=quorum x-delivery-limit=5
        defaults delivery-limit=7 => defaults; reconfigured q
        defaults delivery-limit=7 => nothing
        ",
    );
}

#[test]
fn new_objects_find_the_policies_that_are_there() {
    check(
        "
        policy p .* all 0 max-length=3
        policy ae .* exchanges 1 alternate-exchange=amq.fanout
        queue q
        settings q => max-length=3(policy:p)
        queue lost
        bind amq.fanout -> lost
        exchange x direct
        route x k => lost
        ",
    );
}

#[test]
fn what_a_file_holds_is_read_only_elsewhere() {
    check(
        "
        queue q
        policy hand .* queues 0 max-length=1
        file-policies filed .* queues 5 max-length=2 => new policy filed; reconfigured q
        file-policies filed .* queues 5 max-length=2 => nothing
        policy filed .* queues 0 max-length=9 => 403 policy 'filed' in vhost '/' comes from a policy file and is read-only here
        delete-policy filed => 403 policy 'filed' in vhost '/' comes from a policy file and is read-only here
        file-policies hand .* queues 5 max-length=3 => deleted policy filed; same policy hand; reconfigured q
        settings q => max-length=3(policy:hand)
        file-policies bad ( queues 5 max-length=3 => 406 Validation failed||pattern should be regular expression but is invalid: {\"Opening parenthesis without closing parenthesis\",1}
        settings q => max-length=3(policy:hand)
        file-policies => deleted policy hand; reconfigured q
        settings q => plain
        ",
    );
}

#[test]
fn a_policy_that_is_not_understood_is_refused_whole() {
    check(
        "
        policy p .* queues 0 max-length=x => 406 Validation failed||<<\"x\">> is not a valid maximum length
        policy p .* queues 0 max-length=-1 => 406 Validation failed||-1 is not a valid maximum length
        policy p .* queues 0 expires=0 => 406 Validation failed||0 is not a valid queue expiry
        policy p .* queues 0 overflow=reject_publish => 406 Validation failed||<<\"reject_publish\">> is not a valid overflow value
        policy p .* queues 0 => 406 Validation failed||no policy provided
        policy p .* queues 0 bogus=11 => 406 Validation failed||[{<<\"bogus\">>,11}] are not recognised policy settings
        policy p .* zebras 0 max-length=1 => 406 Validation failed||apply-to 'zebras' unrecognised; should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'
        policy p .* queues high max-length=1 => 406 Validation failed||priority should be a number, actually was <<\"high\">>
        policy p .* queues 0 delayed-retry-type=all => 406 Validation failed||delayed-retry-min is required when delayed-retry-type is all
        policy p .* queues 0 delayed-retry-min=5 delayed-retry-max=4 => 406 Validation failed||delayed-retry-max must be greater than or equal to delayed-retry-min
        policy p .* queues 0 delayed-retry-type=disabled => new policy p
        operator-policy o .* queues 0 dead-letter-exchange=x => 406 Validation failed||[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not recognised policy settings
        operator-policy o .* queues 0 consumer-timeout=5 => 406 Validation failed||[{<<\"consumer-timeout\">>,5}] are not recognised policy settings
        policy p .* queues 0 max-length=1 in nope => 530 vhost nope not found
        ",
    );
}
