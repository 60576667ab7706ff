//! The smallest HTTP client that the tests need for the management API.
//! Knows one request a connection, basic authentication and JSON.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

use crate::connection::PATIENCE;

/// Name and password.
pub type Credentials<'a> = (&'a str, &'a str);

const GUEST: Credentials<'static> = ("guest", "guest");

/// The HTTP API at one address, as guest.
#[derive(Clone, Copy, Debug)]
pub struct Http {
    address: SocketAddr,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Its head, in small letters.
    pub head: String,
    /// The body; null when it is not JSON.
    pub body: Json,
}

impl Answer {
    /// A line of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl Http {
    /// The HTTP API at `address`.
    pub fn new(address: SocketAddr) -> Http {
        Http { address }
    }

    /// Sends a request; `path` starts with `/api`.
    ///
    /// # Panics
    /// When nothing that looks like HTTP comes back.
    #[track_caller]
    pub fn send(&self, verb: &str, path: &str, body: Option<&Json>) -> Answer {
        let body = body.map(Json::to_string).unwrap_or_default();
        self.send_as(Some(GUEST), verb, path, &body)
    }

    /// Sends a request as somebody else, or as nobody, with a body that need not be JSON.
    ///
    /// # Panics
    /// When nothing that looks like HTTP comes back.
    #[track_caller]
    pub fn send_as(
        &self,
        login: Option<Credentials<'_>>,
        verb: &str,
        path: &str,
        body: &str,
    ) -> Answer {
        let (status, head, body) = self.exchange(login, verb, path, body);
        Answer {
            status,
            head: head.to_ascii_lowercase(),
            body: serde_json::from_str(&body).unwrap_or(Json::Null),
        }
    }

    /// A page that is no JSON.
    ///
    /// # Panics
    /// When it is not there.
    #[track_caller]
    pub fn text(&self, path: &str) -> String {
        let (status, _, body) = self.exchange(Some(GUEST), "GET", path, "");
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    #[track_caller]
    fn exchange(
        &self,
        login: Option<Credentials<'_>>,
        verb: &str,
        path: &str,
        body: &str,
    ) -> (u16, String, String) {
        let authorization = login.map(|(name, password)| {
            let words = BASE64.encode(format!("{name}:{password}"));
            format!("Authorization: Basic {words}\r\n")
        });
        let authorization = authorization.unwrap_or_default();
        let request = format!(
            "{verb} {path} HTTP/1.1\r\nHost: {}\r\n{authorization}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len(),
        );
        let mut stream = TcpStream::connect(self.address).expect("The HTTP API must listen.");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("A positive time is a valid one.");
        stream
            .write_all(request.as_bytes())
            .expect("The HTTP API must take a request.");
        let mut answer = Vec::new();
        stream
            .read_to_end(&mut answer)
            .expect("The HTTP API must answer.");
        let answer = String::from_utf8_lossy(&answer);
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("{verb} {path}: came {answer:?}"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let body = if head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked")
        {
            unchunked(body)
        } else {
            body.to_owned()
        };
        (status, head.to_owned(), body)
    }

    /// Sends a request that must succeed.
    #[track_caller]
    pub fn ok(&self, verb: &str, path: &str, body: Option<&Json>) -> Json {
        let answer = self.send(verb, path, body);
        let status = answer.status;
        assert!(
            (200..300).contains(&status),
            "{verb} {path}: expected 2xx; came: {answer:?}"
        );
        answer.body
    }

    /// Makes a user with these permissions in `/`.
    #[track_caller]
    pub fn add_user(&self, name: &str, password: &str, configure: &str, write: &str, read: &str) {
        let user = serde_json::json!({"password": password, "tags": ""});
        self.ok("PUT", &format!("/api/users/{name}"), Some(&user));
        let rights = serde_json::json!({"configure": configure, "write": write, "read": read});
        self.ok(
            "PUT",
            &format!("/api/permissions/%2F/{name}"),
            Some(&rights),
        );
    }

    /// Takes a user away.
    #[track_caller]
    pub fn remove_user(&self, name: &str) {
        self.ok("DELETE", &format!("/api/users/{name}"), None);
    }

    /// Makes a policy in `/` for queues of this very name.
    #[track_caller]
    pub fn add_policy(&self, queue: &str, definition: &Json) {
        let pattern = format!("^{}$", queue.replace('.', "\\."));
        let policy = serde_json::json!({
            "pattern": pattern, "definition": definition, "priority": 0, "apply-to": "queues",
        });
        self.ok("PUT", &format!("/api/policies/%2F/{queue}"), Some(&policy));
    }

    /// Takes a policy away.
    #[track_caller]
    pub fn remove_policy(&self, queue: &str) {
        self.ok("DELETE", &format!("/api/policies/%2F/{queue}"), None);
    }
}

/// Joins the chunks of a chunked body.
fn unchunked(body: &str) -> String {
    let mut joined = String::new();
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = after.get(..size).filter(|_| size > 0) else {
            break;
        };
        joined.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or("");
    }
    joined
}
