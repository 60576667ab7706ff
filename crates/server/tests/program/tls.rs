//! TLS: both listeners, certificates that change, client certificates and EXTERNAL. All
//! certificates are made by the tests.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use amqp::protocol::{AMQPClass, connection};
use amqp::protocol_types::{LongString, ShortString};
use amqp::{FrameDecoder, Method, Table};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

use crate::support::{PATIENCE, Program, command, exchange, folder, http, refused, until};

/// An authority, and a folder for what it signs.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let authority = Self {
            folder: folder(),
            issuer,
        };
        fs::write(authority.path("ca.pem"), authority.issuer.pem()).expect("written");
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Signs a certificate and writes it with its key; answers both paths.
    fn sign(&self, file: &str, subject: &[(DnType, &str)], names: Vec<SanType>) -> [PathBuf; 2] {
        let params = CertificateParams::new(Vec::new()).expect("no names");
        self.sign_with(params, file, subject, names)
    }

    fn sign_with(
        &self,
        mut params: CertificateParams,
        file: &str,
        subject: &[(DnType, &str)],
        names: Vec<SanType>,
    ) -> [PathBuf; 2] {
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = names;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let paths = [
            self.path(&format!("{file}.pem")),
            self.path(&format!("{file}.key")),
        ];
        fs::write(&paths[0], certificate.pem()).expect("written");
        fs::write(&paths[1], key.serialize_pem()).expect("written");
        paths
    }

    /// A server's certificate that runs out after this time.
    fn server_for(&self, lasts: Duration, file: &str, host: &str) -> [PathBuf; 2] {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.not_after = (SystemTime::now() + lasts).into();
        let name = host.try_into().expect("a name");
        let subject = [(DnType::CommonName, host)];
        self.sign_with(params, file, &subject, vec![SanType::DnsName(name)])
    }

    fn server(&self, file: &str, host: &str) -> [PathBuf; 2] {
        let name = host.try_into().expect("a name");
        let subject = [(DnType::CommonName, host)];
        self.sign(file, &subject, vec![SanType::DnsName(name)])
    }
}

/// What a client trusts and shows.
struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    fn new(
        authority: &Authority,
        certificate: Option<&[PathBuf; 2]>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        let pem = CertificateDer::from_pem_file(authority.path("ca.pem")).expect("a certificate");
        roots.add(pem).expect("an authority");
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match certificate {
            None => builder.with_no_client_auth(),
            Some([certificate, key]) => {
                let chain = CertificateDer::from_pem_file(certificate).expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(key).expect("a key");
                let config = builder.with_client_auth_cert(vec![chain], key);
                config.expect("they go together")
            }
        };
        Self {
            config: Arc::new(config),
        }
    }

    fn any(authority: &Authority) -> Self {
        Self::new(authority, None, &[&TLS13, &TLS12])
    }

    fn connect(
        &self,
        address: SocketAddr,
        host: &str,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let session = ClientConnection::new(self.config.clone(), name).expect("a session");
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream
                .conn
                .complete_io(&mut stream.sock)
                .map_err(|error| error.to_string())?;
        }
        Ok(stream)
    }
}

/// A client that knows the handshake of AMQP.
pub(crate) struct Amqp<S> {
    stream: S,
    bytes: Vec<u8>,
}

impl Amqp<TcpStream> {
    pub(crate) fn plain(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        Self::over(stream)
    }
}

