//! The kinds of objects that can be listed: where each is in the API, and what of it people want
//! to see.

use clap::ValueEnum;
use management_api::api_path;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Queues.
    #[value(alias = "queue")]
    Queues,
    /// Exchanges.
    #[value(alias = "exchange")]
    Exchanges,
    /// Bindings.
    #[value(alias = "binding")]
    Bindings,
    /// Connections.
    #[value(alias = "connection")]
    Connections,
    /// Channels.
    #[value(alias = "channel")]
    Channels,
    /// Consumers.
    #[value(alias = "consumer")]
    Consumers,
    /// Virtual hosts.
    #[value(alias = "vhost")]
    Vhosts,
    /// Users.
    #[value(alias = "user")]
    Users,
    /// Permissions.
    #[value(alias = "permission")]
    Permissions,
    /// Topic permissions.
    #[value(alias = "topic-permission", alias = "topic_permissions")]
    TopicPermissions,
    /// Policies.
    #[value(alias = "policy")]
    Policies,
    /// Operator policies.
    #[value(alias = "operator-policy", alias = "operator_policies")]
    OperatorPolicies,
    /// Parameters of virtual hosts.
    #[value(alias = "parameter")]
    Parameters,
    /// Parameters of the whole cluster.
    #[value(alias = "global-parameter", alias = "global_parameters")]
    GlobalParameters,
    /// Limits of virtual hosts.
    #[value(alias = "vhost-limit", alias = "vhost_limits")]
    VhostLimits,
    /// Limits of users.
    #[value(alias = "user-limit", alias = "user_limits")]
    UserLimits,
    /// Nodes.
    #[value(alias = "node")]
    Nodes,
    /// Listeners.
    #[value(alias = "listener")]
    Listeners,
    /// Feature flags.
    #[value(alias = "feature-flag", alias = "feature_flags")]
    FeatureFlags,
    /// Deprecated features.
    #[value(alias = "deprecated-feature", alias = "deprecated_features")]
    DeprecatedFeatures,
    /// Logins by protocol.
    #[value(alias = "auth_attempts")]
    AuthAttempts,
}

/// Heads and fields of a table.
pub(crate) type Columns = &'static [(&'static str, &'static str)];

impl Kind {
    /// Where the list is, in one virtual host or in all.
    pub(crate) fn path(self, vhost: Option<&str>, node: &str) -> String {
        let within = |kind: &str| api_path([kind].into_iter().chain(vhost));
        match (self, vhost) {
            (Self::Queues, _) => within("queues"),
            (Self::Exchanges, _) => within("exchanges"),
            (Self::Bindings, _) => within("bindings"),
            (Self::Consumers, _) => within("consumers"),
            (Self::Policies, _) => within("policies"),
            (Self::OperatorPolicies, _) => within("operator-policies"),
            (Self::VhostLimits, _) => within("vhost-limits"),
            (Self::Connections, Some(vhost)) => api_path(["vhosts", vhost, "connections"]),
            (Self::Channels, Some(vhost)) => api_path(["vhosts", vhost, "channels"]),
            (Self::Permissions, Some(vhost)) => api_path(["vhosts", vhost, "permissions"]),
            (Self::TopicPermissions, Some(vhost)) => {
                api_path(["vhosts", vhost, "topic-permissions"])
            }
            (Self::Connections, None) => api_path(["connections"]),
            (Self::Channels, None) => api_path(["channels"]),
            (Self::Permissions, None) => api_path(["permissions"]),
            (Self::TopicPermissions, None) => api_path(["topic-permissions"]),
            (Self::Vhosts, _) => api_path(["vhosts"]),
            (Self::Users, _) => api_path(["users"]),
            (Self::Parameters, _) => api_path(["parameters"]),
            (Self::GlobalParameters, _) => api_path(["global-parameters"]),
            (Self::UserLimits, _) => api_path(["user-limits"]),
            (Self::Nodes, _) => api_path(["nodes"]),
            (Self::Listeners, _) => api_path(["overview"]),
            (Self::FeatureFlags, _) => api_path(["feature-flags"]),
            (Self::DeprecatedFeatures, _) => api_path(["deprecated-features"]),
            (Self::AuthAttempts, _) => api_path(["auth", "attempts", node]),
        }
    }

    /// Where one object of the kind is; `None` for kinds whose objects have no name of their own.
    pub(crate) fn path_of(self, vhost: &str, name: &str) -> Option<String> {
        Some(match self {
            Self::Queues => api_path(["queues", vhost, name]),
            Self::Exchanges => api_path(["exchanges", vhost, exchange_in_path(name)]),
            Self::Connections => api_path(["connections", name]),
            Self::Channels => api_path(["channels", name]),
            Self::Vhosts => api_path(["vhosts", name]),
            Self::Users => api_path(["users", name]),
            Self::Permissions => api_path(["permissions", vhost, name]),
            Self::Policies => api_path(["policies", vhost, name]),
            Self::OperatorPolicies => api_path(["operator-policies", vhost, name]),
            Self::GlobalParameters => api_path(["global-parameters", name]),
            Self::Nodes => api_path(["nodes", name]),
            Self::Bindings
            | Self::Consumers
            | Self::TopicPermissions
            | Self::Parameters
            | Self::VhostLimits
            | Self::UserLimits
            | Self::Listeners
            | Self::FeatureFlags
            | Self::DeprecatedFeatures
            | Self::AuthAttempts => return None,
        })
    }

