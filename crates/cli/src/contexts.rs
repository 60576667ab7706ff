//! The brokers that a person works with, kept in a file of their own under names.
//!
//! Passwords lie in it, so only its owner may read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::failure::{DATA, Failure, Result, SOFTWARE};

/// Where the broker is when nobody says.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:15672";
/// Who asks when nobody says.
pub(crate) const USER_DEFAULT: &str = "guest";

/// One broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vhost: Option<String>,
    /// File of certificates that vouch for the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// The one in use before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<String>,
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file; none is an empty one.
    pub(crate) fn load() -> Result<Self> {
        let path = path()?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(
                    Failure::new(SOFTWARE, format!("cannot read {}", path.display()))
                        .why(error.to_string()),
                );
            }
        };
        serde_yaml::from_str(&text).map_err(|error| {
            Failure::new(DATA, format!("{} is damaged", path.display()))
                .why(error.to_string())
                .next("mend or remove the file, then: sluicectl context add NAME --url URL")
        })
    }

    /// Writes the file whole: a reader sees the old one or the new one.
    pub(crate) fn save(&self) -> Result<()> {
        let path = path()?;
        let cannot = |error: std::io::Error| {
            Failure::new(SOFTWARE, format!("cannot write {}", path.display()))
                .why(error.to_string())
        };
        let text = serde_yaml::to_string(self)
            .map_err(|error| Failure::new(SOFTWARE, error.to_string()))?;
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(cannot)?;
        let draft = path.with_extension("yaml.new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&draft).map_err(cannot)?;
        file.write_all(text.as_bytes()).map_err(cannot)?;
        fs::rename(&draft, &path).map_err(cannot)
    }

    pub(crate) fn named(&self, name: &str) -> Result<&Context> {
        self.contexts.get(name).ok_or_else(|| self.no_such(name))
    }

    /// Takes another one into use; `-` is the one before.
    pub(crate) fn switch(&mut self, name: &str) -> Result<String> {
        let name = match name {
            "-" => self.previous.clone().ok_or_else(|| {
                Failure::new(DATA, "there is no context to go back to")
                    .next("sluicectl context list")
            })?,
            name => name.to_owned(),
        };
        self.named(&name)?;
        if self.current.as_deref() != Some(name.as_str()) {
            self.previous = self.current.replace(name.clone());
        }
        Ok(name)
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        if self.contexts.remove(name).is_none() {
            return Err(self.no_such(name));
        }
        for slot in [&mut self.current, &mut self.previous] {
            if slot.as_deref() == Some(name) {
                *slot = None;
            }
        }
        Ok(())
    }

    fn no_such(&self, name: &str) -> Failure {
        let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
        let failure = Failure::new(DATA, format!("there is no context '{name}'"));
        match known.is_empty() {
            true => failure.next(format!(
                "sluicectl context add {name} --url URL --user USER"
            )),
            false => failure
                .why(format!("known are: {}", known.join(", ")))
                .next("sluicectl context use NAME"),
        }
    }
}

/// `SLUICECTL_CONFIG`, else a file in the user's own folder of configurations.
fn path() -> Result<PathBuf> {
    let from = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty());
    if let Some(path) = from("SLUICECTL_CONFIG") {
        return Ok(path.into());
    }
    let folder = from("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| from("HOME").map(|home| PathBuf::from(home).join(".config")));
    let folder = folder.ok_or_else(|| {
        Failure::new(SOFTWARE, "there is no place for the file of contexts")
            .why("neither SLUICECTL_CONFIG nor XDG_CONFIG_HOME nor HOME is set")
            .next("set SLUICECTL_CONFIG to a file")
    })?;
    Ok(folder.join("sluicectl").join("contexts.yaml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Contexts {
        let mut contexts = Contexts::default();
        for name in ["one", "two"] {
            contexts.contexts.insert(name.into(), Context::default());
        }
        contexts
    }

    #[test]
    fn a_dash_goes_back_and_forth() {
        let mut contexts = two();
        assert!(contexts.switch("-").is_err());
        contexts.switch("one").expect("a context");
        contexts.switch("two").expect("a context");
        assert_eq!(contexts.switch("-").expect("back"), "one");
        assert_eq!(contexts.switch("-").expect("back"), "two");
    }

    #[test]
    fn using_the_current_one_again_keeps_the_way_back() {
        let mut contexts = two();
        for name in ["one", "two", "two"] {
            contexts.switch(name).expect("a context");
        }
        assert_eq!(contexts.switch("-").expect("back"), "one");
    }

    #[test]
    fn a_removed_context_is_no_longer_in_use() {
        let mut contexts = two();
        contexts.switch("one").expect("a context");
        contexts.remove("one").expect("a context");
        assert_eq!(contexts.current, None);
        insta::assert_snapshot!(contexts.named("one").expect_err("gone").to_string(), @r"
        error: there is no context 'one'
          why:  known are: two
          next: sluicectl context use NAME
        ");
    }
}
