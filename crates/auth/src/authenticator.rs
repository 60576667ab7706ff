//! From a claim to a user: mechanisms on offer, passwords, and who may come from where.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::mechanism::{Claim, Malformed, Mechanism};
use crate::password::{HashedPassword, HashingAlgorithm, UnknownAlgorithm, UnreadableHash};

/// Where users are stored. Asked once for each login; the answer is a copy, so that no lock is
/// held while a password is hashed.
pub trait UserDirectory: Send + Sync {
    /// The user of this name, if there is one.
    fn user(&self, name: &str) -> Option<UserRecord>;
}

/// A stored user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRecord {
    /// The stored form of a [`HashedPassword`]; empty for a user that cannot log in by password.
    pub password_hash: Box<str>,
    /// RabbitMQ's name of the hash.
    pub hashing_algorithm: Box<str>,
    /// What the user may do over HTTP, as names.
    pub tags: Vec<Box<str>>,
}

/// What the operator decides about logins.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPolicy {
    /// Mechanisms on offer.
    pub mechanisms: Vec<Mechanism>,
    /// Names of users that may come from this machine only.
    pub loopback_users: Vec<String>,
    /// Name and password that ANONYMOUS logs in with; `None` takes it off the offer. The password
    /// is checked like any other, so changing the user's password ends anonymous logins.
    pub anonymous: Option<(String, String)>,
}

impl Default for AuthPolicy {
    /// RabbitMQ's defaults.
    fn default() -> Self {
        let guest = || "guest".to_owned();
        Self {
            mechanisms: vec![Mechanism::Anonymous, Mechanism::AmqPlain, Mechanism::Plain],
            loopback_users: vec![guest()],
            anonymous: Some((guest(), guest())),
        }
    }
}

impl std::fmt::Debug for AuthPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("AuthPolicy")
            .field("mechanisms", &self.mechanisms)
            .field("loopback_users", &self.loopback_users)
            .field("anonymous", &self.anonymous.as_ref().map(|(user, _)| user))
            .finish()
    }
}

/// The end of an attempt to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// It is this user.
    Authenticated {
        /// The name.
        user: String,
        /// What the user may do over HTTP, as names.
        tags: Vec<Box<str>>,
    },
    /// It is not.
    Refused(AuthRefusal),
}

/// Why not. For the log; clients are told no more than that they were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthRefusal {
    /// The mechanism does not exist or is not on offer.
    #[error("mechanism {mechanism:?} is not on offer")]
    MechanismNotOffered {
        /// Its name as the client gave it.
        mechanism: String,
    },
    /// EXTERNAL without a certificate that holds a name.
    #[error("the client shows no certificate with a name that `tls.login_from` asks for")]
    NoCertificateName,
    /// The response does not have the mechanism's form.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is no such user.
    #[error("there is no user {user:?}")]
    UnknownUser {
        /// The name; octets that are no UTF-8 are replaced.
        user: String,
    },
    /// The password is wrong, or empty.
    #[error("wrong password for user {user:?}")]
    WrongPassword {
        /// The name.
        user: String,
    },
    /// The user has no password.
    #[error("user {user:?} has no password and cannot log in with one")]
    NoPasswordLogin {
        /// The name.
        user: String,
    },
    /// The user may come from this machine only.
    #[error("user {user:?} may log in from a loopback address only, but came from {peer}")]
    LoopbackOnly {
        /// The name.
        user: String,
        /// Where the client is.
        peer: IpAddr,
    },
    /// The stored hash is damaged: our fault, not the client's.
    #[error("user {user:?} cannot log in: {hash}")]
    DamagedHash {
        /// The name.
        user: String,
        /// What is wrong with it.
        hash: DamagedHash,
    },
}

/// What is wrong with a stored hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamagedHash {
    /// The algorithm.
    #[error(transparent)]
    Algorithm(#[from] UnknownAlgorithm),
    /// The hash itself.
    #[error(transparent)]
    Hash(#[from] UnreadableHash),
}

impl AuthRefusal {
    /// Whether the client may be told that it was refused (403). Of the others, faults of form,
    /// a client is told nothing.
    // rabbitmq: access_control
    pub const fn is_access_refused(&self) -> bool {
        !matches!(self, Self::MechanismNotOffered { .. } | Self::Malformed(_))
    }
}

/// Where a client comes from, and whom its certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// The name in its TLS certificate, if it showed one.
    pub certificate_name: Option<String>,
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self {
            address,
            certificate_name: None,
        }
    }
}

/// Decides logins. Cheap to clone; clones share one policy.
#[derive(Clone)]
pub struct Authenticator {
    policy: Arc<ArcSwap<AuthPolicy>>,
    directory: Arc<dyn UserDirectory>,
    /// Hashed when there is no user to hash for, so that the time does not tell who exists.
    decoy: HashedPassword,
}

impl Authenticator {
    /// An authenticator over a directory.
    pub fn new(policy: AuthPolicy, directory: Arc<dyn UserDirectory>) -> Self {
        let decoy = HashedPassword::new(HashingAlgorithm::Sha256, b"");
        Self {
            policy: Arc::new(ArcSwap::from_pointee(settled(policy))),
            directory,
            decoy,
        }
    }