impl<S: Read + Write> Amqp<S> {
    fn over(stream: S) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
        }
    }

    fn say(&mut self, method: connection::AMQPMethod) {
        let mut frame = Vec::new();
        let call = AMQPClass::Connection(method);
        amqp::encode_method_with_table(&mut frame, 0, &call, &Table::new());
        self.stream.write_all(&frame).expect("sent");
        self.stream.flush().expect("sent");
    }

    /// The next method, or `None` when the broker has closed.
    fn hear(&mut self) -> Option<connection::AMQPMethod> {
        let decoder = FrameDecoder::new(1 << 20);
        loop {
            if let Some((frame, used)) = decoder.next(&self.bytes).expect("a frame") {
                let Ok(Method::Other(other)) = Method::decode(frame.payload) else {
                    panic!("another method")
                };
                self.bytes.drain(..used);
                let AMQPClass::Connection(method) = other.call else {
                    panic!("another class")
                };
                return Some(method);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.bytes.extend_from_slice(&piece[..count]),
            }
        }
    }

    /// Says hello; answers the mechanisms on offer.
    fn hello(&mut self) -> String {
        self.stream
            .write_all(b"AMQP\x00\x00\x09\x01")
            .expect("sent");
        let Some(connection::AMQPMethod::Start(start)) = self.hear() else {
            panic!("connection.start")
        };
        String::from_utf8_lossy(start.mechanisms.as_bytes()).into_owned()
    }

    /// Answers what the broker proposes, or `None` if it refuses the login.
    fn log_in(&mut self, mechanism: &str, response: &str) -> Option<connection::Tune> {
        self.say(connection::AMQPMethod::StartOk(connection::StartOk {
            mechanism: ShortString::from(mechanism),
            response: LongString::from(response),
            locale: ShortString::from("en_US"),
            ..connection::StartOk::default()
        }));
        match self.hear()? {
            connection::AMQPMethod::Tune(tune) => Some(tune),
            _ => None,
        }
    }

    pub(crate) fn log_in_plain(&mut self) -> connection::Tune {
        self.hello();
        let tune = self.log_in("PLAIN", "\0guest\0guest").expect("let in");
        self.say(connection::AMQPMethod::TuneOk(connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: tune.heartbeat,
        }));
        tune
    }

    pub(crate) fn open_vhost(&mut self) {
        self.say(connection::AMQPMethod::Open(connection::Open {
            virtual_host: ShortString::from("/"),
        }));
        let answer = self.hear();
        assert!(
            matches!(answer, Some(connection::AMQPMethod::OpenOk(_))),
            "{answer:?}"
        );
    }
}

/// Options that switch TLS on with these files.
fn tls_options([certificate, key]: &[PathBuf; 2]) -> Vec<String> {
    [
        format!("tls.certificate={}", certificate.display()),
        format!("tls.private_key={}", key.display()),
        "listeners.amqps=127.0.0.1:0".to_owned(),
        "listeners.management_tls=127.0.0.1:0".to_owned(),
        "listeners.management=127.0.0.1:0".to_owned(),
    ]
    .into_iter()
    .flat_map(|set| ["--set".to_owned(), set])
    .collect()
}

/// Where AMQPS, HTTPS and HTTP are.
fn start(data: &Path, options: &[String]) -> (Program, [SocketAddr; 3]) {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut program = Program::start(command(data, &options));
    let line = program.line_with("ready amqp=");
    let address = |name| crate::support::address_in(&line, name).expect("an address");
    let addresses = [
        address("amqps"),
        address("management_tls"),
        address("management"),
    ];
    (program, addresses)
}

fn set(options: &mut Vec<String>, assignment: &str) {
    options.extend(["--set".to_owned(), assignment.to_owned()]);
}

#[test]
fn amqp_and_http_are_served_over_tls_and_shown_as_such() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let files = authority.server("server", "broker.test");
    let (_program, [amqps, https, management]) = start(folder.path(), &tls_options(&files));
    let client = Client::any(&authority);

    let mut amqp = Amqp::over(client.connect(amqps, "broker.test").expect("trusted"));
    amqp.log_in_plain();
    amqp.open_vhost();
    let mut stream = client.connect(https, "broker.test").expect("trusted");
    let (status, body) = exchange(&mut stream, "GET", "/api/overview", "");
    assert_eq!(status, 200, "{body}");
    for protocol in ["amqp/ssl", "https"] {
        assert!(
            body.contains(&format!("\"protocol\":\"{protocol}\"")),
            "{body}"
        );
    }
    let (_, connections) = http(management, "GET", "/api/connections", "");
    let shown: serde_json::Value = serde_json::from_str(&connections).expect("JSON");
    assert_eq!(shown[0]["ssl"], true, "{connections}");
    assert_eq!(shown[0]["ssl_protocol"], "TLSv1.3", "{connections}");
    assert!(
        client.connect(amqps, "other.test").is_err(),
        "another host's name"
    );
}

