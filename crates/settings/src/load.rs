//! From sources to settings: reads the layers, lays them over each other, checks the whole.
//!
//! Order, later wins key by key: built-in defaults, the configuration file, `conf.d/*.yaml` beside
//! it by name, environment variables by name, options in the order given. Lists are replaced, not
//! joined. The `config` crate does the laying over each other; it sees value trees only.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::check;
use crate::error::{Fault, Origin, Problem, SettingsError};
use crate::keys::Keys;
use crate::layer::{self, Layer, Source};
use crate::overlay::{self, Changed};
use crate::sections::Settings;

/// Environment variables that start so are keys: `SLUICEMQ__LIMITS__HEARTBEAT`.
pub const VARIABLE_PREFIX: &str = "SLUICEMQ__";

/// A configuration file larger than this is not read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// More files than this in `conf.d` are not read.
pub const CONF_D_FILES_MAX: usize = 256;

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file of `--config`; none: defaults, variables and options alone.
    pub file: Option<PathBuf>,
    /// Environment variables; those without [`VARIABLE_PREFIX`] are not looked at.
    pub variables: Vec<(OsString, OsString)>,
    /// Options that stand for one key.
    pub assignments: Vec<Assignment>,
}

/// An option of the command line that sets one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// `--set KEY=VALUE`, as written.
    Set(String),
    /// An option of its own for a key, such as `--data-dir` for `node.data_dir`.
    Named {
        /// The option, with its dashes.
        option: &'static str,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
    },
}

/// The result of a load.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings that count.
    pub settings: Settings,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// Keys whose value is not the built-in default, by path.
    pub changed: Vec<Changed>,
}

/// Reads all sources and lays them over the defaults.
///
/// # Errors
/// All faults of all layers together; if there are none, those of the whole.
pub fn load(sources: &Sources) -> Result<Loaded, SettingsError> {
    let keys = Keys::new();
    let mut faults = Vec::new();
    let mut layers = vec![Layer {
        source: Source::Default,
        tree: keys.defaults().clone(),
    }];
    let mut files = Vec::new();
    if let Some(file) = &sources.file {
        for path in config_files(file, &mut faults) {
            if let Some(text) = read_text(&path, &mut faults) {
                layers.extend(layer::from_file(&keys, &path, text, &mut faults));
            }
            files.push(path);
        }
    }
    layers.extend(variable_layers(&keys, &sources.variables, &mut faults));
    layers.extend(assignment_layers(&keys, &sources.assignments, &mut faults));
    stop_on(faults)?;

    let mut settings = overlay::settle(&layers)?;
    let whole = check::whole(&settings);
    stop_on(
        whole
            .into_iter()
            .map(|broken| broken.fault(&keys, &layers, &settings))
            .collect(),
    )?;
    let changed = overlay::changed(&keys, &layers, &settings);
    settle_paths(&mut settings, sources.file.as_deref());
    Ok(Loaded {
        settings,
        files,
        changed,
    })
}

fn stop_on(faults: Vec<Fault>) -> Result<(), SettingsError> {
    if faults.is_empty() {
        Ok(())
    } else {
        Err(SettingsError { faults })
    }
}

/// The file itself, then `conf.d/*.yaml` beside it, sorted by name.
fn config_files(file: &Path, faults: &mut Vec<Fault>) -> Vec<PathBuf> {
    let mut files = vec![file.to_owned()];
    let folder = file.with_file_name("conf.d");
    if !folder.is_dir() {
        return files;
    }
    match yaml_files(&folder) {
        Ok(found) => files.extend(found),
        Err(why) => faults.push(unreadable(&folder, why)),
    }
    files
}

fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
            && path.is_file()
        {
            found.push(path);
        }
        if found.len() > CONF_D_FILES_MAX {
            return Err(format!("it holds more than {CONF_D_FILES_MAX} files"));
        }
    }
    found.sort();
    Ok(found)
}

fn read_text(path: &Path, faults: &mut Vec<Fault>) -> Option<String> {
    match bounded_text(path) {
        Ok(Some(text)) => Some(text),
        Ok(None) => {
            let problem = Problem::TooLarge {
                max_bytes: FILE_BYTES_MAX,
            };
            faults.push(Fault {
                origin: file_origin(path),
                key: None,
                problem,
            });
            None
        }
        Err(error) => {
            faults.push(unreadable(path, error.to_string()));
            None
        }
    }
}

/// The file's text, or `None` if it is larger than [`FILE_BYTES_MAX`].
fn bounded_text(path: &Path) -> std::io::Result<Option<String>> {
    let mut text = String::new();
    // One byte more than allowed tells "too large" without trusting the file's announced size.
    fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    Ok((text.len() as u64 <= FILE_BYTES_MAX).then_some(text))
}

fn file_origin(path: &Path) -> Origin {
    Origin::File {
        path: path.to_owned(),
        place: None,
    }
}

fn unreadable(path: &Path, why: String) -> Fault {
    Fault {
        origin: file_origin(path),
        key: None,
        problem: Problem::Unreadable { why },
    }
}

fn variable_layers(
    keys: &Keys,
    variables: &[(OsString, OsString)],
    faults: &mut Vec<Fault>,
) -> Vec<Layer> {
    // By name, because the order of the environment is nobody's intention.
    let ours: BTreeMap<&str, &OsString> = variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
        .collect();
    let mut layers = Vec::new();
    for (name, value) in ours {
        let key = name[VARIABLE_PREFIX.len()..]
            .to_ascii_lowercase()
            .replace("__", ".");
        match value.to_str() {
            Some(value) => {
                let source = Source::Variable(name.to_owned());
                layers.push(layer::from_text(keys, source, &key, value, faults));
            }
            None => faults.push(not_a_text(name, key)),
        }
    }
    layers
}

fn not_a_text(variable: &str, key: String) -> Fault {
    let problem = Problem::BadValue {
        found: "octets that are no UTF-8".to_owned(),
        expected: "a text".to_owned(),
        hint: None,
    };
    Fault {
        origin: Origin::Variable(variable.to_owned()),
        key: Some(key),
        problem,
    }
}

fn assignment_layers(
    keys: &Keys,
    assignments: &[Assignment],
    faults: &mut Vec<Fault>,
) -> Vec<Layer> {
    let mut layers = Vec::new();
    for assignment in assignments {
        let (option, key, value) = match assignment {
            Assignment::Named { option, key, value } => (*option, *key, value.as_str()),
            Assignment::Set(text) => match text.split_once('=') {
                Some((key, value)) => ("--set", key.trim(), value.trim()),
                None => {
                    let origin = Origin::Option(format!("--set {text}"));
                    faults.push(Fault {
                        origin,
                        key: None,
                        problem: Problem::NoAssignment,
                    });
                    continue;
                }
            },
        };
        let name = if option == "--set" {
            format!("--set {key}")
        } else {
            option.to_owned()
        };
        layers.push(layer::from_text(
            keys,
            Source::Option(name),
            key,
            value,
            faults,
        ));
    }
    layers
}

/// Makes `policies.path` a path that can be opened, and finds the default one.
fn settle_paths(settings: &mut Settings, file: Option<&Path>) {
    let Some(file) = file else { return };
    settings.policies.path = match settings.policies.path.take() {
        Some(path) => Some(file.with_file_name("").join(path)),
        None => Some(file.with_file_name("policies.yaml")).filter(|path| path.exists()),
    };
}
