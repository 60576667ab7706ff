//! Health checks, with an exit code that scripts can use.

use clap::Args;
use management_api::{Client, ClientError};
use serde_json::{Value, json};

use crate::failure::{Failure, Result, UNAVAILABLE};
use crate::shell::Shell;

/// Runs a health check.
#[derive(Args, Debug)]
pub(crate) struct HealthCheck {
    /// alarms, local-alarms, virtual-hosts, port-listener/5672, protocol-listener/amqp,
    /// node-is-quorum-critical, is-in-service, ready-to-serve-clients, …; and without a login
    /// live and ready, on the port of the metrics [env: SLUICECTL_HEALTH_URL].
    #[arg(default_value = "alarms")]
    check: String,
}

impl HealthCheck {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let check = self.check.replace('_', "-");
        let answer = match check.as_str() {
            "live" | "ready" => probe(&shell.health_client()?, &check),
            _ => shell.client()?.get(&format!("/api/health/checks/{check}")),
        };
        match answer {
            Ok(ok) => shell.answer(&ok, || format!("{check}: ok\n")),
            Err(ClientError::Refused {
                status: 503,
                reason,
                ..
            }) => Err(Failure::new(UNAVAILABLE, format!("{check}: failed"))
                .why(reason)
                .next("sluicectl doctor")),
            Err(ClientError::Refused { status: 404, .. }) => {
                Err(Failure::usage(format!("there is no check '{check}'"))
                    .next("sluicectl health --help"))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn probe(client: &Client, check: &str) -> std::result::Result<Value, ClientError> {
    client.probe(&format!("/healthz/{check}"))?;
    Ok(json!({"status": "ok"}))
}