    /// Decides by another policy from now on.
    pub fn set_policy(&self, policy: AuthPolicy) {
        self.policy.store(Arc::new(settled(policy)));
    }

    /// Names on offer to a client, in the order of [`Mechanism::ALL`]. EXTERNAL is on offer to
    /// those only that showed a certificate.
    // rabbitmq: auth_mechanism_ssl, should_offer
    pub fn mechanism_names(&self, has_certificate: bool) -> Vec<&'static str> {
        let policy = self.policy.load();
        let offered = policy.mechanisms.iter();
        offered
            .filter(|mechanism| has_certificate || **mechanism != Mechanism::External)
            .map(|mechanism| mechanism.name())
            .collect()
    }

    /// Names on offer as connection.start carries them, with a space between.
    pub fn offer(&self, has_certificate: bool) -> String {
        self.mechanism_names(has_certificate).join(" ")
    }

    /// Decides a SASL login.
    pub fn authenticate(
        &self,
        mechanism: &str,
        response: &[u8],
        client: impl Into<Client>,
    ) -> AuthOutcome {
        self.decide(mechanism, response, &client.into())
            .unwrap_or_else(AuthOutcome::Refused)
    }

    /// Decides a login with a name and a password, as HTTP brings them.
    pub fn check_password(&self, user: &str, password: &[u8], peer: IpAddr) -> AuthOutcome {
        self.log_in(user.as_bytes(), password, peer)
            .unwrap_or_else(AuthOutcome::Refused)
    }

    fn decide(
        &self,
        name: &str,
        response: &[u8],
        client: &Client,
    ) -> Result<AuthOutcome, AuthRefusal> {
        let policy = self.policy.load();
        let not_offered = || AuthRefusal::MechanismNotOffered {
            mechanism: name.to_owned(),
        };
        let mechanism = Mechanism::by_name(name)
            .filter(|mechanism| policy.mechanisms.contains(mechanism))
            .ok_or_else(not_offered)?;
        match mechanism.read(response)? {
            Claim::Password { user, password } => self.log_in(&user, &password, client.address),
            Claim::Nobody => {
                let (user, password) = policy.anonymous.as_ref().ok_or_else(not_offered)?;
                self.log_in(user.as_bytes(), password.as_bytes(), client.address)
            }
            Claim::Certificate => {
                let name = client.certificate_name.as_deref();
                self.admit(name.ok_or(AuthRefusal::NoCertificateName)?, client.address)
            }
        }
    }

    /// Lets a user in whose name was proven otherwise than by a password.
    fn admit(&self, user: &str, peer: IpAddr) -> Result<AuthOutcome, AuthRefusal> {
        let user = user.to_owned();
        let Some(record) = self.directory.user(&user) else {
            return Err(AuthRefusal::UnknownUser { user });
        };
        self.check_place(&user, peer)?;
        Ok(AuthOutcome::Authenticated {
            user,
            tags: record.tags,
        })
    }

    fn check_place(&self, user: &str, peer: IpAddr) -> Result<(), AuthRefusal> {
        let bound = self.policy.load();
        if bound.loopback_users.iter().any(|bound| bound == user) && !is_loopback(peer) {
            let user = user.to_owned();
            return Err(AuthRefusal::LoopbackOnly { user, peer });
        }
        Ok(())
    }

    fn log_in(
        &self,
        user: &[u8],
        password: &[u8],
        peer: IpAddr,
    ) -> Result<AuthOutcome, AuthRefusal> {
        let found = std::str::from_utf8(user)
            .ok()
            .and_then(|user| self.directory.user(user));
        let user = String::from_utf8_lossy(user).into_owned();
        let Some(record) = found else {
            self.decoy.matches(password);
            return Err(AuthRefusal::UnknownUser { user });
        };
        self.check(&user, &record, password)?;
        // After the password, so that only who knows it learns of the rule from the log's reader.
        self.check_place(&user, peer)?;
        Ok(AuthOutcome::Authenticated {
            user,
            tags: record.tags,
        })
    }

    fn check(&self, user: &str, record: &UserRecord, password: &[u8]) -> Result<(), AuthRefusal> {
        let user = || user.to_owned();
        if record.password_hash.is_empty() {
            self.decoy.matches(password);
            return Err(AuthRefusal::NoPasswordLogin { user: user() });
        }
        let stored =
            stored(record).map_err(|hash| AuthRefusal::DamagedHash { user: user(), hash })?;
        // rabbitmq: an empty password never logs in, whatever its hash
        if !stored.matches(password) || password.is_empty() {
            return Err(AuthRefusal::WrongPassword { user: user() });
        }
        Ok(())
    }
}

/// What is on offer, sorted, and without what cannot be done.
fn settled(mut policy: AuthPolicy) -> AuthPolicy {
    if policy.anonymous.is_none() {
        policy
            .mechanisms
            .retain(|mechanism| *mechanism != Mechanism::Anonymous);
    }
    policy.mechanisms.sort_unstable();
    policy.mechanisms.dedup();
    policy
}

fn stored(record: &UserRecord) -> Result<HashedPassword, DamagedHash> {
    let algorithm: HashingAlgorithm = record.hashing_algorithm.parse()?;
    Ok(HashedPassword::read(algorithm, &record.password_hash)?)
}

/// An IPv4 client of a socket for both families has an IPv6 address with the IPv4 one inside.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
