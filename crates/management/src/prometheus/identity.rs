//! Who answers: dashboards join every metric with these two.

use super::exposition::{Exposition, Kind};
use crate::routes::RUNTIME_VERSION;
use crate::state::Api;

pub(super) fn write(api: &Api, endpoint: &str, out: &mut Exposition) {
    let options = api.options();
    let version = options.rabbitmq_version.as_str();
    out.add(
        Kind::Untyped,
        "rabbitmq_build_info",
        "Versions.",
        &[
            ("rabbitmq_version", version),
            ("prometheus_plugin_version", version),
            ("prometheus_client_version", version),
            ("erlang_version", RUNTIME_VERSION),
            ("product_name", &options.product_name),
            ("product_version", &options.product_version),
        ],
        1_u64,
    );
    let cluster = api.cluster_name();
    out.add(
        Kind::Untyped,
        "rabbitmq_identity_info",
        "Node and cluster.",
        &[
            ("rabbitmq_node", api.node()),
            ("rabbitmq_cluster", &cluster),
            ("rabbitmq_cluster_permanent_id", &cluster),
            ("rabbitmq_endpoint", endpoint),
        ],
        1_u64,
    );
}
