//! The operator's files: how often they were read again, and whether they are in force.

use super::exposition::Exposition;
use super::exposition::Kind::{Counter, Gauge};
use crate::state::Api;

pub(super) fn write(api: &Api, out: &mut Exposition) {
    let Some(door) = api.reload_door() else {
        return;
    };
    let status = door.status();
    for (what, files) in [
        ("configuration", &status.configuration),
        ("policy_files", &status.policies),
    ] {
        let name = |rest: &str| format!("sluicemq_{what}_{rest}");
        let help = "Times that files were put into force.";
        out.add(Counter, &name("loads_total"), help, &[], files.loads);
        let help = "Times that files were refused.";
        out.add(
            Counter,
            &name("load_failures_total"),
            help,
            &[],
            files.failures,
        );
        let help = "Whether the files as they are are in force.";
        out.add(
            Gauge,
            &name("in_force"),
            help,
            &[],
            u64::from(files.is_good()),
        );
    }
    let help = "Keys whose new value counts at the next start only.";
    out.add(
        Gauge,
        "sluicemq_configuration_restart_needed",
        help,
        &[],
        status.restart_needed.len() as u64,
    );
}
