//! TLS for listeners: files to a server that accepts, swapped while it runs, and the names in the
//! certificates that clients show.
//!
//! Knows rustls and X.509. Must not know AMQP, HTTP, users, or where the files' names come from.

mod acceptor;
mod certificate;
mod load;
mod stream;

pub use acceptor::{Accepted, TlsAcceptor};
pub use certificate::{CertificateName, PeerCertificate, SanKind};
pub use load::{ClientCertificates, FileFault, NamedCertificate, TlsError, TlsOptions, TlsVersion};
pub use stream::ListenerStream;
pub use tokio_rustls::server::TlsStream;
