//! The administrator and the virtual host that an empty broker starts with.
//!
//! The values come from the settings; the environment variables that container images of
//! RabbitMQ made customary win over them.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Files that hold a secret are short; a larger one is a mistake.
pub const FIRST_USER_FILE_BYTES_MAX: u64 = 64 << 10;

const USER: &str = "RABBITMQ_DEFAULT_USER";
const PASSWORD: &str = "RABBITMQ_DEFAULT_PASS";
const VHOST: &str = "RABBITMQ_DEFAULT_VHOST";

/// Whom and what to create when there is no user yet.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstUser {
    /// The administrator's name.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The virtual host on which it has every permission.
    pub vhost: String,
    /// The environment names the user: then it is made even where others are.
    pub is_explicit: bool,
}

impl std::fmt::Debug for FirstUser {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("FirstUser")
            .field("user", &self.user)
            .field("vhost", &self.vhost)
            .finish_non_exhaustive()
    }
}

/// An environment variable that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FirstUserError {
    /// A variable and its `_FILE` twin are both set.
    #[error("environment variables {variable} and {variable}_FILE are both set; unset one of them")]
    Twice {
        /// The variable without `_FILE`.
        variable: &'static str,
    },
    /// The file behind a `_FILE` variable cannot be read as a text.
    #[error(
        "environment variable {variable}_FILE: {} cannot be read: {why}; \
         check the path and its permissions", path.display()
    )]
    Unreadable {
        /// The variable without `_FILE`.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// The file is empty or far too large for what it should hold.
    #[error(
        "environment variable {variable}_FILE: {} is empty or larger than \
         {FIRST_USER_FILE_BYTES_MAX} bytes; it must hold the value alone", path.display()
    )]
    NotAValue {
        /// The variable without `_FILE`.
        variable: &'static str,
        /// The file.
        path: PathBuf,
    },
}

impl FirstUser {
    /// Where the name comes from, for the log.
    pub fn origin(&self) -> &'static str {
        match self.is_explicit {
            true => "environment variable RABBITMQ_DEFAULT_USER",
            false => "auth.default_user",
        }
    }

    /// Lets `RABBITMQ_DEFAULT_USER`, `_PASS` and `_VHOST`, or the same with `_FILE` behind for a
    /// file that holds the value, win over `self`. An empty variable counts as unset.
    ///
    /// # Errors
    /// [`FirstUserError`] if both of a pair are set, or a file does not hold a value.
    pub fn or_environment(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, FirstUserError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let value = |name| match (set(name), set(&format!("{name}_FILE"))) {
            (Some(_), Some(_)) => Err(FirstUserError::Twice { variable: name }),
            (Some(value), None) => Ok(Some(value)),
            (None, Some(path)) => from_file(name, path.into()).map(Some),
            (None, None) => Ok(None),
        };
        let user = value(USER)?;
        Ok(Self {
            is_explicit: self.is_explicit || user.is_some(),
            user: user.unwrap_or(self.user),
            password: value(PASSWORD)?.unwrap_or(self.password),
            vhost: value(VHOST)?.unwrap_or(self.vhost),
        })
    }
}

fn from_file(variable: &'static str, path: PathBuf) -> Result<String, FirstUserError> {
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| {
        file.take(FIRST_USER_FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
    });
    if let Err(why) = read {
        return Err(FirstUserError::Unreadable {
            variable,
            path,
            why,
        });
    }
    // Editors and `echo` end a file with a line break that is not part of the value.
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() || text.len() as u64 > FIRST_USER_FILE_BYTES_MAX {
        return Err(FirstUserError::NotAValue { variable, path });
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> FirstUser {
        let text = str::to_owned;
        FirstUser {
            user: text("guest"),
            password: text("guest"),
            vhost: text("/"),
            is_explicit: false,
        }
    }

    fn with(variables: &[(&str, &str)]) -> Result<FirstUser, FirstUserError> {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name);
        settings().or_environment(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_variables_the_settings_hold() {
        assert_eq!(with(&[]).expect("nothing to fault"), settings());
        assert_eq!(
            with(&[("RABBITMQ_DEFAULT_USER", "")]).expect("empty is unset"),
            settings()
        );
    }

    #[test]
    fn each_variable_replaces_its_own_value() {
        let first = with(&[
            ("RABBITMQ_DEFAULT_USER", "admin"),
            ("RABBITMQ_DEFAULT_VHOST", "prod"),
        ])
        .expect("two values");
        assert_eq!(
            (first.user.as_str(), first.vhost.as_str()),
            ("admin", "prod")
        );
        assert_eq!(first.password, "guest");
    }

    #[test]
    fn a_file_holds_the_value_with_or_without_a_line_break() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("secret");
        for (content, password) in [
            ("a b", "a b"),
            ("x\n", "x"),
            ("x\r\n", "x"),
            ("x\n\n", "x\n"),
        ] {
            std::fs::write(&path, content).expect("written");
            let path = path.to_str().expect("a text");
            let first = with(&[("RABBITMQ_DEFAULT_PASS_FILE", path)]).expect("a value");
            assert_eq!(first.password, password, "{content:?}");
        }
    }

    #[test]
    fn a_variable_and_its_file_together_are_refused() {
        let pair = [
            ("RABBITMQ_DEFAULT_PASS", "x"),
            ("RABBITMQ_DEFAULT_PASS_FILE", "/y"),
        ];
        assert_eq!(
            with(&pair).expect_err("both").to_string(),
            "environment variables RABBITMQ_DEFAULT_PASS and RABBITMQ_DEFAULT_PASS_FILE are both \
             set; unset one of them"
        );
    }

    #[test]
    fn a_missing_or_empty_file_is_told_with_variable_and_path() {
        let missing = with(&[("RABBITMQ_DEFAULT_USER_FILE", "/nowhere/user")]);
        assert_eq!(
            missing.expect_err("no such file").to_string(),
            "environment variable RABBITMQ_DEFAULT_USER_FILE: /nowhere/user cannot be read: \
             No such file or directory (os error 2); check the path and its permissions"
        );
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = file.path().to_str().expect("a text");
        let empty = with(&[("RABBITMQ_DEFAULT_USER_FILE", path)]).expect_err("an empty file");
        assert_eq!(
            empty.to_string(),
            format!(
                "environment variable RABBITMQ_DEFAULT_USER_FILE: {path} is empty or larger than \
                 65536 bytes; it must hold the value alone"
            )
        );
    }

    #[test]
    fn a_password_does_not_print_in_a_dump() {
        let first = with(&[("RABBITMQ_DEFAULT_PASS", "hunter2")]).expect("a value");
        assert!(!format!("{first:?}").contains("hunter2"));
    }
}
