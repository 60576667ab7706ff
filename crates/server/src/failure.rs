//! Why the broker does not start, or does not end well: words for the operator and exit codes.
//!
//! Each text says what failed, why, and what to do next.

use std::io;
use std::path::PathBuf;

use auth::FirstUserError;
use broker::{OpenError, StorageError};
use broker_core::Refusal;
use settings::SettingsError;
use tls::TlsError;

use crate::boot_definitions::DefinitionsError;
use crate::listen::ListenError;
use crate::logging::LevelError;

// The numbers of BSD's sysexits, which rabbitmqctl uses, too.
/// The command line is wrong.
pub(crate) const EXIT_USAGE: u8 = 64;
/// Something that is needed is not there, or taken by somebody else.
const EXIT_UNAVAILABLE: u8 = 69;
/// The broker or what it stored is broken.
const EXIT_SOFTWARE: u8 = 70;
/// The stop was cut short.
const EXIT_TRY_AGAIN: u8 = 75;
/// The settings are wrong.
const EXIT_CONFIG: u8 = 78;

/// The end of the process, if it is not a good one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The settings have faults.
    #[error("the settings are not valid\n{0}")]
    Settings(#[from] SettingsError),
    /// The policy files have faults.
    #[error("the policy files are not valid\n{0}")]
    Policies(SettingsError),
    /// The file of definitions cannot be imported.
    #[error("the definitions cannot be imported\n{0}")]
    Definitions(#[from] DefinitionsError),
    /// `explain` was asked for a key that is none.
    #[error("there is no key `{key}`{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoSuchKey {
        /// The key.
        key: String,
        /// The nearest one that exists.
        nearest: Option<String>,
    },
    /// TLS cannot be served.
    #[error("section `tls`: {0}")]
    Tls(#[from] TlsError),
    /// The environment names a first user that cannot be made.
    #[error("{0}")]
    FirstUser(#[from] FirstUserError),
    /// The log cannot be started.
    #[error("{0}")]
    Level(#[from] LevelError),
    /// The runtime's threads cannot be started.
    #[error("cannot start threads: {0}; check the limits of this user (ulimit -u)")]
    Runtime(io::Error),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// The data folder cannot be opened.
    #[error("`node.data_dir`: {why}; {}", next_step(why, data_dir))]
    Open {
        /// The folder.
        data_dir: PathBuf,
        /// What is wrong.
        why: OpenError,
    },
    /// The broker does not take the defaults of the settings, or the first user and vhost.
    #[error("the broker refuses what the settings ask for: {0}")]
    Prepare(Refusal),
    /// A listener cannot be opened.
    #[error("{0}")]
    Listen(#[from] ListenError),
    /// A listener ended by itself.
    #[error("`{key}` ended: {why}")]
    Served {
        /// The listener's key.
        key: &'static str,
        /// What happened.
        why: String,
    },
    /// The storage failed while the broker ran.
    #[error(
        "the storage failed and the broker stopped, so that nothing is promised that is not kept: \
         {0}; repair the disk, then start again: what was confirmed is read back"
    )]
    Storage(String),
    /// The last writes of a stop failed.
    #[error("the storage did not close well: {0}")]
    Close(OpenError),
    /// The stop took longer than it may.
    #[error("the stop was cut short after `shutdown.drain_timeout`; what was confirmed is stored")]
    OutOfTime,
    /// A second signal came during the stop.
    #[error("the stop was cut short by a second signal; what was confirmed is stored")]
    Impatient,
}

impl Failure {
    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoSuchKey { .. } => EXIT_USAGE,
            Self::Settings(_)
            | Self::Policies(_)
            | Self::Definitions(_)
            | Self::Tls(_)
            | Self::FirstUser(_)
            | Self::Level(_) => EXIT_CONFIG,
            Self::Open { why, .. } => match why {
                OpenError::CreateDataDir { .. } | OpenError::Storage(_) => EXIT_UNAVAILABLE,
                _ => EXIT_SOFTWARE,
            },
            Self::Runtime(_) | Self::Signals(_) | Self::Listen(_) => EXIT_UNAVAILABLE,
            Self::Prepare(_) | Self::Served { .. } | Self::Storage(_) | Self::Close(_) => {
                EXIT_SOFTWARE
            }
            Self::OutOfTime | Self::Impatient => EXIT_TRY_AGAIN,
        }
    }
}

