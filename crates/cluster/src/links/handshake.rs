//! Who is at the other end of a link: both ends prove that they know the cluster's secret, and agree
//! on a version of the frames.
//!
//! ```text
//! acceptor → dialer   hello  = "SLMQ" · version min u16 · max u16 · node u64 · nonce 32
//! dialer → acceptor   answer = "SLMQ" · version u16 · node u64 · nonce 32 · proof 32
//! acceptor → dialer   accept = proof 32
//! proof = HMAC-SHA256(secret, role · acceptor's nonce · dialer's nonce · both nodes · version)
//! ```

use std::fmt;
use std::io;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::tcp::LinkError;
use crate::group::NodeId;

const MAGIC: [u8; 4] = *b"SLMQ";
/// Versions of the frames that this program speaks. A rolling upgrade needs each program to speak the
/// newest version of the one before: `max` grows first, `min` follows a release later.
pub(super) const VERSIONS: Versions = Versions { min: 1, max: 1 };

/// A range of versions. Two nodes take the newest that both speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) min: u16,
    pub(super) max: u16,
}

impl Versions {
    fn newest_with(self, other: Self) -> Option<u16> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }

    fn has(self, version: u16) -> bool {
        (self.min..=self.max).contains(&version)
    }
}

const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;

/// What all nodes of a cluster know and nobody else.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Any bytes; the longer the better.
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self(secret.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

type Nonce = [u8; NONCE_BYTES];

/// What both ends have said before they prove anything.
struct Terms {
    version: u16,
    acceptor: NodeId,
    dialer: NodeId,
    acceptor_nonce: Nonce,
    dialer_nonce: Nonce,
}

impl Terms {
    fn mac(&self, secret: &Secret, role: u8) -> Result<Hmac<Sha256>, LinkError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).map_err(|_| LinkError::Secret)?;
        mac.update(&[role]);
        mac.update(&self.acceptor_nonce);
        mac.update(&self.dialer_nonce);
        mac.update(&self.acceptor.0.to_le_bytes());
        mac.update(&self.dialer.0.to_le_bytes());
        mac.update(&self.version.to_le_bytes());
        Ok(mac)
    }

    fn proof(&self, secret: &Secret, role: u8) -> Result<[u8; PROOF_BYTES], LinkError> {
        Ok(self.mac(secret, role)?.finalize().into_bytes().into())
    }

    /// In constant time.
    fn check(&self, secret: &Secret, role: u8, proof: &[u8]) -> Result<(), LinkError> {
        let mac = self.mac(secret, role)?;
        mac.verify_slice(proof).map_err(|_| LinkError::Secret)
    }
}

const DIALER: u8 = 1;
const ACCEPTOR: u8 = 2;

async fn magic(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), LinkError> {
    let mut magic = [0; 4];
    stream.read_exact(&mut magic).await?;
    match magic == MAGIC {
        true => Ok(()),
        false => Err(LinkError::NotANode),
    }
}

/// Takes part as the one who called `to`.
pub(super) async fn dial<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    me: NodeId,
    to: NodeId,
    secret: &Secret,
    versions: Versions,
) -> Result<u16, LinkError> {
    magic(stream).await?;
    let (min, max) = (stream.read_u16_le().await?, stream.read_u16_le().await?);
    let acceptor = NodeId(stream.read_u64_le().await?);
    if acceptor != to {
        return Err(LinkError::WrongNode {
            expected: to,
            found: acceptor,
        });
    }
    let version = versions
        .newest_with(Versions { min, max })
        .ok_or(LinkError::Version { min, max })?;
    let mut terms = Terms {
        version,
        acceptor,
        dialer: me,
        acceptor_nonce: [0; NONCE_BYTES],
        dialer_nonce: rand::random(),
    };
    stream.read_exact(&mut terms.acceptor_nonce).await?;
    let mut answer = Vec::from(MAGIC);
    answer.extend_from_slice(&version.to_le_bytes());
    answer.extend_from_slice(&me.0.to_le_bytes());
    answer.extend_from_slice(&terms.dialer_nonce);
    answer.extend_from_slice(&terms.proof(secret, DIALER)?);
    stream.write_all(&answer).await?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await.map_err(|error| {
        // The other end hangs up on a wrong proof.
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => LinkError::Secret,
            _ => error.into(),
        }
    })?;
    terms.check(secret, ACCEPTOR, &proof)?;
    Ok(version)
}

