//! `rabbitmq.conf`: the settings in it that mean something here, and a word on each of the others.
//!
//! Knows RabbitMQ's names and units for what this broker has, too. The file counts less than
//! every other source, so that a moved broker can be changed key by key.

use std::path::Path;

use crate::error::{Fault, Origin, Place, Problem};
use crate::keys::Keys;
use crate::layer::{self, Layer, Source};

/// One setting of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfLine {
    /// Its line, from 1.
    pub line: usize,
    /// RabbitMQ's name of it.
    pub name: String,
    /// What became of it.
    pub understood: Understood,
}

/// What became of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Understood {
    /// It is taken over as this key.
    As(&'static str),
    /// It is not needed here.
    NotNeeded(&'static str),
    /// It means nothing here: the broker behaves as if it were not there.
    Unknown,
}

/// The settings as layers, one for each, and the word on every line.
pub(crate) struct Read {
    pub(crate) layers: Vec<Layer>,
    pub(crate) lines: Vec<ConfLine>,
}

/// How a value is written here.
type Convert = fn(&str) -> Option<String>;

/// RabbitMQ's name, our key, and how the value is turned.
const NAMES: &[(&str, &str, Convert)] = &[
    ("listeners.tcp.default", "listeners.amqp", plain),
    ("listeners.ssl.default", "listeners.amqps", plain),
    ("management.tcp.port", "listeners.management", plain),
    ("management.ssl.port", "listeners.management_tls", plain),
    ("prometheus.tcp.port", "listeners.metrics", plain),
    ("default_user", "auth.default_user", plain),
    ("default_pass", "auth.default_password", plain),
    ("default_vhost", "auth.default_vhost", plain),
    ("anonymous_login_user", "auth.anonymous_user", plain),
    ("anonymous_login_pass", "auth.anonymous_password", plain),
    ("ssl_options.certfile", "tls.certificate", plain),
    ("ssl_options.keyfile", "tls.private_key", plain),
    ("ssl_options.cacertfile", "tls.client_authorities", plain),
    ("ssl_cert_login_from", "tls.login_from", login_from),
    ("ssl_cert_login_san_type", "tls.login_san_type", plain),
    ("ssl_cert_login_san_index", "tls.login_san_index", plain),
    ("load_definitions", "definitions.path", plain),
    ("definitions.local.path", "definitions.path", plain),
    (
        "definitions.skip_if_unchanged",
        "definitions.skip_if_unchanged",
        plain,
    ),
    (
        "vm_memory_high_watermark.relative",
        "memory.high_watermark",
        plain,
    ),
    (
        "vm_memory_high_watermark.absolute",
        "memory.high_watermark",
        size,
    ),
    ("disk_free_limit.absolute", "disk.free_limit", size),
    ("frame_max", "limits.frame_max", plain),
    ("channel_max", "limits.channel_max", plain),
    ("heartbeat", "limits.heartbeat", seconds),
    ("max_message_size", "limits.max_message_size", size),
    ("connection_max", "limits.max_connections", plain),
    ("handshake_timeout", "limits.handshake_timeout", plain),
    ("consumer_timeout", "quorum.consumer_timeout", plain),
    ("log.console.level", "log.level", level),
    ("log.default.level", "log.level", level),
    ("log.console.formatter", "log.format", format),
    ("cluster_name", "node.name", |_| None),
];

/// Settings that this broker has no use for, with the reason.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("management.", "the HTTP API is always there"),
    ("prometheus.", "metrics are always there"),
    ("plugins.", "nothing is a plugin here"),
    ("tcp_listen_options.", "sockets are set up by the broker"),
    ("ssl_options.depth", "chains are checked as a whole"),
    (
        "ssl_options.honor_",
        "the server's order of ciphers always counts",
    ),
    ("num_acceptors.", "one task accepts"),
    ("collect_statistics", "statistics are always collected"),
    ("queue_index_", "the store decides by itself"),
    ("quorum_queue.", "see the section quorum"),
    ("raft.", "see the section storage"),
    (
        "classic_queue.",
        "classic queues keep their messages in the common store",
    ),
    ("log.", "the log goes to standard error"),
    ("distribution.", "there is no Erlang distribution"),
    ("net_ticktime", "there is no Erlang distribution"),
    ("deprecated_features.", "see the documentation of each"),
    ("auth_backends.1", "the internal backend is the only one"),
];

