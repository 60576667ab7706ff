//! The names in a certificate: subject, common name, alternative names. What a user is called is
//! decided by whoever asks for one of them.

use std::net::IpAddr;

use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// What a client's certificate says. Its chain was checked when it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The subject as one line, the last part first (RFC 4514).
    pub subject: String,
    /// The issuer, likewise.
    pub issuer: String,
    /// The serial number in hexadecimal digits.
    pub serial_number: String,
    /// From when to when it is good.
    pub validity: String,
    common_names: Vec<String>,
    alternative_names: Vec<(SanKind, String)>,
}

/// A kind of alternative names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SanKind {
    /// A host's name.
    Dns,
    /// An address.
    Ip,
    /// A mailbox.
    Email,
    /// A URI.
    Uri,
    /// A name of another kind: its text.
    OtherName,
}

/// Which name of a certificate is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The whole subject.
    DistinguishedName,
    /// The common name in it; several are joined by commas.
    CommonName,
    /// One of the alternative names.
    AlternativeName {
        /// Of this kind.
        kind: SanKind,
        /// Which of them, from 0.
        index: usize,
    },
}

impl PeerCertificate {
    /// Reads a certificate; `None` if it is none.
    pub fn from_der(der: &[u8]) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let body = certificate.tbs_certificate();
        let is_common_name =
            |oid: &dyn std::fmt::Display| oid.to_string() == COMMON_NAME_IDENTIFIER;
        let common_names = body
            .subject()
            .iter()
            .filter(|part| is_common_name(&part.oid))
            .filter_map(|part| text(part.value.value()))
            .collect();
        let names = body.get_extension::<SubjectAltName>().ok().flatten();
        let names = names.into_iter().flat_map(|(_, names)| names.0);
        let validity = body.validity();
        Some(Self {
            subject: body.subject().to_string(),
            issuer: body.issuer().to_string(),
            serial_number: hexadecimal(body.serial_number().as_bytes()),
            validity: format!("{} - {}", validity.not_before, validity.not_after),
            common_names,
            alternative_names: names.filter_map(alternative_name).collect(),
        })
    }

    /// The name that is meant, if the certificate has it and it is not empty.
    // rabbitmq: ssl_cert_login_from
    pub fn name(&self, which: CertificateName) -> Option<String> {
        let name = match which {
            CertificateName::DistinguishedName => self.subject.clone(),
            CertificateName::CommonName => self.common_names.join(","),
            CertificateName::AlternativeName { kind, index } => {
                let of_kind = self.alternative_names.iter().filter(|(of, _)| *of == kind);
                of_kind.map(|(_, name)| name.clone()).nth(index)?
            }
        };
        (!name.is_empty()).then_some(name)
    }
}

/// When a certificate is not good any more, in seconds since the epoch; `None` if it is none.
pub(crate) fn expires_at_s(der: &[u8]) -> Option<u64> {
    let certificate = Certificate::from_der(der).ok()?;
    let not_after = certificate.tbs_certificate().validity().not_after;
    Some(not_after.to_unix_duration().as_secs())
}

/// id-at-commonName.
const COMMON_NAME_IDENTIFIER: &str = "2.5.4.3";

fn text(octets: &[u8]) -> Option<String> {
    String::from_utf8(octets.to_vec()).ok()
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn alternative_name(name: GeneralName) -> Option<(SanKind, String)> {
    match name {
        GeneralName::DnsName(name) => Some((SanKind::Dns, name.as_str().to_owned())),
        GeneralName::Rfc822Name(name) => Some((SanKind::Email, name.as_str().to_owned())),
        GeneralName::UniformResourceIdentifier(name) => {
            Some((SanKind::Uri, name.as_str().to_owned()))
        }
        GeneralName::IpAddress(octets) => {
            let octets = octets.as_bytes();
            let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from));
            Some((SanKind::Ip, address.ok()?.to_string()))
        }
        GeneralName::OtherName(name) => {
            let value = name.value.to_der().ok()?;
            let inner = x509_cert::der::Any::from_der(&value).ok()?;
            Some((SanKind::OtherName, text(inner.value())?))
        }
        _ => None,
    }
}
