//! A small blocking client of the HTTP API, for programs that ask now and then.
//!
//! Knows how requests are written and how refusals read; must not know what is asked for.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, http};

use crate::error::ErrorBody;

/// Most bytes of an answer: the queues of a large broker, or its definitions.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// Where the API is, and who asks.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// `http://host:port`, without `/api`.
    pub url: String,
    /// User and password; without them only what needs no login answers.
    pub credentials: Option<(String, String)>,
    /// Longest time for a whole request; `None` waits as long as it takes.
    pub timeout: Option<Duration>,
    /// Certificates in PEM that vouch for the server; needed for `https`.
    pub certificates: Vec<u8>,
    /// Takes any certificate.
    pub insecure: bool,
}

/// Why a request has no answer of use.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// Nobody answers, or the connection broke.
    #[error("{url} does not answer: {why}")]
    Unreachable {
        /// Where the request went.
        url: String,
        /// What the system says.
        why: String,
    },
    /// It took too long.
    #[error("{url} did not answer in time")]
    TimedOut {
        /// Where the request went.
        url: String,
    },
    /// The API refused it.
    #[error("{reason}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The word for the kind.
        error: String,
        /// The reason as text.
        reason: String,
    },
    /// The answer is not what the API writes.
    #[error("the answer of {url} cannot be read: {why}")]
    Unreadable {
        /// Where the request went.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

/// An answer that is no refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// HTTP status.
    pub status: u16,
    /// The body; `null` when there is none.
    pub json: Value,
}

/// A client of one broker.
#[derive(Clone, Debug)]
pub struct Client {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl Client {
    /// Connects with the first request.
    ///
    /// # Errors
    /// The address is no URL, or the certificates are none.
    pub fn new(options: ClientOptions) -> Result<Self, ClientError> {
        let url = options.url.trim_end_matches('/').to_owned();
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(ClientError::Options(format!(
                "'{url}' is no address: it must begin with http:// or https://"
            )));
        }
        let agent = Agent::config_builder()
            .timeout_global(options.timeout)
            .http_status_as_error(false)
            .tls_config(tls(&options)?)
            .user_agent(concat!("sluicemq-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let authorization = options.credentials.map(|(user, password)| {
            let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
            format!("Basic {encoded}")
        });
        Ok(Self {
            agent,
            url,
            authorization,
        })
    }

    /// Where it asks.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for an object or a list; `path` begins with `/api`.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn get(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.send("GET", path, None)?.json)
    }

    /// Asks for something of a known shape.
    ///
    /// # Errors
    /// No answer, a refusal, or another shape.
    pub fn get_as<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        serde_json::from_value(self.get(path)?).map_err(|error| ClientError::Unreadable {
            url: self.address(path),
            why: error.to_string(),
        })
    }

    /// Puts an object; answers whether it did not exist before.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn put(&self, path: &str, body: &Value) -> Result<bool, ClientError> {
        Ok(self.send("PUT", path, Some(body))?.status == 201)
    }

    /// Posts a request.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        Ok(self.send("POST", path, Some(body))?.json)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// No answer, or a refusal; a missing object is one.
    pub fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.send("DELETE", path, None).map(|_| ())
    }

    /// Deletes what the body names.
    ///
    /// # Errors
    /// No answer, or a refusal; a missing object is one.
    pub fn delete_with(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        Ok(self.send("DELETE", path, Some(body))?.json)
    }

    /// Asks whether all is well, of a path whose answer is no more than that.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn probe(&self, path: &str) -> Result<(), ClientError> {
        self.respond("GET", path, None).map(|_| ())
    }

    /// Follows an answer that comes line by line for as long as it lasts.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn lines(
        &self,
        path: &str,
    ) -> Result<impl Iterator<Item = io::Result<String>>, ClientError> {
        let response = self.respond("GET", path, None)?;
        let reader = response.into_body().into_reader();
        Ok(BufReader::new(reader).lines())
    }

    /// Sends a request of any method.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answered, ClientError> {
        let response = self.respond(method, path, body)?;
        let status = response.status().as_u16();
        let bytes = self.read(path, response)?;
        if bytes.is_empty() {
            let json = Value::Null;
            return Ok(Answered { status, json });
        }
        let json = serde_json::from_slice(&bytes).map_err(|error| ClientError::Unreadable {
            url: self.address(path),
            why: error.to_string(),
        })?;
        Ok(Answered { status, json })
    }

    fn respond(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<http::Response<Body>, ClientError> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(self.address(path))
            .header("accept", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let sent = match body {
            None => self.run(request.body(()), path)?,
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.run(request.body(body.to_string()), path)?
            }
        };
        if sent.status().is_success() {
            return Ok(sent);
        }
        let status = sent.status().as_u16();
        Err(refusal(status, &self.read(path, sent)?))
    }

    fn run<B: ureq::AsSendBody>(
        &self,
        request: http::Result<http::Request<B>>,
        path: &str,
    ) -> Result<http::Response<Body>, ClientError> {
        let request = request.map_err(|error| ClientError::Options(error.to_string()))?;
        self.agent.run(request).map_err(|error| match error {
            ureq::Error::Timeout(_) => ClientError::TimedOut {
                url: self.address(path),
            },
            ureq::Error::Io(error) => self.unreachable(error.to_string()),
            other => self.unreachable(other.to_string()),
        })
    }

    fn read(&self, path: &str, response: http::Response<Body>) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        let reader = response.into_body().into_reader();
        reader
            .take(ANSWER_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| ClientError::Unreadable {
                url: self.address(path),
                why: error.to_string(),
            })?;
        Ok(bytes)
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn unreachable(&self, why: String) -> ClientError {
        let url = self.url.clone();
        ClientError::Unreachable { url, why }
    }
}