fn next_step(why: &OpenError, data_dir: &std::path::Path) -> String {
    let folder = data_dir.display();
    match why {
        OpenError::CreateDataDir { source, .. } => io_step(source),
        OpenError::Storage(storage) => storage_step(storage),
        OpenError::FewerGroups { .. } => "then start again".to_owned(),
        OpenError::Thread(_) => "check the limits of this user (ulimit -u)".to_owned(),
        OpenError::MetadataFormat { .. } => {
            format!("start the release that wrote {folder}, or choose another folder")
        }
        OpenError::Clustered => {
            "or start this node alone in another folder with --data-dir DIR".to_owned()
        }
        OpenError::NotClustered => "choose an empty folder with --data-dir DIR".to_owned(),
        OpenError::Group { .. } => "look into the log of the node for what came before".to_owned(),
        OpenError::Metadata(_) | OpenError::Unreadable { .. } | OpenError::Log(_) => {
            format!("{folder} is left as it is; restore it from a copy, or choose another folder")
        }
    }
}

fn storage_step(why: &StorageError) -> String {
    match why {
        StorageError::Locked { .. } => {
            "stop the other broker, or give this one its own folder with --data-dir DIR".to_owned()
        }
        StorageError::Io { source, .. } => io_step(source),
        StorageError::NewerFormat { .. } => {
            "start the newer release, or choose another folder with --data-dir DIR".to_owned()
        }
        StorageError::OptionOutOfBounds { .. } => "correct the section `storage`".to_owned(),
        _ => "nothing was changed; restore the folder from a copy, or choose another with \
              --data-dir DIR"
            .to_owned(),
    }
}

fn io_step(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "let this user write there, or choose another folder with --data-dir DIR"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is in the way: choose another folder with --data-dir DIR"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room on the disk",
        _ => "check the disk, or choose another folder with --data-dir DIR",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(why: impl Into<OpenError>) -> Failure {
        Failure::Open {
            data_dir: "data".into(),
            why: why.into(),
        }
    }

    fn io(kind: io::ErrorKind) -> StorageError {
        StorageError::Io {
            doing: "write",
            path: "data/lock".into(),
            source: kind.into(),
        }
    }

    #[track_caller]
    fn check(failure: Failure, exit_code: u8, words: &str) {
        assert_eq!(failure.to_string(), words);
        assert_eq!(failure.exit_code(), exit_code);
    }

    #[test]
    fn a_folder_in_use_is_freed_or_left_to_the_other() {
        check(
            open(StorageError::Locked {
                dir: "data".into(),
                lock: "data/lock".into(),
            }),
            69,
            "`node.data_dir`: data directory data is in use by another process (lock file \
             data/lock); stop the other broker, or give this one its own folder with --data-dir DIR",
        );
    }

    #[test]
    fn a_folder_without_rights_is_opened_up_or_left_alone() {
        check(
            open(io(io::ErrorKind::PermissionDenied)),
            69,
            "`node.data_dir`: cannot write data/lock: permission denied; let this user write \
             there, or choose another folder with --data-dir DIR",
        );
    }

    #[test]
    fn a_full_disk_needs_room() {
        check(
            open(io(io::ErrorKind::StorageFull)),
            69,
            "`node.data_dir`: cannot write data/lock: no storage space; make room on the disk",
        );
    }

    #[test]
    fn damage_is_told_with_its_place_and_nothing_is_thrown_away() {
        let damaged = StorageError::Corrupt {
            path: "data/journal/1".into(),
            offset: 512,
            what: "a record",
        };
        check(
            open(damaged),
            69,
            "`node.data_dir`: data/journal/1 is damaged at offset 512: a record; nothing was \
             changed; restore the folder from a copy, or choose another with --data-dir DIR",
        );
    }

    #[test]
    fn a_folder_of_another_release_is_left_to_it() {
        check(
            open(OpenError::MetadataFormat { found: 9 }),
            70,
            "`node.data_dir`: the stored metadata has format 9, this release reads format 1; \
             start the release that wrote data, or choose another folder",
        );
    }

    #[test]
    fn a_stop_that_is_cut_short_says_that_nothing_confirmed_is_lost() {
        for failure in [Failure::OutOfTime, Failure::Impatient] {
            assert!(
                failure
                    .to_string()
                    .ends_with("what was confirmed is stored"),
                "{failure}"
            );
            assert_eq!(failure.exit_code(), 75);
        }
    }
}
