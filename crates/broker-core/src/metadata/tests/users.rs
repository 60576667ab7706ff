//! Stories of users, their permissions and limits.

use super::check;

#[test]
fn users_come_and_go_with_their_permissions() {
    check(
        "
        user u administrator => new user u
        user u => same user u
        permission u .* .* .* => new permission u /
        permission u ^$ .* .* => same permission u /
        topic-permission u amq.topic ^a ^b => new topic permission u / amq.topic
        connect u => ok
        delete-user u => deleted user u
        delete-user u => nothing
        user u => new user u
        connect u => 530 access to vhost '/' refused for user 'u'
        ",
    );
}

#[test]
fn permissions_need_both_ends() {
    check(
        "
        user u
        permission nobody .* .* .* => 406 vhost_or_user_not_found
        permission u .* .* .* in nope => 406 vhost_or_user_not_found
        permission u ( .* .* => 406 invalid regular expression '(': Opening parenthesis without closing parenthesis
        clear-permission u => nothing
        permission u '' '' ''
        connect u => ok
        clear-permission u => no permission u /
        connect u => 530 access to vhost '/' refused for user 'u'
        connect u in nope => 530 vhost nope not found
        ",
    );
}

#[test]
fn topic_permissions_are_cleared_one_by_one_or_all() {
    check(
        "
        user u
        topic-permission u a .* .*
        topic-permission u b .* .*
        topic-permission u c .* .*
        clear-topic-permission u b => no topic permission u / b
        clear-topic-permission u => no topic permission u / a; no topic permission u / c
        clear-topic-permission u => nothing
        connect u => 530 access to vhost '/' refused for user 'u'
        ",
    );
}

#[test]
fn connections_and_channels_are_counted_against_limits() {
    check(
        "
        user u
        permission u .* .* .*
        vhost-limit / max-connections 2
        connect u in-vhost=1 => ok
        connect u in-vhost=2 => 530 access to vhost '/' refused for user 'u': connection limit (2) is reached
        vhost-limit / max-connections -1
        connect u in-vhost=200 => ok
        user-limit u max-connections 1
        connect u by-user=1 => 530 connection refused for user 'u': user connection limit (1) is reached
        user-limit u max-channels 3
        open-channel u open=2 => ok
        open-channel u open=3 => 530 number of channels opened for user 'u' has reached the maximum allowed user limit of 3
        clear-user-limit u max-channels
        open-channel u open=3 => ok
        ",
    );
}

#[test]
fn limits_are_checked() {
    check(
        "
        user u
        vhost-limit / max-queues x => 406 Validation failed||max-queues should be a number, actually was <<\"x\">>
        vhost-limit / bogus 1 => 406 Validation failed||Unrecognised terms [{<<\"bogus\">>,1}] in limits
        user-limit u max-memory 1 => 406 Validation failed||Unrecognised terms [{<<\"max-memory\">>,1}] in limits
        user-limit nobody max-channels 1 => 404 user 'nobody' not found
        vhost-limit nope max-queues 1 => 530 vhost nope not found
        ",
    );
}

#[test]
fn parameters_are_kept_for_components_that_exist() {
    check(
        "
        parameter shovel s value => new parameter s
        parameter shovel s other => same parameter s
        parameter bogus s value => 406 Validation failed||component bogus not found
        clear-parameter shovel s => no parameter s
        clear-parameter shovel s => nothing
        global-parameter cluster_name c => new global parameter cluster_name
        global-parameter cluster_name d => same global parameter cluster_name
        clear-global-parameter cluster_name => no global parameter cluster_name
        clear-global-parameter cluster_name => nothing
        ",
    );
}
