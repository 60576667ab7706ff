//! Who are you: SASL responses and passwords to an authenticated user, or to a reason why not.
//!
//! This crate knows mechanisms, password hashes and the loopback rule. It must not know frames,
//! HTTP, or where users are stored: it asks a [`UserDirectory`]. What a user may do once it is
//! known is decided elsewhere.

mod authenticator;
mod failure_brake;
mod first_user;
mod mechanism;
mod password;

pub use authenticator::{
    AuthOutcome, AuthPolicy, AuthRefusal, Authenticator, Client, DamagedHash, UserDirectory,
    UserRecord,
};
pub use failure_brake::FailureBrake;
pub use first_user::{FIRST_USER_FILE_BYTES_MAX, FirstUser, FirstUserError};
pub use mechanism::{Claim, Malformed, Mechanism};
pub use password::{HashedPassword, HashingAlgorithm, UnknownAlgorithm, UnreadableHash};
