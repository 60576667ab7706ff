//! The log: where `tracing` goes, in which shape, from which level on.
//!
//! Everything goes to standard error, because containers and service managers collect it there.
//! Secrets never reach the log: the types that hold them do not print them.

use std::io::{IsTerminal, stderr};
use std::panic::PanicHookInfo;

use settings::LogFormat;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Changes the level of a running log.
#[derive(Clone)]
pub(crate) struct LogLevel(Handle<EnvFilter, Registry>);

/// A level that the log does not take.
#[derive(Debug, thiserror::Error)]
#[error("`log.level`: {0}")]
pub(crate) struct LevelError(String);

/// Starts the log of this process. Called once.
pub(crate) fn start(log: &settings::Log) -> Result<LogLevel, LevelError> {
    let (filter, handle) = reload::Layer::new(filter(&log.level)?);
    let lines: Box<dyn Layer<_> + Send + Sync> = match log.format {
        LogFormat::Json => json_lines(),
        LogFormat::Text => text_lines(false),
        LogFormat::Auto => text_lines(stderr().is_terminal()),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|error| LevelError(error.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(LogLevel(handle))
}

impl LogLevel {
    /// Writes from this level on.
    pub(crate) fn set(&self, level: &str) -> Result<(), LevelError> {
        self.0
            .reload(filter(level)?)
            .map_err(|error| LevelError(error.to_string()))
    }
}

/// The consensus library tells every call to a member that is away, at every level. What matters of
/// that the broker tells itself, so it is silent unless it is asked for by name.
const SILENT: &str = "openraft=off";

fn filter(level: &str) -> Result<EnvFilter, LevelError> {
    // The later of two exceptions for one part counts.
    EnvFilter::try_new(format!("{SILENT},{level}")).map_err(|error| LevelError(error.to_string()))
}

fn text_lines<S>(colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fmt::layer().with_writer(stderr).with_ansi(colours).boxed()
}

fn json_lines<S>() -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(stderr)
        .boxed()
}

/// One line for a panic. The task that panicked is gone; the runtime keeps the others.
fn log_panic(panic: &PanicHookInfo) {
    let what = panic.payload_as_str().unwrap_or("a value that is no text");
    let at = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    tracing::error!(
        thread,
        at,
        what,
        "a task broke off; this is a fault of the broker"
    );
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Buffer {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("a text")
        }
    }

    #[test]
    fn the_level_of_a_running_log_changes() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let (first, handle) = reload::Layer::new(filter("warn").expect("a level"));
        let lines = fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(first).with(lines);
        tracing::subscriber::with_default(log, || {
            tracing::info!("one");
            LogLevel(handle.clone()).set("info").expect("a level");
            tracing::info!("two");
            LogLevel(handle).set("info,storage=error").expect("a level");
            tracing::info!(target: "storage", "three");
        });
        let text = buffer.text();
        let written = ["one", "two", "three"].map(|word| text.contains(word));
        assert_eq!(written, [false, true, false], "{text}");
    }

    #[test]
    fn the_consensus_library_is_silent_unless_it_is_asked_for() {
        let written = |level: &str| {
            let buffer = Buffer::default();
            let writer = buffer.clone();
            let lines = fmt::layer()
                .with_ansi(false)
                .with_writer(move || writer.clone());
            let filter = filter(level).expect("a level");
            let log = tracing_subscriber::registry().with(filter).with(lines);
            tracing::subscriber::with_default(log, || {
                tracing::error!(target: "openraft::core", "timeout");
            });
            !buffer.text().is_empty()
        };
        assert_eq!(
            ["info", "debug", "info,openraft=warn"].map(written),
            [false, false, true]
        );
    }

    #[test]
    fn every_level_that_the_settings_take_is_a_level_of_the_log() {
        for level in [
            "off",
            "error",
            "warn",
            "info",
            "debug",
            "trace",
            "info,storage=debug",
        ] {
            assert!(filter(level).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_panic_is_one_line() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let lines = fmt::layer()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(lines);
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let broken = tracing::subscriber::with_default(log, || {
            std::panic::catch_unwind(|| panic!("queue {} is upside down", 7))
        });
        std::panic::set_hook(earlier);
        assert!(broken.is_err());
        let text = buffer.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.contains("queue 7 is upside down") && text.contains("logging.rs"),
            "{text}"
        );
    }
}
