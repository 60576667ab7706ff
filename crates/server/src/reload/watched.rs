//! One set of files that is looked at now and then.
//!
//! A change counts when two looks in a row agree, so that a file is not read while it is written.

use settings::Fingerprint;

/// What the files looked like when they were read last, and at the look before this one.
pub(super) struct Watched {
    read: Fingerprint,
    seen: Fingerprint,
}

impl Watched {
    pub(super) fn new(now: Fingerprint) -> Self {
        Self {
            read: now.clone(),
            seen: now,
        }
    }

    /// The files are read at this moment, whatever they look like.
    pub(super) fn settle(&mut self, now: Fingerprint) {
        *self = Self::new(now);
    }

    /// Whether the files differ from what was read, and have come to rest.
    pub(super) fn changed(&mut self, now: Fingerprint) -> bool {
        let rests = self.seen == now;
        let differs = self.read != now;
        if rests && differs {
            self.settle(now);
            return true;
        }
        self.seen = now;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_change_counts_when_the_file_has_come_to_rest_and_only_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("x.yaml");
        let print = |path: &Path| Fingerprint::of_files([path]);
        let mut watched = Watched::new(print(&file));
        assert!(!watched.changed(print(&file)));
        std::fs::write(&file, "one").expect("written");
        assert!(!watched.changed(print(&file)), "it may still be written");
        std::fs::write(&file, "one and a half").expect("written");
        assert!(!watched.changed(print(&file)), "it is still written");
        assert!(watched.changed(print(&file)));
        assert!(!watched.changed(print(&file)));
    }

    #[test]
    fn a_link_that_is_turned_is_a_change() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            std::fs::create_dir(at(version)).expect("a folder");
            std::fs::write(at(version).join("p.yaml"), "same").expect("written");
        }
        let turn = |to: &str| {
            let _ = std::fs::remove_file(at("..data"));
            std::os::unix::fs::symlink(at(to), at("..data")).expect("a link");
        };
        turn("v1");
        std::os::unix::fs::symlink(at("..data").join("p.yaml"), at("p.yaml")).expect("a link");
        let print = || Fingerprint::of_policies(folder.path());
        let mut watched = Watched::new(print());
        turn("v2");
        assert!(!watched.changed(print()));
        assert!(watched.changed(print()));
    }
}