    /// Whether its list can be had by pages.
    pub(crate) fn is_paged(self) -> bool {
        matches!(
            self,
            Self::Queues | Self::Exchanges | Self::Connections | Self::Channels
        )
    }

    /// The field that tells its objects apart.
    pub(crate) fn name_field(self) -> &'static str {
        match self {
            Self::Bindings => "properties_key",
            Self::Consumers => "consumer_tag",
            Self::Permissions | Self::TopicPermissions | Self::UserLimits => "user",
            Self::VhostLimits => "vhost",
            Self::Listeners => "protocol",
            Self::AuthAttempts => "protocol",
            _ => "name",
        }
    }

    /// What a table shows of it.
    pub(crate) fn columns(self) -> Columns {
        match self {
            Self::Queues => &[
                ("VHOST", "vhost"),
                ("NAME", "name"),
                ("TYPE", "type"),
                ("STATE", "state"),
                ("READY", "messages_ready"),
                ("UNACKED", "messages_unacknowledged"),
                ("CONSUMERS", "consumers"),
                ("POLICY", "policy"),
            ],
            Self::Exchanges => &[
                ("VHOST", "vhost"),
                ("NAME", "name"),
                ("TYPE", "type"),
                ("DURABLE", "durable"),
                ("INTERNAL", "internal"),
                ("POLICY", "policy"),
            ],
            Self::Bindings => &[
                ("VHOST", "vhost"),
                ("SOURCE", "source"),
                ("TO", "destination_type"),
                ("DESTINATION", "destination"),
                ("KEY", "routing_key"),
                ("ARGUMENTS", "arguments"),
            ],
            Self::Connections => &[
                ("NAME", "name"),
                ("CLIENT", "user_provided_name"),
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("STATE", "state"),
                ("CHANNELS", "channels"),
                ("TLS", "ssl"),
            ],
            Self::Channels => &[
                ("NAME", "name"),
                ("USER", "user"),
                ("VHOST", "vhost"),
                ("STATE", "state"),
                ("CONSUMERS", "consumer_count"),
                ("PREFETCH", "prefetch_count"),
                ("UNACKED", "messages_unacknowledged"),
                ("UNCONFIRMED", "messages_unconfirmed"),
            ],
            Self::Consumers => &[
                ("VHOST", "queue.vhost"),
                ("QUEUE", "queue.name"),
                ("TAG", "consumer_tag"),
                ("STATUS", "activity_status"),
                ("PREFETCH", "prefetch_count"),
                ("ACK", "ack_required"),
                ("CHANNEL", "channel_details.name"),
            ],
            Self::Vhosts => &[
                ("NAME", "name"),
                ("DESCRIPTION", "description"),
                ("QUEUE TYPE", "default_queue_type"),
                ("MESSAGES", "messages"),
                ("PROTECTED", "protected_from_deletion"),
            ],
            Self::Users => &[("NAME", "name"), ("TAGS", "tags")],
            Self::Permissions => &[
                ("VHOST", "vhost"),
                ("USER", "user"),
                ("CONFIGURE", "configure"),
                ("WRITE", "write"),
                ("READ", "read"),
            ],
            Self::TopicPermissions => &[
                ("VHOST", "vhost"),
                ("USER", "user"),
                ("EXCHANGE", "exchange"),
                ("WRITE", "write"),
                ("READ", "read"),
            ],
            Self::Policies | Self::OperatorPolicies => &[
                ("VHOST", "vhost"),
                ("NAME", "name"),
                ("PATTERN", "pattern"),
                ("APPLY TO", "apply-to"),
                ("PRIORITY", "priority"),
                ("DEFINITION", "definition"),
            ],
            Self::Parameters => &[
                ("VHOST", "vhost"),
                ("COMPONENT", "component"),
                ("NAME", "name"),
                ("VALUE", "value"),
            ],
            Self::GlobalParameters => &[("NAME", "name"), ("VALUE", "value")],
            Self::VhostLimits => &[("VHOST", "vhost"), ("LIMITS", "value")],
            Self::UserLimits => &[("USER", "user"), ("LIMITS", "value")],
            Self::Nodes => &[
                ("NAME", "name"),
                ("RUNNING", "running"),
                ("UPTIME MS", "uptime"),
                ("MEMORY", "mem_used"),
                ("MEMORY LIMIT", "mem_limit"),
                ("DISK FREE", "disk_free"),
                ("FDS", "fd_used"),
            ],
            Self::Listeners => &[
                ("PROTOCOL", "protocol"),
                ("ADDRESS", "ip_address"),
                ("PORT", "port"),
                ("TLS", "tls"),
                ("NODE", "node"),
            ],
            Self::FeatureFlags => &[
                ("NAME", "name"),
                ("STATE", "state"),
                ("STABILITY", "stability"),
            ],
            Self::DeprecatedFeatures => &[
                ("NAME", "name"),
                ("PHASE", "deprecation_phase"),
                ("STATE", "state"),
            ],
            Self::AuthAttempts => &[
                ("PROTOCOL", "protocol"),
                ("ATTEMPTS", "auth_attempts"),
                ("SUCCEEDED", "auth_attempts_succeeded"),
                ("FAILED", "auth_attempts_failed"),
            ],
        }
    }
}

/// The name of an exchange as paths have it: the default one has none of its own.
pub(crate) fn exchange_in_path(name: &str) -> &str {
    match name {
        "" => "amq.default",
        name => name,
    }
}