#[test]
fn a_certificate_that_is_replaced_is_used_and_open_connections_stay() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let files = authority.server("server", "old.test");
    let (_program, [amqps, ..]) = start(folder.path(), &tls_options(&files));
    let client = Client::any(&authority);
    let mut open = Amqp::over(client.connect(amqps, "old.test").expect("trusted"));
    open.log_in_plain();
    authority.server("server", "new.test");
    until(
        || client.connect(amqps, "new.test").is_ok(),
        |is_new| *is_new,
    );
    open.open_vhost();
}

#[test]
fn a_certificate_that_runs_out_soon_fails_its_check_until_it_is_replaced() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let ten_days = Duration::from_secs(10 * 24 * 60 * 60);
    let files = authority.server_for(ten_days, "server", "broker.test");
    let (_program, [amqps, _, management]) = start(folder.path(), &tls_options(&files));
    let check = |within: &str| {
        let path = format!("/api/health/checks/certificate-expiration/{within}");
        http(management, "GET", &path, "")
    };
    assert_eq!(check("1/weeks").0, 200);
    let (status, body) = check("2/weeks");
    assert_eq!(status, 503, "{body}");
    let told: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(told["reason"], "Certificates expiring");
    let ports = told["expired"].as_array().expect("a list");
    let ports: Vec<_> = ports.iter().map(|expired| &expired["port"]).collect();
    assert!(ports.contains(&&amqps.port().into()), "{body}");
    authority.server("server", "broker.test");
    until(|| check("2/weeks").0, |status| *status == 200);
}

#[test]
fn a_private_key_of_another_certificate_leaves_the_old_one_in_use() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let files = authority.server("server", "broker.test");
    let (mut program, [amqps, ..]) = start(folder.path(), &tls_options(&files));
    let other = authority.server("other", "other.test");
    fs::copy(&other[1], &files[1]).expect("copied");
    let line = program.line_with("the certificates are not reloaded");
    assert!(
        line.contains("is not the private key of the certificate"),
        "{line}"
    );
    let client = Client::any(&authority);
    assert!(client.connect(amqps, "broker.test").is_ok());
}

#[test]
fn files_that_do_not_go_together_end_the_start_with_the_files_name() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let [certificate, _] = authority.server("server", "broker.test");
    let [_, key] = authority.server("other", "other.test");
    let options = tls_options(&[certificate, key]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let (code, told) = refused(command(folder.path(), &options));
    assert_eq!(code, Some(78), "{told}");
    assert!(
        told.contains("other.key: is not the private key of the certificate"),
        "{told}"
    );
}

#[test]
fn clients_that_ask_for_a_name_get_its_certificate() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let mut options = tls_options(&authority.server("server", "broker.test"));
    let [certificate, key] = authority.server("tenant", "tenant.test");
    let named = format!("tenant.test={}:{}", certificate.display(), key.display());
    set(&mut options, &format!("tls.certificates_by_name={named}"));
    let (_program, [amqps, ..]) = start(folder.path(), &options);
    let client = Client::any(&authority);
    for host in ["tenant.test", "broker.test"] {
        assert!(client.connect(amqps, host).is_ok(), "{host}");
    }
}

#[test]
fn versions_and_ciphers_can_be_narrowed() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let mut options = tls_options(&authority.server("server", "broker.test"));
    set(&mut options, "tls.minimum_version=1.3");
    set(&mut options, "tls.cipher_suites=TLS_AES_128_GCM_SHA256");
    let (_program, [amqps, ..]) = start(folder.path(), &options);
    let old = Client::new(&authority, None, &[&TLS12]);
    assert!(old.connect(amqps, "broker.test").is_err(), "TLS 1.2");
    let stream = Client::any(&authority).connect(amqps, "broker.test");
    let suite = stream.expect("TLS 1.3").conn.negotiated_cipher_suite();
    let name = suite.map(|suite| format!("{:?}", suite.suite()));
    assert_eq!(name.as_deref(), Some("TLS13_AES_128_GCM_SHA256"));
}