fn plain(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// RabbitMQ reads `2GB` and `2G` as powers of 1000, `2GiB` and `2Gi` as powers of 1024.
fn size(value: &str) -> Option<String> {
    let split = value.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &value[split..] {
        "k" | "K" | "kB" | "KB" => "kB",
        "M" | "MB" => "MB",
        "G" | "GB" => "GB",
        "T" | "TB" => "TB",
        "Ki" | "KiB" | "kiB" => "KiB",
        "Mi" | "MiB" => "MiB",
        "Gi" | "GiB" => "GiB",
        "Ti" | "TiB" => "TiB",
        _ => return None,
    };
    Some(format!("{}{unit}", &value[..split]))
}

fn seconds(value: &str) -> Option<String> {
    match value {
        "0" => Some("off".to_owned()),
        _ => Some(format!("{value}s")),
    }
}

fn login_from(value: &str) -> Option<String> {
    match value {
        "subject_alternative_name" | "subject_alt_name" => {
            Some("subject_alternative_name".to_owned())
        }
        _ => plain(value),
    }
}

fn level(value: &str) -> Option<String> {
    Some(
        match value {
            "critical" => "error",
            "warning" => "warn",
            "none" => "off",
            other => other,
        }
        .to_owned(),
    )
}

fn format(value: &str) -> Option<String> {
    match value {
        "json" => Some("json".to_owned()),
        "plaintext" => Some("text".to_owned()),
        _ => None,
    }
}

/// Reads the file's text.
pub(crate) fn read(keys: &Keys, path: &Path, text: &str, faults: &mut Vec<Fault>) -> Read {
    let mut conf = Conf {
        keys,
        path,
        faults,
        read: Read {
            layers: Vec::new(),
            lines: Vec::new(),
        },
        mechanisms: Vec::new(),
        ciphers: Vec::new(),
        loopback_users: Vec::new(),
        verify_peer: false,
        required: false,
    };
    for (nth, line) in text.lines().enumerate() {
        conf.line(nth + 1, line);
    }
    conf.gathered();
    conf.read
}

struct Conf<'a> {
    keys: &'a Keys,
    path: &'a Path,
    faults: &'a mut Vec<Fault>,
    read: Read,
    /// Values that are written one by one.
    mechanisms: Vec<(usize, String)>,
    ciphers: Vec<(usize, String)>,
    loopback_users: Vec<(usize, String)>,
    verify_peer: bool,
    required: bool,
}

