//! Whether files have changed, told by what the system says of them and not by reading them.
//!
//! Links are followed: Kubernetes changes a mounted folder by turning a link.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::load;
use crate::policy_files;

/// What a set of files looked like at one moment. Two that are equal mean: nothing was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl Fingerprint {
    /// Of these files.
    pub fn of_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        Self(
            files
                .into_iter()
                .map(|path| (path.to_owned(), stamp(path)))
                .collect(),
        )
    }

    /// Of a configuration file and its `conf.d`.
    pub fn of_configuration(file: &Path) -> Self {
        let files = load::config_files(file, &mut Vec::new());
        Self::of_files(files.iter().map(PathBuf::as_path))
    }

    /// Of a policy file or a folder of them.
    pub fn of_policies(path: &Path) -> Self {
        let files = policy_files::files_of(path, &mut Vec::new());
        Self::of_files(files.iter().map(PathBuf::as_path))
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.size(),
        written: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}
