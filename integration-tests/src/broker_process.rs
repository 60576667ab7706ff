//! A broker of this workspace as a child process, on free ports and a data directory of its own.
//! Knows the program's options and its ready line; ends only the process that it started.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// How long a broker may take to say that it is ready, recovery of a large journal included.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a broker may take to end after TERM.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// When set, the data directory of a failed test is left for looking into.
const KEEP_DATA: &str = "SLUICEMQ_TEST_KEEP_DATA";
/// Lines of standard error kept for failure messages.
const STDERR_LINES_MAX: usize = 200;
/// Name of a file of settings.
const SETTINGS_FILE: &str = "broker.yaml";
/// What every broker under test is told: free ports of the loopback address, and to say only what
/// a failure message can use.
const USUAL_SETTINGS: &[&str] = &[
    "listeners.amqp=127.0.0.1:0",
    "listeners.management=127.0.0.1:0",
    "listeners.metrics=127.0.0.1:0",
    "log.level=warn",
];

/// A running broker; dropping it kills the process and removes the data directory.
#[derive(Debug)]
pub struct BrokerProcess {
    /// A program that runs the broker, with its arguments; none runs it directly.
    launcher: Vec<String>,
    settings: Vec<String>,
    config: Option<PathBuf>,
    environment: Vec<(String, String)>,
    data_dir: TempDir,
    running: Option<Running>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// Ends the broker when the test process ends without dropping it, as statics do.
    watch: Child,
    ready: ReadyLine,
}

/// What the broker said about its listeners.
#[derive(Clone, Copy, Debug)]
struct ReadyLine {
    amqp: SocketAddr,
    management: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

/// A file of settings that a test writes while its broker runs.
pub struct SettingsFile {
    folder: TempDir,
}

impl SettingsFile {
    /// With its first text.
    #[track_caller]
    pub fn new(text: &str) -> SettingsFile {
        let folder = tempfile::Builder::new().prefix("sluicemq-test-").tempdir();
        let file = SettingsFile {
            folder: folder.expect("The temporary folder must take a folder."),
        };
        file.write(text);
        file
    }

    /// Writes another text, whole or not at all.
    #[track_caller]
    pub fn write(&self, text: &str) {
        self.write_beside(SETTINGS_FILE, text);
    }

    /// Writes another file beside it, such as that of policies.
    #[track_caller]
    pub fn write_beside(&self, name: &str, text: &str) {
        let written = self.folder.path().join("written");
        std::fs::write(&written, text).expect("The temporary folder must take a file.");
        std::fs::rename(&written, self.folder.path().join(name))
            .expect("A file can be renamed in its folder.");
    }

    /// Starts a broker with the file, and with `KEY=VALUE` settings that win over it.
    #[track_caller]
    pub fn start_broker(&self, settings: &[&str]) -> BrokerProcess {
        BrokerProcess::start_from(&[], settings, &[], Some(self.path()))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(SETTINGS_FILE)
    }
}

impl BrokerProcess {
    /// Starts a broker with nothing but free ports and an empty data directory.
    #[track_caller]
    pub fn start() -> BrokerProcess {
        BrokerProcess::start_with(&[])
    }

    /// Starts a broker with `KEY=VALUE` settings as well.
    #[track_caller]
    pub fn start_with(settings: &[&str]) -> BrokerProcess {
        BrokerProcess::start_in(settings, &[])
    }

    /// Starts a broker with settings and environment.
    #[track_caller]
    pub fn start_in(settings: &[&str], environment: &[(&str, &str)]) -> BrokerProcess {
        BrokerProcess::start_from(&[], settings, environment, None)
    }

    /// Starts a broker by way of another program, which must become the broker.
    #[track_caller]
    pub fn start_by(
        launcher: &[&str],
        settings: &[&str],
        environment: &[(&str, &str)],
    ) -> BrokerProcess {
        BrokerProcess::start_from(launcher, settings, environment, None)
    }

    #[track_caller]
    fn start_from(
        launcher: &[&str],
        settings: &[&str],
        environment: &[(&str, &str)],
        config: Option<PathBuf>,
    ) -> BrokerProcess {
        let data_dir = tempfile::Builder::new().prefix("sluicemq-test-").tempdir();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let mut broker = BrokerProcess {
            launcher: texts(launcher),
            settings: texts(settings),
            environment: environment.iter().map(owned).collect(),
            config,
            data_dir: data_dir.expect("The temporary folder must take a data directory."),
            running: None,
            stderr: Arc::default(),
        };
        broker.restart();
        broker
    }

