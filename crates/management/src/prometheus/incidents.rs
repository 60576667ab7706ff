//! What goes wrong in queues: incidents, deaths, returns and dead letters that wait.

use broker::observe::QueueView;

use super::exposition::Exposition;
use super::exposition::Kind::{self, Counter, Gauge};
use super::objects::Scope;
use super::queues;
use crate::show::REASONS;
use crate::state::Api;

/// One figure of queues: kind, name, help, number.
type Figure = (Kind, &'static str, &'static str, fn(&QueueView) -> u64);

const FIGURES: [Figure; 4] = [
    (
        Gauge,
        "messages_delayed",
        "Returned messages that are held back.",
        |view| view.counts.delayed,
    ),
    (
        Gauge,
        "messages_dead_lettering",
        "Dead messages that wait for the confirms of their targets.",
        |view| view.counts.dead_lettering,
    ),
    (
        Gauge,
        "dead_letters_held",
        "Queues whose dead letters cannot go.",
        |view| u64::from(view.dead_letters_held.is_some()),
    ),
    (
        Counter,
        "late_settles_total",
        "Settlements of deliveries that nobody held any more.",
        |view| view.counts.late_settles,
    ),
];

pub(super) fn write(api: &Api, scope: &Scope, out: &mut Exposition) {
    for (kind, count) in api.broker().incident_counts() {
        let help = "Incidents in queues since the node started.";
        let labels = [("kind", kind)];
        out.add(Counter, "sluicemq_incidents_total", help, &labels, count);
    }
    let views = queues::views(api, scope);
    for (kind, name, help, number) in FIGURES {
        let name = format!("sluicemq_queue_{name}");
        if scope.is_sum() {
            let sum: u64 = views.iter().map(number).sum();
            out.add(kind, &name, help, &[], sum);
            continue;
        }
        for view in &views {
            let record = &view.record;
            let labels = [
                ("vhost", record.vhost.as_str()),
                ("queue", record.name.as_str()),
            ];
            out.add(kind, &name, help, &labels, number(view));
        }
    }
    write_deaths(&views, scope, out);
}

/// Deaths of queues that are there; the sums over all that ever were are RabbitMQ's families.
fn write_deaths(views: &[QueueView], scope: &Scope, out: &mut Exposition) {
    if scope.is_sum() {
        return;
    }
    let name = "sluicemq_queue_deaths_total";
    let help = "Messages that died, by reason and by what became of them.";
    for view in views {
        let fates = [
            ("dead-lettered", &view.deaths.dead_lettered),
            ("dropped", &view.deaths.dropped),
        ];
        for (fate, deaths) in fates {
            let died = REASONS.iter().zip(deaths).filter(|(_, count)| **count > 0);
            for (reason, count) in died {
                let labels = [
                    ("vhost", view.record.vhost.as_str()),
                    ("queue", view.record.name.as_str()),
                    ("reason", reason.name()),
                    ("fate", fate),
                ];
                out.add(Counter, name, help, &labels, *count);
            }
        }
    }
}
