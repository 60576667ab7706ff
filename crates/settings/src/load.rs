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
use crate::key_path::KeyPath;
use crate::keys::Keys;
use crate::layer::{self, Layer, Source};
use crate::overlay::{self, Changed};
use crate::rabbitmq_conf::{self, ConfLine};
use crate::sections::{Settings, Tls};
use crate::yaml;

/// Environment variables that start so are keys: `SLUICEMQ__LIMITS__HEARTBEAT`.
pub const VARIABLE_PREFIX: &str = "SLUICEMQ__";

/// A configuration file larger than this is not read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// More files than this in `conf.d` are not read.
pub const CONF_D_FILES_MAX: usize = 256;

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A `rabbitmq.conf`, whose settings are taken over as far as they mean something here.
    pub rabbitmq_conf: Option<PathBuf>,
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
    /// What became of each setting of the `rabbitmq.conf`.
    pub rabbitmq_conf: Vec<ConfLine>,
    /// Environment variables with RabbitMQ's prefix that mean nothing here.
    pub unknown_variables: Vec<String>,
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
    let mut rabbitmq_conf = Vec::new();
    if let Some(file) = &sources.rabbitmq_conf {
        if let Some(text) = read_text(file, &mut faults) {
            let read = rabbitmq_conf::read(&keys, file, &text, &mut faults);
            layers.extend(read.layers);
            rabbitmq_conf = read.lines;
        }
        files.push(file.clone());
    }
    let unknown_variables = customary_variables(&keys, sources, &mut layers, &mut faults);
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
        rabbitmq_conf,
        unknown_variables,
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
pub(crate) fn config_files(file: &Path, faults: &mut Vec<Fault>) -> Vec<PathBuf> {
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

pub(crate) fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let path = entry.path();
        // Kubernetes keeps its own folders and links with a dot in front beside the files.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
            && !is_hidden
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

pub(crate) fn read_text(path: &Path, faults: &mut Vec<Fault>) -> Option<String> {
    match bounded_text(path, FILE_BYTES_MAX) {
        Ok(Some(text)) => Some(text),
        Ok(None) => {
            faults.push(too_large(path, FILE_BYTES_MAX));
            None
        }
        Err(error) => {
            faults.push(unreadable(path, error.to_string()));
            None
        }
    }
}

fn too_large(path: &Path, max_bytes: u64) -> Fault {
    Fault {
        origin: file_origin(path),
        key: None,
        problem: Problem::TooLarge { max_bytes },
    }
}

/// The file's text, or `None` if it is larger than `bytes_max`.
fn bounded_text(path: &Path, bytes_max: u64) -> std::io::Result<Option<String>> {
    let mut text = String::new();
    // One byte more than allowed tells "too large" without trusting the file's announced size.
    fs::File::open(path)?
        .take(bytes_max + 1)
        .read_to_string(&mut text)?;
    Ok((text.len() as u64 <= bytes_max).then_some(text))
}

fn file_origin(path: &Path) -> Origin {
    Origin::File {
        path: path.to_owned(),
        place: None,
    }
}

pub(crate) fn unreadable(path: &Path, why: String) -> Fault {
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

/// Variables that container images of RabbitMQ made customary, and the keys that they stand for.
/// Each may also end in `_FILE` and name a file that holds the value. They count less than our own
/// files, because images set them for everybody.
const CUSTOMARY: [(&str, &str); 3] = [
    ("RABBITMQ_NODENAME", "node.name"),
    ("RABBITMQ_NODE_PORT", "listeners.amqp"),
    ("RABBITMQ_ERLANG_COOKIE", "cluster.secret"),
];

const CUSTOMARY_PREFIX: &str = "RABBITMQ_";

/// Variables that somebody else reads: the program for its first user.
const READ_ELSEWHERE: [&str; 3] = [
    "RABBITMQ_DEFAULT_USER",
    "RABBITMQ_DEFAULT_PASS",
    "RABBITMQ_DEFAULT_VHOST",
];

/// Layers of the customary variables; answers the names of those that mean nothing here.
fn customary_variables(
    keys: &Keys,
    sources: &Sources,
    layers: &mut Vec<Layer>,
    faults: &mut Vec<Fault>,
) -> Vec<String> {
    let ours: BTreeMap<&str, &str> = sources
        .variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
        .filter(|(name, value)| name.starts_with(CUSTOMARY_PREFIX) && !value.is_empty())
        .collect();
    let mut unknown = Vec::new();
    for (name, value) in ours {
        let plain = name.strip_suffix("_FILE").unwrap_or(name);
        if READ_ELSEWHERE.contains(&plain) {
            continue;
        }
        let key = CUSTOMARY.iter().find(|(known, _)| *known == plain);
        let key = key.filter(|(_, key)| {
            matches!(
                keys.look_up(&KeyPath::dotted(key)),
                crate::keys::Known::Key(_)
            )
        });
        let Some((_, key)) = key else {
            unknown.push(name.to_owned());
            continue;
        };
        let value = match name == plain {
            true => Some(value.to_owned()),
            false => read_text(Path::new(value), faults)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned()),
        };
        if let Some(value) = value {
            let source = Source::Variable(name.to_owned());
            layers.push(layer::from_text(keys, source, key, &value, faults));
        }
    }
    unknown
}

/// Makes paths ones that can be opened, relative to the configuration file's folder, and finds
/// the default one of `policies.path`.
fn settle_paths(settings: &mut Settings, file: Option<&Path>) {
    let Some(file) = file else { return };
    let folder = file.with_file_name("");
    let tls = &mut settings.tls;
    let paths = [
        &mut settings.policies.path,
        &mut settings.definitions.path,
        &mut tls.certificate,
        &mut tls.private_key,
        &mut tls.client_authorities,
    ];
    for path in paths.into_iter().flatten() {
        *path = folder.join(&*path);
    }
    for entry in &mut tls.certificates_by_name {
        if let Some((name, certificate, key)) = Tls::named_certificate(entry) {
            let [certificate, key] = [certificate, key].map(|path| folder.join(path));
            *entry = format!("{name}={}:{}", certificate.display(), key.display());
        }
    }
    if settings.policies.path.is_none() {
        settings.policies.path = ["policies.yaml", "policies.d"]
            .into_iter()
            .map(|name| folder.join(name))
            .find(|path| path.exists());
    }
}

/// Reads a file of plain data, YAML or JSON (which YAML contains), into a type.
///
/// # Errors
/// The file cannot be read, is no YAML, or does not have the type's shape.
pub fn read_structured<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SettingsError> {
    let mut faults = Vec::new();
    let Some(text) = structured_text(path, &mut faults) else {
        return Err(SettingsError { faults });
    };
    let fault = |place, key, problem| SettingsError {
        faults: vec![Fault {
            origin: Origin::File {
                path: path.to_owned(),
                place,
            },
            key,
            problem,
        }],
    };
    // Large JSON is read by the YAML parser, too: one reader, one set of error texts.
    let tree = yaml::read(&text).map_err(|why| fault(why.place, why.key, why.problem))?;
    serde_path_to_error::deserialize(tree).map_err(|error| {
        let at = KeyPath::from(error.path());
        fault(
            yaml::locate(&text, &at, yaml::Aim::Value),
            (!at.steps().is_empty()).then(|| at.to_string()),
            Problem::Refused {
                why: error.inner().to_string(),
            },
        )
    })
}

/// Files of definitions may hold tens of thousands of queues.
const STRUCTURED_BYTES_MAX: u64 = 64 << 20;

fn structured_text(path: &Path, faults: &mut Vec<Fault>) -> Option<String> {
    match bounded_text(path, STRUCTURED_BYTES_MAX) {
        Ok(Some(text)) => Some(text),
        Ok(None) => {
            faults.push(too_large(path, STRUCTURED_BYTES_MAX));
            None
        }
        Err(error) => {
            faults.push(unreadable(path, error.to_string()));
            None
        }
    }
}
