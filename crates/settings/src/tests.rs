//! Loading as a whole: layers in order, and the words of every fault.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::*;

mod faults;
mod layers;
mod reference_file;

/// A folder with configuration files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn with(self, name: &str, text: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("files lie in a folder")).expect("folder made");
        fs::write(path, text).expect("file written");
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sources(&self) -> Sources {
        Sources {
            file: Some(self.path("broker.yaml")),
            ..Sources::default()
        }
    }
}

fn set(assignment: &str) -> Assignment {
    Assignment::Set(assignment.to_owned())
}

fn variable(name: &str, value: &str) -> (OsString, OsString) {
    (name.into(), value.into())
}

fn load_text(text: &str) -> Result<Settings, SettingsError> {
    let folder = Folder::new().with("broker.yaml", text);
    load(&folder.sources()).map(|loaded| loaded.settings)
}

/// The words of the faults in one file, with the folder left out of its path.
fn complaint(text: &str) -> String {
    let folder = Folder::new().with("broker.yaml", text);
    without_folder(
        &folder,
        &load(&folder.sources()).expect_err("the text has a fault"),
    )
}

fn without_folder(folder: &Folder, error: &SettingsError) -> String {
    let prefix = format!("{}/", folder.0.path().display());
    error.to_string().replace(&prefix, "")
}

fn complaint_about(sources: &Sources) -> String {
    load(sources)
        .expect_err("the sources have a fault")
        .to_string()
}

fn reference_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/broker.yaml")
}
