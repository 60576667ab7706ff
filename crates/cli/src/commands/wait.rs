//! Waiting until something holds, for scripts.

use std::time::{Duration, Instant};

use clap::Subcommand;
use management_api::{ClientError, api_path};
use serde_json::Value;

use crate::failure::{Failure, Result, TEMPORARY};
use crate::shell::Shell;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until something holds, no longer than `--timeout` seconds.
#[derive(Debug, Subcommand)]
pub(crate) enum Wait {
    /// The broker serves clients.
    Ready,
    /// A queue is there.
    Queue { name: String },
    /// A queue has no messages, neither ready nor handed out.
    Empty { queue: String },
    /// A queue has at least so many consumers.
    Consumers {
        queue: String,
        #[arg(default_value_t = 1)]
        count: u64,
    },
    /// A queue has at least so many messages.
    Messages {
        queue: String,
        #[arg(default_value_t = 1)]
        count: u64,
    },
}

impl Wait {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        until(shell, &self.what(), || self.holds(shell))
    }

    fn what(&self) -> String {
        match self {
            Self::Ready => "the broker serves clients".into(),
            Self::Queue { name } => format!("queue '{name}' is there"),
            Self::Empty { queue } => format!("queue '{queue}' is empty"),
            Self::Consumers { queue, count } => format!("queue '{queue}' has {count} consumers"),
            Self::Messages { queue, count } => format!("queue '{queue}' has {count} messages"),
        }
    }

    fn holds(&self, shell: &Shell) -> Result<bool> {
        match self {
            Self::Ready => is_ready(shell),
            Self::Queue { name } => Ok(queue(shell, name)?.is_some()),
            Self::Empty { queue: name } => {
                Ok(queue(shell, name)?.is_some_and(|queue| queue["messages"] == 0))
            }
            Self::Consumers { queue: name, count } => at_least(shell, name, "consumers", *count),
            Self::Messages { queue: name, count } => at_least(shell, name, "messages", *count),
        }
    }
}

fn at_least(shell: &Shell, name: &str, field: &str, count: u64) -> Result<bool> {
    let queue = queue(shell, name)?;
    Ok(queue
        .and_then(|queue| queue[field].as_u64())
        .is_some_and(|has| has >= count))
}

fn queue(shell: &Shell, name: &str) -> Result<Option<Value>> {
    match shell
        .client()?
        .get(&api_path(["queues", shell.vhost(), name]))
    {
        Ok(queue) => Ok(Some(queue)),
        Err(error) if super::delete::is_missing(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether clients are served; a broker that is not there yet is not.
pub(crate) fn is_ready(shell: &Shell) -> Result<bool> {
    match shell
        .client()?
        .get("/api/health/checks/ready-to-serve-clients")
    {
        Ok(_) => Ok(true),
        Err(
            ClientError::Unreachable { .. }
            | ClientError::TimedOut { .. }
            | ClientError::Refused { status: 503, .. },
        ) => Ok(false),
        // Who may not log in can still be told that the broker is ready.
        Err(ClientError::Refused { status: 401, .. }) => {
            Ok(shell.health_client()?.probe("/healthz/ready").is_ok())
        }
        Err(error) => Err(error.into()),
    }
}

/// Looks again and again, until it holds or the time is over.
pub(crate) fn until(
    shell: &Shell,
    what: &str,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + shell.timeout();
    let sign = crate::progress::waiting(&format!("waiting until {what}"), shell.quiet());
    while !holds()? {
        if Instant::now() >= deadline {
            sign.finish_and_clear();
            let waited = shell.timeout().as_secs_f64();
            return Err(
                Failure::new(TEMPORARY, format!("it did not come to pass that {what}"))
                    .why(format!("waited {waited} s"))
                    .next("wait longer: --timeout SECONDS"),
            );
        }
        std::thread::sleep(PAUSE);
    }
    sign.finish_and_clear();
    shell.say(what);
    Ok(())
}
