//! What every command is given: the broker to talk to, the virtual host, and a way to answer.

use std::cell::OnceCell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use management_api::{Client, ClientOptions};
use serde_json::Value;

use crate::arguments::Shared;
use crate::contexts::{Context, Contexts, URL_DEFAULT, USER_DEFAULT};
use crate::failure::{Failure, Result, USAGE};
use crate::output::{self, Column, Format};

/// Longest time for a request when nobody says.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The virtual host when nobody says.
const VHOST_DEFAULT: &str = "/";
/// The broker's port when only a host is given.
const PORT_DEFAULT: u16 = 15672;
/// Where health is told without a login when nobody says: the port of the metrics.
const HEALTH_URL_DEFAULT: &str = "http://127.0.0.1:15692";

/// A command's surroundings.
pub(crate) struct Shell {
    shared: Shared,
    context: Context,
    client: OnceCell<Client>,
}

fn environment(key: &str) -> Option<String> {
    std::env::var(key).ok().filter(|value| !value.is_empty())
}

impl Shell {
    /// Options win over the environment, that over the context, that over a container's first user
    /// and the defaults.
    pub(crate) fn new(shared: Shared) -> Result<Self> {
        let contexts = Contexts::load()?;
        let named = shared
            .context
            .clone()
            .or_else(|| environment("SLUICECTL_CONTEXT"));
        let context = match named.as_deref().or(contexts.current.as_deref()) {
            None => Context::default(),
            Some(name) => contexts.named(name)?.clone(),
        };
        Ok(Self {
            shared,
            context,
            client: OnceCell::new(),
        })
    }

    pub(crate) fn client(&self) -> Result<&Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = Client::new(self.client_options()?)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// A client whose answers may last for ever.
    pub(crate) fn endless_client(&self) -> Result<Client> {
        let mut options = self.client_options()?;
        options.timeout = None;
        Ok(Client::new(options)?)
    }

    /// A client for what needs no login: the health of a node.
    pub(crate) fn health_client(&self) -> Result<Client> {
        let url = environment("SLUICECTL_HEALTH_URL");
        Ok(Client::new(ClientOptions {
            url: url.unwrap_or_else(|| HEALTH_URL_DEFAULT.into()),
            credentials: None,
            ..self.client_options()?
        })?)
    }

    fn client_options(&self) -> Result<ClientOptions> {
        let shared = &self.shared;
        let user = first([
            shared.user.clone(),
            environment("SLUICECTL_USER"),
            self.context.user.clone(),
            of_the_first_user("RABBITMQ_DEFAULT_USER"),
        ]);
        let password = first([
            shared.password.clone(),
            environment("SLUICECTL_PASSWORD"),
            self.context.password.clone(),
            of_the_first_user("RABBITMQ_DEFAULT_PASS"),
        ]);
        let user = user.unwrap_or_else(|| USER_DEFAULT.into());
        let password = password.unwrap_or_else(|| USER_DEFAULT.into());
        let ca = shared.ca.clone().or_else(|| self.context.ca.clone());
        let certificates = match ca {
            None => of_the_system(),
            Some(path) => std::fs::read(&path).map_err(|error| {
                Failure::new(USAGE, format!("cannot read {}", path.display()))
                    .why(error.to_string())
            })?,
        };
        Ok(ClientOptions {
            url: self.url(),
            credentials: Some((user, password)),
            timeout: Some(self.timeout()),
            certificates,
            insecure: shared.insecure,
        })
    }

    fn url(&self) -> String {
        let shared = &self.shared;
        if shared.host.is_some() || shared.port.is_some() {
            let host = shared.host.as_deref().unwrap_or("127.0.0.1");
            let port = shared.port.unwrap_or(PORT_DEFAULT);
            return format!("http://{host}:{port}");
        }
        let of_context = Some(self.context.url.clone()).filter(|url| !url.is_empty());
        first([shared.url.clone(), environment("SLUICECTL_URL"), of_context])
            .unwrap_or_else(|| URL_DEFAULT.into())
    }