    /// Later starts get no environment of the test's own.
    pub fn forget_environment(&mut self) {
        self.environment.clear();
    }

    /// Starts the broker again on the same data directory; it must have ended before.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(
            self.running.is_none(),
            "the broker runs; end it before starting it again"
        );
        let mut child = self
            .command()
            .spawn()
            .expect("The broker's binary must start.");
        let stderr = child.stderr.take().expect("Standard error is piped.");
        let watch = watch(child.id(), self.data_dir.path());
        match self.await_ready(stderr) {
            Some(ready) => {
                self.running = Some(Running {
                    child,
                    watch,
                    ready,
                })
            }
            None => {
                end(&mut child);
                end_watch(watch);
                panic!("expected the ready line; came:\n{}", self.stderr_tail());
            }
        }
    }

    /// Starts the broker and kills it so long after, whether it serves by then or not.
    #[track_caller]
    pub fn cut_start(&mut self, after: Duration) {
        assert!(self.running.is_none(), "the broker runs; end it before");
        let mut command = self.command();
        let mut child = command
            .stderr(Stdio::null())
            .spawn()
            .expect("The broker's binary must start.");
        std::thread::sleep(after);
        end(&mut child);
    }

    fn command(&self) -> Command {
        let mut command = match self.launcher.split_first() {
            None => Command::new(binary()),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary());
                command
            }
        };
        command.arg("--data-dir").arg(self.data_dir.path());
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        let settings = USUAL_SETTINGS
            .iter()
            .copied()
            .chain(self.settings.iter().map(String::as_str));
        settings.for_each(|setting| {
            command.args(["--set", setting]);
        });
        for (name, _) in env::vars() {
            if name.starts_with("SLUICEMQ__") || name.starts_with("RABBITMQ_") {
                command.env_remove(name);
            }
        }
        let environment = self.environment.iter().map(|(name, value)| (name, value));
        command.envs(environment).current_dir(self.data_dir.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Reads standard error until the ready line, then leaves a thread reading on.
    fn await_ready(&self, stderr: ChildStderr) -> Option<ReadyLine> {
        let (sender, receiver) = mpsc::channel();
        let lines = Arc::clone(&self.stderr);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(ready) = ReadyLine::parse(&line) {
                    // Nobody listens any more when the wait is over.
                    let _ = sender.send(ready);
                }
                let mut lines = lines
                    .lock()
                    .expect("No test panics while it holds the lines.");
                if lines.len() == STDERR_LINES_MAX {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        });
        receiver.recv_timeout(READY_WITHIN).ok()
    }

    /// Where AMQP is served.
    pub fn address(&self) -> SocketAddr {
        self.running().ready.amqp
    }

    /// Where the HTTP API is served.
    pub fn management(&self) -> Option<SocketAddr> {
        self.running().ready.management
    }

    /// Where the metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.running().ready.metrics
    }

    /// Starts another broker on the same data directory and waits until it has given up.
    ///
    /// # Panics
    /// When it does not give up.
    #[track_caller]
    pub fn second_start(&self) -> Output {
        let mut second = self
            .command()
            .spawn()
            .expect("The broker's binary must start.");
        let deadline = Instant::now() + ENDS_WITHIN;
        while matches!(second.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                end(&mut second);
                panic!("expected the second broker to give up; it ran on");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        second
            .wait_with_output()
            .expect("Its standard error is piped.")
    }

    /// Kills the process with no chance to do anything more.
    pub fn kill9(&mut self) {
        if let Some(mut running) = self.running.take() {
            end(&mut running.child);
            end_watch(running.watch);
        }
    }

    /// Asks the process to end.
    #[track_caller]
    pub fn send_term(&self) {
        self.send(Signal::TERM);
    }

    /// Stops the process as if its machine stood still.
    #[track_caller]
    pub fn pause(&self) {
        self.send(Signal::STOP);
    }

    /// Lets a paused process go on.
    #[track_caller]
    pub fn resume(&self) {
        self.send(Signal::CONT);
    }

    #[track_caller]
    fn send(&self, signal: Signal) {
        let id = i32::try_from(self.running().child.id()).expect("A process id fits.");
        let id = Pid::from_raw(id).expect("A process id is not zero.");
        rustix::process::kill_process(id, signal).expect("Our own child can be told.");
    }

    /// Takes everything from the disk of a broker that has ended.
    #[track_caller]
    pub fn empty_disk(&mut self) {
        assert!(
            self.running.is_none(),
            "the broker still writes to its disk"
        );
        let data_dir = tempfile::Builder::new().prefix("sluicemq-test-").tempdir();
        self.data_dir = data_dir.expect("The temporary folder must take a data directory.");
    }

    /// Waits for a process that was asked to end.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("The broker runs.");
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            if let Some(status) = running
                .child
                .try_wait()
                .expect("Our own child can be asked.")
            {
                end_watch(running.watch);
                return status;
            }
            if Instant::now() > deadline {
                end(&mut running.child);
                end_watch(running.watch);
                panic!(
                    "expected the broker to end; it ran on:\n{}",
                    self.stderr_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// TERM and the wait for the end.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.send_term();
        self.wait_for_end()
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Resident memory of the process, in octets.
    #[track_caller]
    pub fn rss_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.running().child.id());
        let status = fs::read_to_string(&path).expect("The broker must still run.");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
        kib.map(|kib: u64| kib * 1024)
            .expect("The kernel tells VmRSS of a running process.")
    }

    /// CPU time that the process has used.
    #[track_caller]
    pub fn cpu_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.running().child.id());
        let stat = fs::read_to_string(&path).expect("The broker must still run.");
        // Behind the name, which may hold spaces: user and system time are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |place: usize| -> u64 {
            let field = fields.get(place).and_then(|field| field.parse().ok());
            field.expect("The kernel tells the times of a running process.")
        };
        Duration::from_millis(
            (ticks(11) + ticks(12)) * 1000 / rustix::param::clock_ticks_per_second(),
        )
    }

    /// Its data directory.
    pub fn data_dir(&self) -> &Path {
        self.data_dir.path()
    }

    /// Octets that the data directory takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        disk_bytes(self.data_dir.path())
    }

    /// The last lines of standard error.
    pub fn stderr_tail(&self) -> String {
        let lines = self
            .stderr
            .lock()
            .expect("No test panics while it holds the lines.");
        Vec::from(lines.clone()).join("\n")
    }

    #[track_caller]
    fn running(&self) -> &Running {
        self.running
            .as_ref()
            .expect("The broker must be running for this.")
    }
}