/// Takes part as the one who was called. Answers the caller.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    me: NodeId,
    secret: &Secret,
    versions: Versions,
) -> Result<NodeId, LinkError> {
    let acceptor_nonce: Nonce = rand::random();
    let mut hello = Vec::from(MAGIC);
    hello.extend_from_slice(&versions.min.to_le_bytes());
    hello.extend_from_slice(&versions.max.to_le_bytes());
    hello.extend_from_slice(&me.0.to_le_bytes());
    hello.extend_from_slice(&acceptor_nonce);
    stream.write_all(&hello).await?;
    magic(stream).await?;
    let version = stream.read_u16_le().await?;
    if !versions.has(version) {
        return Err(LinkError::Version {
            min: version,
            max: version,
        });
    }
    let dialer = NodeId(stream.read_u64_le().await?);
    let mut terms = Terms {
        version,
        acceptor: me,
        dialer,
        acceptor_nonce,
        dialer_nonce: [0; NONCE_BYTES],
    };
    stream.read_exact(&mut terms.dialer_nonce).await?;
    let mut proof = [0; PROOF_BYTES];
    stream.read_exact(&mut proof).await?;
    terms.check(secret, DIALER, &proof)?;
    stream.write_all(&terms.proof(secret, ACCEPTOR)?).await?;
    Ok(dialer)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn meet(
        dialer: &str,
        acceptor: &str,
        to: u64,
    ) -> (Result<u16, LinkError>, Result<NodeId, LinkError>) {
        meet_in(dialer, VERSIONS, acceptor, VERSIONS, to).await
    }

    async fn meet_in(
        dialer: &str,
        dialed_in: Versions,
        acceptor: &str,
        accepted_in: Versions,
        to: u64,
    ) -> (Result<u16, LinkError>, Result<NodeId, LinkError>) {
        let (mut a, b) = tokio::io::duplex(1024);
        let (dialer, acceptor) = (Secret::new(dialer), Secret::new(acceptor));
        let accepting = async move {
            let mut b = b;
            accept(&mut b, NodeId(2), &acceptor, accepted_in).await
        };
        // Who has nothing to say any more hangs up.
        let dialing = async move { dial(&mut a, NodeId(1), NodeId(to), &dialer, dialed_in).await };
        tokio::join!(dialing, accepting)
    }

    #[tokio::test]
    async fn two_nodes_with_one_secret_meet() {
        let (dialed, accepted) = meet("s", "s", 2).await;
        assert_eq!(dialed.unwrap(), VERSIONS.max);
        assert_eq!(accepted.unwrap(), NodeId(1));
    }

    #[tokio::test]
    async fn two_programs_take_the_newest_version_that_both_speak() {
        let (before, after) = (Versions { min: 1, max: 1 }, Versions { min: 1, max: 2 });
        for (dialer, acceptor) in [(before, after), (after, before)] {
            let (dialed, accepted) = meet_in("s", dialer, "s", acceptor, 2).await;
            assert_eq!(dialed.unwrap(), 1);
            assert_eq!(accepted.unwrap(), NodeId(1));
        }
    }

    #[tokio::test]
    async fn programs_that_are_too_far_apart_say_so() {
        let (old, new) = (Versions { min: 1, max: 1 }, Versions { min: 2, max: 3 });
        let (dialed, _) = meet_in("s", old, "s", new, 2).await;
        assert!(
            matches!(dialed, Err(LinkError::Version { min: 2, max: 3 })),
            "{dialed:?}"
        );
    }

    #[tokio::test]
    async fn a_node_with_another_secret_is_refused_on_both_sides() {
        let (dialed, accepted) = meet("s", "t", 2).await;
        assert!(matches!(dialed, Err(LinkError::Secret)), "{dialed:?}");
        assert!(matches!(accepted, Err(LinkError::Secret)), "{accepted:?}");
    }

    #[tokio::test]
    async fn a_node_that_is_not_the_expected_one_is_refused() {
        let (dialed, _) = meet("s", "s", 3).await;
        assert!(matches!(dialed, Err(LinkError::WrongNode { .. })));
    }

    #[test]
    fn a_secret_never_shows() {
        assert!(!format!("{:?}", Secret::new("geheim")).contains("geheim"));
    }
}
