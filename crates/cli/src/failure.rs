//! Failures as a person reads them: what went wrong, why, and what to do next.
//!
//! Exit codes are those of `sysexits`, which RabbitMQ's tools use and scripts rely on.

use std::fmt;

use management_api::ClientError;

/// The command line cannot be used.
pub(crate) const USAGE: u8 = 64;
/// What was named is not there, or what was given is wrong.
pub(crate) const DATA: u8 = 65;
/// No such user.
pub(crate) const NO_USER: u8 = 67;
/// The broker does not answer, or a check failed.
pub(crate) const UNAVAILABLE: u8 = 69;
/// Everything else.
pub(crate) const SOFTWARE: u8 = 70;
/// It took too long.
pub(crate) const TEMPORARY: u8 = 75;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    what: String,
    why: Option<String>,
    next: Option<String>,
    pub(crate) code: u8,
}

impl Failure {
    pub(crate) fn new(code: u8, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: None,
            next: None,
            code,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(USAGE, what).next("sluicectl help")
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The command, or the deed, that helps.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Says before what happened what was tried.
    pub(crate) fn while_doing(mut self, deed: &str) -> Self {
        let what = std::mem::replace(&mut self.what, format!("could not {deed}"));
        self.why = Some(match self.why {
            Some(why) => format!("{what} ({why})"),
            None => what,
        });
        self
    }

    pub(crate) fn print(&self) {
        eprint!("{self}");
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.what)?;
        if let Some(why) = &self.why {
            writeln!(f, "  why:  {why}")?;
        }
        if let Some(next) = &self.next {
            writeln!(f, "  next: {next}")?;
        }
        Ok(())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Options(_) => Self::new(USAGE, text).next("sluicectl context list"),
            ClientError::Unreachable { url, why } => {
                Self::new(UNAVAILABLE, format!("no broker answers at {url}"))
                    .why(why)
                    .next("start it (sluicemq), or say where it is: --url http://HOST:15672")
            }
            ClientError::TimedOut { .. } => {
                Self::new(TEMPORARY, text).next("try again with a longer --timeout SECONDS")
            }
            ClientError::Refused { status, reason, .. } => refused(status, reason),
            ClientError::Unreadable { .. } => Self::new(SOFTWARE, text)
                .next("check that the address is the management port (15672): --url"),
        }
    }
}

fn refused(status: u16, reason: String) -> Failure {
    match status {
        401 if reason.contains("Not_Authorized") || reason.contains("401") => {
            Failure::new(DATA, "the broker does not know this user and password")
                .why("guest may log in from the broker's own machine only, others as set")
                .next("--user NAME --password PASSWORD, or sluicectl context add NAME …")
        }
        401 => Failure::new(DATA, "this user may not do that")
            .why(reason)
            .next("sluicectl whoami; sluicectl list permissions"),
        404 => Failure::new(DATA, "what was named is not there").why(reason),
        400 | 412 => Failure::new(DATA, "the broker refuses that").why(reason),
        503 => Failure::new(UNAVAILABLE, "the check failed").why(reason),
        status => Failure::new(SOFTWARE, format!("the broker answered {status}")).why(reason),
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(SOFTWARE, error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(DATA, format!("not JSON: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_why_and_the_next_command() {
        let failure = Failure::from(ClientError::Unreachable {
            url: "http://127.0.0.1:1".into(),
            why: "connection refused".into(),
        });
        assert_eq!(failure.code, UNAVAILABLE);
        insta::assert_snapshot!(failure.to_string(), @r"
        error: no broker answers at http://127.0.0.1:1
          why:  connection refused
          next: start it (sluicemq), or say where it is: --url http://HOST:15672
        ");
    }

    #[test]
    fn what_was_tried_comes_before_what_happened() {
        let failure = Failure::new(DATA, "no such queue").while_doing("purge queue 'a'");
        insta::assert_snapshot!(failure.to_string(), @r"
        error: could not purge queue 'a'
          why:  no such queue
        ");
    }
}
