//! A running program, and small clients for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// No step takes nearly so long; a test that waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running program; it is killed when the test ends.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    pub(crate) told: Vec<String>,
}

/// The program on free ports, with a clean environment.
pub(crate) fn command(data_dir: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicemq"));
    command.env_clear().arg("--data-dir").arg(data_dir);
    command.args(["--set", "listeners.amqp=127.0.0.1:0"]);
    command.args([
        "--set",
        "listeners.management=off",
        "--set",
        "listeners.metrics=off",
    ]);
    command
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

impl Program {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program is built");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            told: Vec::new(),
        }
    }

    /// The first line that holds `what`.
    #[track_caller]
    pub(crate) fn line_with(&mut self, what: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => self.told.push(line),
                Err(_) => panic!("no line with {what:?} in:\n{}", self.told.join("\n")),
            }
        }
    }

    /// Waits for the ready line and answers where AMQP listens.
    #[track_caller]
    pub(crate) fn ready(&mut self) -> SocketAddr {
        self.listens("amqp")
    }

    /// Waits for the ready line and answers where this listener is.
    #[track_caller]
    pub(crate) fn listens(&mut self, listener: &str) -> SocketAddr {
        let line = self.line_with("ready amqp=");
        address_in(&line, listener).unwrap_or_else(|| panic!("{line}"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the process is there");
    }

    /// Waits for the end and answers with everything that was told and not yet looked at.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let rest: Vec<String> = self.lines.iter().collect();
        let status = self.child.wait().expect("the process is ours");
        (status, rest.join("\n"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program that is expected not to start.
pub(crate) fn refused(command: Command) -> (Option<i32>, String) {
    let (status, told) = Program::start(command).end();
    (status.code(), told)
}

/// The address of a listener in a ready line.
pub(crate) fn address_in(line: &str, listener: &str) -> Option<SocketAddr> {
    let mut words = line.split(' ');
    let word = words.find_map(|word| word.strip_prefix(listener)?.strip_prefix('='))?;
    word.parse().ok()
}

/// A request to the HTTP API as guest; answers status and body.
pub(crate) fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    exchange(&mut stream, method, path, body)
}

/// A request over any stream.
pub(crate) fn exchange(
    stream: &mut (impl Read + Write),
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    let mut answer = Vec::new();
    // A TLS stream may end without its own goodbye.
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = answer
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    (
        status.unwrap_or_else(|| panic!("no answer: {answer:?}")),
        body.unwrap_or_default(),
    )
}

/// Asks until the answer is as wanted; the last answer if it never is.
#[track_caller]
pub(crate) fn until<T: std::fmt::Debug>(ask: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let begun = std::time::Instant::now();
    loop {
        let answer = ask();
        if wanted(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "still {answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