/// A broker that takes EXTERNAL, with a user of this name.
fn external(login_from: &[&str], user: &str) -> (Authority, TempDir, Program, SocketAddr) {
    let authority = Authority::new("test authority");
    let folder = folder();
    let mut options = tls_options(&authority.server("server", "broker.test"));
    set(&mut options, "auth.mechanisms=PLAIN,EXTERNAL");
    set(&mut options, "tls.client_certificates=optional");
    let ca = authority.path("ca.pem");
    set(
        &mut options,
        &format!("tls.client_authorities={}", ca.display()),
    );
    for assignment in login_from {
        set(&mut options, assignment);
    }
    let (program, [amqps, _, management]) = start(folder.path(), &options);
    let path = user
        .replace(',', "%2C")
        .replace('=', "%3D")
        .replace('/', "%2F");
    let body = r#"{"password_hash":"","tags":""}"#;
    let (status, answer) = http(management, "PUT", &format!("/api/users/{path}"), body);
    assert_eq!(status, 201, "{answer}");
    (authority, folder, program, amqps)
}

/// Whether a client with this certificate is let in by EXTERNAL.
fn let_in(authority: &Authority, amqps: SocketAddr, certificate: &[PathBuf; 2]) -> bool {
    let client = Client::new(authority, Some(certificate), &[&TLS13]);
    let mut amqp = Amqp::over(client.connect(amqps, "broker.test").expect("trusted"));
    assert_eq!(amqp.hello(), "PLAIN EXTERNAL");
    amqp.log_in("EXTERNAL", "").is_some()
}

#[test]
fn external_logs_in_by_distinguished_name_and_is_offered_with_a_certificate_only() {
    let (authority, _folder, _program, amqps) = external(&[], "CN=alice,O=Shop");
    let subject = [
        (DnType::OrganizationName, "Shop"),
        (DnType::CommonName, "alice"),
    ];
    let alice = authority.sign("alice", &subject, Vec::new());
    assert!(let_in(&authority, amqps, &alice));
    let subject = [(DnType::CommonName, "mallory")];
    let mallory = authority.sign("mallory", &subject, Vec::new());
    assert!(!let_in(&authority, amqps, &mallory));

    let without = Client::any(&authority).connect(amqps, "broker.test");
    assert_eq!(Amqp::over(without.expect("optional")).hello(), "PLAIN");
}

#[test]
fn external_logs_in_by_common_name_or_alternative_name() {
    let login_from = ["tls.login_from=common_name"];
    let (authority, _folder, _program, amqps) = external(&login_from, "alice");
    let subject = [
        (DnType::CommonName, "alice"),
        (DnType::OrganizationName, "Shop"),
    ];
    assert!(let_in(
        &authority,
        amqps,
        &authority.sign("alice", &subject, Vec::new())
    ));

    let login_from = [
        "tls.login_from=subject_alternative_name",
        "tls.login_san_type=email",
        "tls.login_san_index=1",
    ];
    let (authority, _folder, _program, amqps) = external(&login_from, "a@shop.test");
    let names = ["first@shop.test", "a@shop.test"]
        .map(|name| SanType::Rfc822Name(name.try_into().expect("a mailbox")));
    let subject = [(DnType::CommonName, "whoever")];
    assert!(let_in(
        &authority,
        amqps,
        &authority.sign("alice", &subject, names.into())
    ));
}

#[test]
fn a_certificate_of_another_authority_is_refused_and_required_ones_are_required() {
    let authority = Authority::new("test authority");
    let folder = folder();
    let mut options = tls_options(&authority.server("server", "broker.test"));
    set(&mut options, "tls.client_certificates=required");
    let ca = authority.path("ca.pem");
    set(
        &mut options,
        &format!("tls.client_authorities={}", ca.display()),
    );
    let (_program, [amqps, ..]) = start(folder.path(), &options);
    let strangers = Authority::new("strangers");
    let stranger = strangers.sign("stranger", &[(DnType::CommonName, "x")], Vec::new());
    let known = authority.sign("known", &[(DnType::CommonName, "x")], Vec::new());
    let greeted = |certificate: Option<&[PathBuf; 2]>| {
        let client = Client::new(&authority, certificate, &[&TLS13]);
        let Ok(stream) = client.connect(amqps, "broker.test") else {
            return false;
        };
        // TLS 1.3 tells a client of the refusal with its first read.
        let mut amqp = Amqp::over(stream);
        let _ = amqp.stream.write_all(b"AMQP\x00\x00\x09\x01");
        amqp.hear().is_some()
    };
    assert!(greeted(Some(&known)));
    assert!(!greeted(Some(&stranger)));
    assert!(!greeted(None));
}