    pub(crate) fn timeout(&self) -> Duration {
        let seconds = self.shared.timeout.filter(|seconds| *seconds > 0.0);
        seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(TIMEOUT)
    }

    /// The virtual host that was named, if one was.
    pub(crate) fn vhost_named(&self) -> Option<&str> {
        let named = self.shared.vhost.as_deref();
        named.or(self.context.vhost.as_deref())
    }

    pub(crate) fn vhost(&self) -> &str {
        self.vhost_named().unwrap_or(VHOST_DEFAULT)
    }

    pub(crate) fn format(&self) -> Format {
        self.shared.output.unwrap_or_default()
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn quiet(&self) -> bool {
        self.shared.quiet
    }

    /// The columns asked for, else these.
    pub(crate) fn columns(&self, usual: &[(&str, &str)]) -> Vec<Column> {
        if self.has_columns() {
            let fields = self.shared.columns.iter();
            return fields.map(|field| Column::of_field(field)).collect();
        }
        let usual = usual.iter();
        usual
            .map(|(head, field)| Column::new(head, field))
            .collect()
    }

    pub(crate) fn has_columns(&self) -> bool {
        !self.shared.columns.is_empty()
    }

    /// Writes rows as asked.
    pub(crate) fn rows(&self, rows: &[Value], usual: &[(&str, &str)], name: &str) -> Result<()> {
        let columns = self.columns(usual);
        let format = self.format();
        if rows.is_empty() && format == Format::Table {
            self.say("nothing to show");
            return Ok(());
        }
        print(&output::rows(
            rows,
            &columns,
            name,
            format,
            self.has_columns(),
        )?);
        Ok(())
    }

    /// Writes one object as asked.
    pub(crate) fn object(&self, object: &Value) -> Result<()> {
        print(&output::object(object, self.format())?);
        Ok(())
    }

    /// Writes an object for programs, and this text for people.
    pub(crate) fn answer(&self, object: &Value, text: impl FnOnce() -> String) -> Result<()> {
        match self.format() {
            Format::Table => {
                print(&text());
                Ok(())
            }
            _ => self.object(object),
        }
    }

    /// Tells what was done; for people only.
    pub(crate) fn say(&self, what: impl AsRef<str>) {
        if !self.quiet() {
            eprintln!("{}", what.as_ref());
        }
    }
}

/// What a container was told of its first user, itself or in a file: who operates the broker from
/// inside of the container is that user.
fn of_the_first_user(key: &str) -> Option<String> {
    let in_file = || {
        let text = std::fs::read_to_string(environment(&format!("{key}_FILE"))?).ok()?;
        Some(text.trim_end_matches(['\r', '\n']).to_owned())
    };
    environment(key).or_else(in_file)
}

/// Where systems keep the certificates that they trust.
const TRUSTED: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The certificates that this system trusts; `SSL_CERT_FILE` names others.
fn of_the_system() -> Vec<u8> {
    let named = environment("SSL_CERT_FILE");
    let mut files = named.iter().map(String::as_str).chain(TRUSTED);
    files
        .find_map(|file| std::fs::read(file).ok())
        .unwrap_or_default()
}

fn first<const N: usize>(values: [Option<String>; N]) -> Option<String> {
    values.into_iter().flatten().next()
}

/// Writes to standard output. Nobody who reads it any more is no failure: `sluicectl list | head`.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

/// Shows the same thing again and again until the program is stopped.
pub(crate) fn watch(every: Option<Duration>, mut show: impl FnMut() -> Result<()>) -> Result<()> {
    let Some(every) = every else {
        return show();
    };
    loop {
        if io::stdout().is_terminal() {
            // Up and left, and nothing of the last picture.
            print("\x1b[H\x1b[2J");
        }
        show()?;
        std::thread::sleep(every);
        if !io::stdout().is_terminal() {
            print("\n");
        }
    }
}