fn tls(options: &ClientOptions) -> Result<TlsConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .disable_verification(options.insecure);
    let mut certificates = Vec::new();
    for item in ureq::tls::parse_pem(&options.certificates) {
        match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(ClientError::Options(error.to_string())),
        }
    }
    if certificates.is_empty() && options.url.starts_with("https://") && !options.insecure {
        let why = "no certificates vouch for the server: name a file of them";
        return Err(ClientError::Options(why.to_owned()));
    }
    let certificates: Vec<Certificate<'static>> = certificates;
    Ok(config
        .root_certs(RootCerts::from(certificates.into_iter()))
        .build())
}

fn refusal(status: u16, body: &[u8]) -> ClientError {
    let parsed: Result<ErrorBody, _> = serde_json::from_slice(body);
    let (error, reason) = match parsed {
        Ok(ErrorBody { error, reason }) => (
            error,
            match reason {
                Value::String(text) => text,
                other => other.to_string(),
            },
        ),
        // Health checks answer with a status and a reason; some refusals with nothing.
        Err(_) => {
            let json: Value = serde_json::from_slice(body).unwrap_or_default();
            let reason = json["reason"].as_str().map(str::to_owned);
            let fallback = || {
                http::StatusCode::from_u16(status)
                    .map_or_else(|_| format!("status {status}"), |status| status.to_string())
            };
            (String::new(), reason.unwrap_or_else(fallback))
        }
    };
    ClientError::Refused {
        status,
        error,
        reason,
    }
}

/// A path under `/api` of these segments, each percent-encoded.
pub fn api_path<S: AsRef<str>>(segments: impl IntoIterator<Item = S>) -> String {
    let mut path = String::from("/api");
    for segment in segments {
        path.push('/');
        path.push_str(&encoded(segment.as_ref()));
    }
    path
}

/// Percent-encodes a segment of a path or a value of a query.
// rfc 3986, section 2.3
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for octet in text.bytes() {
        if octet.is_ascii_alphanumeric() || b"-._~".contains(&octet) {
            encoded.push(char::from(octet));
        } else {
            encoded.push_str(&format!("%{octet:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_encoded_one_by_one() {
        assert_eq!(
            api_path(["queues", "/", "a b/c"]),
            "/api/queues/%2F/a%20b%2Fc"
        );
    }

    #[test]
    fn a_refusal_reads_as_its_reason_whatever_its_shape() {
        let reason = |status, body: &str| refusal(status, body.as_bytes()).to_string();
        assert_eq!(
            reason(404, r#"{"error":"not_found","reason":"vhost_not_found"}"#),
            "vhost_not_found"
        );
        assert_eq!(
            reason(
                400,
                r#"{"error":"bad_request","reason":["not_boolean","x"]}"#
            ),
            r#"["not_boolean","x"]"#
        );
        assert_eq!(
            reason(503, r#"{"status":"failed","reason":"alarms"}"#),
            "alarms"
        );
        assert_eq!(reason(405, ""), "405 Method Not Allowed");
    }

    #[test]
    fn an_address_without_a_scheme_is_refused() {
        let refused = Client::new(ClientOptions {
            url: "localhost:15672".into(),
            credentials: None,
            timeout: None,
            certificates: Vec::new(),
            insecure: false,
        });
        assert!(matches!(refused, Err(ClientError::Options(_))));
    }
}