impl Drop for BrokerProcess {
    fn drop(&mut self) {
        self.kill9();
        if std::thread::panicking() && env::var_os(KEEP_DATA).is_some() {
            self.data_dir.disable_cleanup(true);
            eprintln!(
                "The broker's data is kept in {}.",
                self.data_dir.path().display()
            );
        }
    }
}

impl ReadyLine {
    /// Reads `ready amqp=ADDR management=ADDR metrics=ADDR`; `off` is a listener that is not there.
    fn parse(line: &str) -> Option<ReadyLine> {
        let words = line.strip_prefix("ready ")?.split_whitespace();
        let mut amqp = None;
        let (mut management, mut metrics) = (None, None);
        for (name, address) in words.filter_map(|word| word.split_once('=')) {
            let address = address.parse().ok();
            match name {
                "amqp" => amqp = address,
                "management" => management = address,
                "metrics" => metrics = address,
                _ => {}
            }
        }
        Some(ReadyLine {
            amqp: amqp?,
            management,
            metrics,
        })
    }
}

/// Whether an exit was the orderly one.
pub fn is_clean_exit(status: ExitStatus) -> bool {
    status.code() == Some(0) && status.signal().is_none()
}

/// The broker's binary: beside the test binaries, in the profile that they were built in.
///
/// # Panics
/// When it was not built.
fn binary() -> PathBuf {
    if let Some(path) = env::var_os("SLUICEMQ_TEST_BINARY") {
        return path.into();
    }
    let test = env::current_exe().expect("The system tells the path of a running program.");
    let profile = test
        .parent()
        .and_then(Path::parent)
        .expect("Tests lie in PROFILE/deps.");
    let binary = profile.join("sluicemq");
    assert!(
        binary.exists(),
        "{} is missing: run `cargo build -p server` first",
        binary.display()
    );
    binary
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// A shell that waits for the end of its input, which is the end of this process, and then ends the
/// broker and removes its data. It stands in a process group of its own so that an interrupt from
/// the keyboard does not end it before its work.
fn watch(broker: u32, data_dir: &Path) -> Child {
    Command::new("sh")
        .args([
            "-c",
            "read -r _; kill -9 \"$1\" 2>/dev/null; rm -rf \"$2\"",
            "watch",
        ])
        .arg(broker.to_string())
        .arg(data_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("A shell must be there.")
}

fn end_watch(mut watch: Child) {
    // Killed before its input ends, so that it does not act.
    let _ = watch.kill();
    let _ = watch.wait();
}

fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