impl Conf<'_> {
    fn line(&mut self, line: usize, text: &str) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        let Some((name, value)) = text.split_once('=') else {
            self.faults.push(Fault {
                origin: Origin::File {
                    path: self.path.to_owned(),
                    place: Some(Place { line, column: 1 }),
                },
                key: None,
                problem: Problem::Syntax {
                    why: format!("{text:?} is no setting"),
                    hint: Some("a line of rabbitmq.conf is NAME = VALUE or a comment".to_owned()),
                },
            });
            return;
        };
        let value = value.trim().trim_matches('\'');
        let name = name.trim().to_owned();
        let understood = self.setting(line, &name, value);
        self.read.lines.push(ConfLine {
            line,
            name,
            understood,
        });
    }

    fn setting(&mut self, line: usize, name: &str, value: &str) -> Understood {
        let entry = (line, value.to_owned());
        let (head, rest) = name.split_once('.').unwrap_or((name, ""));
        match (head, rest) {
            ("auth_mechanisms", _) => {
                self.mechanisms.push(entry);
                return Understood::As("auth.mechanisms");
            }
            ("loopback_users", "") if value == "none" => {
                self.set(line, "auth.loopback_users", "[]");
                return Understood::As("auth.loopback_users");
            }
            ("loopback_users", user) => {
                let user = if user.parse::<u16>().is_ok() {
                    value
                } else {
                    user
                };
                if value == "false" {
                    self.set(line, "auth.loopback_users", "[]");
                } else {
                    self.loopback_users.push((line, user.to_owned()));
                }
                return Understood::As("auth.loopback_users");
            }
            ("ssl_options", "verify") => {
                self.verify_peer = value == "verify_peer";
                return Understood::As("tls.client_certificates");
            }
            ("ssl_options", "fail_if_no_peer_cert") => {
                self.required = value == "true";
                return Understood::As("tls.client_certificates");
            }
            ("ssl_options", rest) if rest.starts_with("versions.") => {
                return self.version(line, value);
            }
            ("ssl_options", rest) if rest.starts_with("ciphers.") => {
                self.ciphers.push(entry);
                return Understood::As("tls.cipher_suites");
            }
            _ => {}
        }
        // Listeners may have any name: `listeners.tcp.1`.
        let name = match name.rsplit_once('.') {
            Some((listener @ ("listeners.tcp" | "listeners.ssl"), _)) => {
                format!("{listener}.default")
            }
            _ => name.to_owned(),
        };
        self.known(line, &name, value)
    }

    fn known(&mut self, line: usize, name: &str, value: &str) -> Understood {
        if let Some((_, key, convert)) = NAMES.iter().find(|(known, ..)| *known == name) {
            // What cannot be turned is judged as it stands, by the key's own type.
            let turned = match convert(value) {
                Some(turned) => turned,
                None if name == "cluster_name" => {
                    return Understood::NotNeeded("the cluster's name is set over HTTP");
                }
                None => value.to_owned(),
            };
            self.set(line, key, &turned);
            return Understood::As(key);
        }
        let not_needed = NOT_NEEDED.iter().find(|(start, _)| name.starts_with(start));
        not_needed.map_or(Understood::Unknown, |(_, why)| Understood::NotNeeded(why))
    }

    /// `versions.N` lists the versions; the oldest of them is the minimum.
    fn version(&mut self, line: usize, value: &str) -> Understood {
        match value {
            "tlsv1.2" => self.set(line, "tls.minimum_version", "1.2"),
            "tlsv1.3" if !self.sets("tls.minimum_version") => {
                self.set(line, "tls.minimum_version", "1.3");
            }
            "tlsv1.3" => {}
            _ => return Understood::NotNeeded("versions before 1.2 are not spoken"),
        }
        Understood::As("tls.minimum_version")
    }

    fn sets(&self, key: &str) -> bool {
        let path = crate::key_path::KeyPath::dotted(key);
        self.read
            .layers
            .iter()
            .any(|layer| path.value(&layer.tree).is_some())
    }

    fn set(&mut self, line: usize, key: &str, value: &str) {
        let source = Source::Line {
            path: self.path.to_owned(),
            line,
        };
        let layer = layer::from_text(self.keys, source, key, value, self.faults);
        self.read.layers.push(layer);
    }

    /// What is written over several lines and is one value here.
    fn gathered(&mut self) {
        let lists = [
            ("auth.mechanisms", std::mem::take(&mut self.mechanisms)),
            ("tls.cipher_suites", std::mem::take(&mut self.ciphers)),
            (
                "auth.loopback_users",
                std::mem::take(&mut self.loopback_users),
            ),
        ];
        for (key, values) in lists {
            if let Some((line, _)) = values.first() {
                let joined: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
                self.set(*line, key, &joined.join(","));
            }
        }
        if self.verify_peer {
            let word = if self.required {
                "required"
            } else {
                "optional"
            };
            self.set(1, "tls.client_certificates", word);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{Listen, Sources, load};

    fn loaded(text: &str) -> Result<crate::Loaded, crate::SettingsError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rabbitmq.conf");
        std::fs::write(&path, text).expect("written");
        load(&Sources {
            rabbitmq_conf: Some(path),
            ..Sources::default()
        })
    }

    #[test]
    fn common_settings_are_taken_over_with_rabbitmqs_units() {
        let read = loaded(
            "\
# a comment
listeners.tcp.1 = 127.0.0.1:5673
default_user = admin
default_pass = 'secret'
loopback_users = none
heartbeat = 30
vm_memory_high_watermark.absolute = 2GB
disk_free_limit.absolute = 1Gi
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
log.console.level = warning
max_message_size = 1048576
management.tcp.port = 15673
collect_statistics_interval = 5000
shovels.x = y
",
        )
        .expect("no faults");
        let settings = &read.settings;
        assert_eq!(settings.listeners.amqp.to_string(), "127.0.0.1:5673");
        assert_eq!(settings.listeners.management, Listen::Everywhere(15673));
        assert_eq!(settings.auth.default_user, "admin");
        assert_eq!(settings.auth.default_password.reveal(), "secret");
        assert_eq!(settings.auth.loopback_users, [""; 0]);
        assert_eq!(settings.auth.mechanisms, ["PLAIN", "AMQPLAIN"]);
        assert_eq!(settings.limits.heartbeat.to_string(), "30s");
        assert_eq!(settings.memory.high_watermark.to_string(), "2GB");
        assert_eq!(settings.disk.free_limit.as_bytes(), 1 << 30);
        assert_eq!(settings.log.level, "warn");
        let word = |name: &str| {
            let line = read.rabbitmq_conf.iter().find(|line| line.name == name);
            line.map(|line| line.understood.clone())
        };
        assert_eq!(word("heartbeat"), Some(Understood::As("limits.heartbeat")));
        assert_eq!(word("shovels.x"), Some(Understood::Unknown));
        assert!(matches!(
            word("collect_statistics_interval"),
            Some(Understood::NotNeeded(_))
        ));
        assert_eq!(read.rabbitmq_conf.len(), 14, "one word on each setting");
    }

    #[test]
    fn tls_settings_are_taken_over() {
        let read = loaded(
            "\
listeners.ssl.default = 5671
ssl_options.certfile = /c/cert.pem
ssl_options.keyfile = /c/key.pem
ssl_options.cacertfile = /c/ca.pem
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
ssl_options.versions.1 = tlsv1.3
ssl_cert_login_from = common_name
",
        )
        .expect("no faults");
        let tls = &read.settings.tls;
        assert_eq!(tls.certificate, Some(PathBuf::from("/c/cert.pem")));
        assert_eq!(tls.client_certificates.as_str(), "required");
        assert_eq!(tls.minimum_version.as_str(), "1.3");
        assert_eq!(tls.login_from.as_str(), "common_name");
    }

    #[test]
    fn a_wrong_value_is_told_with_its_line() {
        let error = loaded("# one\nheartbeat = soon\n").expect_err("a fault");
        let told = error.to_string();
        assert!(
            told.contains("rabbitmq.conf:2:1: `limits.heartbeat`"),
            "{told}"
        );
        let error = loaded("heartbeat\n").expect_err("a fault");
        assert!(error.to_string().contains("is no setting"), "{error}");
    }

    #[test]
    fn every_key_that_is_named_exists() {
        let keys = Keys::new();
        for (name, key, _) in NAMES {
            assert!(keys.all().iter().any(|known| known == key), "{name}: {key}");
        }
    }
}
