//! From the files and choices of an operator to a configuration of rustls, or to what is wrong.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, SupportedCipherSuite};

use crate::certificate::expires_at_s;

/// What an operator decides about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// PEM: our certificate and those between it and the authority.
    pub certificate: PathBuf,
    /// PEM: the private key of the certificate.
    pub private_key: PathBuf,
    /// Other certificates for clients that ask for these names.
    pub by_name: Vec<NamedCertificate>,
    /// PEM: authorities that clients' certificates are checked against.
    pub client_authorities: Option<PathBuf>,
    /// Whether clients show a certificate.
    pub client_certificates: ClientCertificates,
    /// The oldest version that is spoken.
    pub minimum_version: TlsVersion,
    /// Names of cipher suites that may be used; empty: all that the library takes for safe.
    pub cipher_suites: Vec<String>,
}

/// A certificate for clients that ask for a name (SNI).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    /// The name.
    pub name: String,
    /// PEM: the chain.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub private_key: PathBuf,
}

/// Whether clients show a certificate. One that is shown must be good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    Off,
    /// They may.
    Optional,
    /// They must.
    Required,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2.
    #[default]
    Tls12,
    /// 1.3.
    Tls13,
}

/// Why TLS cannot be served with these options.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// A cipher suite that the library does not have.
    #[error("there is no cipher suite {name}; those that can be used are {}", known.join(", "))]
    CipherSuite {
        /// Its name.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Clients shall show certificates, and nothing says which are good.
    #[error("clients' certificates are asked for, but no authorities to check them against")]
    NoAuthorities,
    /// What was chosen does not go together.
    #[error("{0}")]
    Unsound(String),
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum FileFault {
    /// It cannot be read.
    Unreadable(String),
    /// It does not hold what it should.
    Lacks(&'static str),
    /// The private key is not that of the certificate.
    OtherKey,
    /// It holds something that the library refuses.
    Refused(String),
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}; check path and permissions"),
            Self::Lacks(what) => write!(f, "holds no {what} in PEM form"),
            Self::OtherKey => f.write_str("is not the private key of the certificate"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

fn file_error(path: &Path, fault: FileFault) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        fault,
    }
}

impl TlsOptions {
    /// Every file that is read, for whoever watches them.
    pub fn files(&self) -> Vec<&Path> {
        let mut files = vec![self.certificate.as_path(), self.private_key.as_path()];
        for named in &self.by_name {
            files.extend([named.certificate.as_path(), named.private_key.as_path()]);
        }
        files.extend(self.client_authorities.as_deref());
        files
    }

    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = Arc::new(self.provider()?);
        let versions: &[_] = match self.minimum_version {
            TlsVersion::Tls12 => &[&TLS13, &TLS12],
            TlsVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| TlsError::Unsound(error.to_string()))?;
        let builder = match self.client_verifier(&provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let certificates = Arc::new(self.certificates(&provider)?);
        Ok(Arc::new(builder.with_cert_resolver(certificates)))
    }

    /// When the first of our certificates runs out, in seconds since the epoch; `None` if none says so.
    pub(crate) fn expires_at_s(&self) -> Result<Option<u64>, TlsError> {
        let by_name = self.by_name.iter().map(|named| &named.certificate);
        let mut earliest = None;
        for path in by_name.chain([&self.certificate]) {
            let chain = certificates(path)?;
            let ends = chain.iter().filter_map(|der| expires_at_s(der));
            earliest = ends.chain(earliest).min();
        }
        Ok(earliest)
    }

    fn provider(&self) -> Result<CryptoProvider, TlsError> {
        let mut provider = aws_lc_rs::default_provider();
        if self.cipher_suites.is_empty() {
            return Ok(provider);
        }
        let all = std::mem::take(&mut provider.cipher_suites);
        for name in &self.cipher_suites {
            let found = all.iter().find(|suite| is_named(suite, name));
            let suite = found.ok_or_else(|| TlsError::CipherSuite {
                name: name.clone(),
                known: all.iter().map(suite_name).collect(),
            })?;
            provider.cipher_suites.push(*suite);
        }
        Ok(provider)
    }

    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn tokio_rustls::rustls::server::danger::ClientCertVerifier>>, TlsError>
    {
        if self.client_certificates == ClientCertificates::Off {
            return Ok(None);
        }
        let path = self
            .client_authorities
            .as_deref()
            .ok_or(TlsError::NoAuthorities)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots
                .add(certificate)
                .map_err(|error| file_error(path, FileFault::Refused(error.to_string())))?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let builder = match self.client_certificates {
            ClientCertificates::Optional => builder.allow_unauthenticated(),
            _ => builder,
        };
        let verifier = builder
            .build()
            .map_err(|error| file_error(path, FileFault::Refused(error.to_string())))?;
        Ok(Some(verifier))
    }

    fn certificates(&self, provider: &CryptoProvider) -> Result<Certificates, TlsError> {
        let default = certified_key(&self.certificate, &self.private_key, provider)?;
        let by_name = self.by_name.iter().map(|named| {
            let key = certified_key(&named.certificate, &named.private_key, provider)?;
            Ok((named.name.to_ascii_lowercase(), Arc::new(key)))
        });
        Ok(Certificates {
            default: Arc::new(default),
            by_name: by_name.collect::<Result<_, TlsError>>()?,
        })
    }
}

/// The certificate for the name that a client asks for; the first one for all others.
#[derive(Debug)]
struct Certificates {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello
            .server_name()
            .and_then(|name| self.by_name.get(&name.to_ascii_lowercase()));
        Some(named.unwrap_or(&self.default).clone())
    }
}

fn certified_key(
    certificate: &Path,
    private_key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let pem = read(private_key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| file_error(private_key, FileFault::Lacks("private key")))?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| file_error(private_key, FileFault::Refused(error.to_string())))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        // A key that cannot say what its public half is may still be right.
        Err(tokio_rustls::rustls::Error::InconsistentKeys(
            tokio_rustls::rustls::InconsistentKeys::Unknown,
        )) => Ok(certified),
        Err(tokio_rustls::rustls::Error::InconsistentKeys(_)) => {
            Err(file_error(private_key, FileFault::OtherKey))
        }
        Err(error) => Err(file_error(
            certificate,
            FileFault::Refused(error.to_string()),
        )),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(file_error(path, FileFault::Lacks("certificate"))),
        Err(error) => Err(file_error(path, FileFault::Refused(error.to_string()))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| file_error(path, FileFault::Unreadable(error.to_string())))
}

/// The name that standards give it.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
}

/// Whether `name` means the suite: as standards write it, or as OpenSSL does.
fn is_named(suite: &SupportedCipherSuite, name: &str) -> bool {
    let (known, name) = (core_of(&suite_name(suite)), core_of(name));
    // OpenSSL leaves the hash of some suites out.
    !name.is_empty() && (known == name || known.strip_suffix("SHA256") == Some(name.as_str()))
}

fn core_of(name: &str) -> String {
    let upper = name.to_ascii_uppercase();
    let words = upper.split(['_', '-']);
    words
        .filter(|word| !matches!(*word, "TLS" | "TLS13" | "WITH"))
        .collect()
}
