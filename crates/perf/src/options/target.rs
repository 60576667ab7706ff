//! Which broker: how to reach it, and which process and folder to watch.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::client::{ClientOptions, TlsTrust};
use crate::uri::{Endpoint, UriFault};

#[derive(Clone, Debug, Args)]
pub(crate) struct BrokerOptions {
    /// The broker's process: measures its CPU, memory, system calls and fsyncs (the last as root).
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// The broker's data folder: measures its size.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Heartbeat interval; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) heartbeat: u16,
    /// Certificates (PEM) that may sign the broker's, for amqps: addresses; else the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Believe any certificate.
    #[arg(long)]
    pub(crate) tls_insecure: bool,
    /// Our certificate chain (PEM), for brokers that ask for one.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key to our certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Threads of this tool; it shares the machine with the broker.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
}

impl BrokerOptions {
    pub(crate) fn client(&self) -> ClientOptions {
        let identity = self.tls_cert.clone().zip(self.tls_key.clone());
        ClientOptions {
            trust: TlsTrust {
                authorities: self.tls_ca.clone(),
                insecure: self.tls_insecure,
                identity,
            },
            heartbeat_seconds: self.heartbeat,
        }
    }
}

/// One of the brokers of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) pid: Option<u32>,
    pub(crate) data_dir: Option<PathBuf>,
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetFault {
    #[error("{0:?} is no target; write name=amqp://host:port, then ,pid=N and ,data-dir=DIR")]
    Shape(String),
    #[error(transparent)]
    Uri(#[from] UriFault),
    #[error("{0:?} is no process number")]
    Pid(String),
    #[error("{0:?} is nothing that a target has; it has pid and data-dir")]
    Option(String),
}

impl FromStr for Target {
    type Err = TargetFault;

    fn from_str(text: &str) -> Result<Self, TargetFault> {
        let shape = || TargetFault::Shape(text.to_owned());
        let mut parts = text.split(',');
        let (name, uri) = parts
            .next()
            .and_then(|part| part.split_once('='))
            .ok_or_else(shape)?;
        if name.is_empty() || name.contains("://") {
            return Err(shape());
        }
        let mut target = Self {
            name: name.to_owned(),
            endpoint: uri.parse()?,
            pid: None,
            data_dir: None,
        };
        for part in parts {
            match part.split_once('=') {
                Some(("pid", pid)) => {
                    let pid = pid.parse().map_err(|_| TargetFault::Pid(pid.to_owned()))?;
                    target.pid = Some(pid);
                }
                Some(("data-dir", dir)) => target.data_dir = Some(dir.into()),
                _ => return Err(TargetFault::Option(part.to_owned())),
            }
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, TargetFault> {
        text.parse()
    }

    #[test]
    fn a_target_is_a_name_an_address_and_what_to_watch() {
        let target = parse("ours=amqp://h:1/v,pid=7,data-dir=d/e").unwrap();
        assert_eq!(target.name, "ours");
        assert_eq!(target.endpoint.to_string(), "amqp://h:1/v");
        assert_eq!(target.pid, Some(7));
        assert_eq!(target.data_dir, Some("d/e".into()));
        assert_eq!(parse("a=amqp://h").unwrap().pid, None);
    }

    #[test]
    fn each_bad_part_of_a_target_is_named() {
        let shape = TargetFault::Shape("amqp://h".to_owned());
        assert_eq!(parse("amqp://h"), Err(shape));
        assert!(matches!(parse("a=http://h"), Err(TargetFault::Uri(_))));
        let pid = TargetFault::Pid("x".to_owned());
        assert_eq!(parse("a=amqp://h,pid=x"), Err(pid));
        let option = TargetFault::Option("colour=red".to_owned());
        assert_eq!(parse("a=amqp://h,colour=red"), Err(option));
    }
}
