//! TLS for `amqps:` addresses. The only file that knows rustls.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};

use super::{ClientFault, TlsTrust};

/// Where Debian and most others keep the system's authorities.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub(crate) async fn connect(
    socket: TcpStream,
    host: &str,
    trust: &TlsTrust,
) -> Result<TlsStream<TcpStream>, ClientFault> {
    let name = ServerName::try_from(host.to_owned()).map_err(|_| {
        ClientFault::Tls(format!("{host:?} is no name that a certificate can have"))
    })?;
    TlsConnector::from(Arc::new(config(trust)?))
        .connect(name, socket)
        .await
        .map_err(|fault| ClientFault::Tls(fault.to_string()))
}

fn config(trust: &TlsTrust) -> Result<ClientConfig, ClientFault> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(tls_fault)?;
    let builder = if trust.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(BelieveAll(provider)))
    } else {
        builder.with_root_certificates(authorities(trust)?)
    };
    match &trust.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|fault| bad_file(key, &fault))?;
            builder
                .with_client_auth_cert(certificates(chain)?, key)
                .map_err(tls_fault)
        }
    }
}

fn authorities(trust: &TlsTrust) -> Result<RootCertStore, ClientFault> {
    let path = trust.authorities.as_deref();
    let path = path.unwrap_or_else(|| Path::new(SYSTEM_AUTHORITIES));
    let mut store = RootCertStore::empty();
    // The system's file may hold certificates of forms that rustls does not take.
    let (taken, _refused) = store.add_parsable_certificates(certificates(path)?);
    if taken == 0 {
        let path = path.display();
        return Err(ClientFault::Tls(format!("{path} holds no certificate")));
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientFault> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|fault| bad_file(path, &fault))
}

fn bad_file(path: &Path, fault: &dyn std::fmt::Debug) -> ClientFault {
    ClientFault::Tls(format!("cannot read {}: {fault:?}", path.display()))
}

fn tls_fault(fault: TlsError) -> ClientFault {
    ClientFault::Tls(fault.to_string())
}

/// Takes any certificate, since the user said so; signatures of the handshake are still checked.
#[derive(Debug)]
struct BelieveAll(Arc<CryptoProvider>);

impl ServerCertVerifier for BelieveAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.0.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
