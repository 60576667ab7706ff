//! Passwords as RabbitMQ stores them: base64 of four random bytes (the salt) and the hash of the
//! salt followed by the password's bytes. Definitions with such hashes move both ways.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::Md5;
use sha2::digest::Digest;
use sha2::{Sha256, Sha512};
use subtle::ConstantTimeEq;

/// The hash of stored passwords, under the names that definitions use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashingAlgorithm {
    /// Read from old definitions; nothing new is hashed with it.
    Md5,
    /// The default.
    #[default]
    Sha256,
    /// The longer one.
    Sha512,
}

/// A name that is no hashing algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown password hashing algorithm {name:?}")]
pub struct UnknownAlgorithm {
    /// The name as it was given.
    pub name: String,
}

impl HashingAlgorithm {
    /// RabbitMQ's name of the algorithm, as in `hashing_algorithm` of a user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "rabbit_password_hashing_md5",
            Self::Sha256 => "rabbit_password_hashing_sha256",
            Self::Sha512 => "rabbit_password_hashing_sha512",
        }
    }

    fn digest(self, salt: &[u8], password: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => salted::<Md5>(salt, password),
            Self::Sha256 => salted::<Sha256>(salt, password),
            Self::Sha512 => salted::<Sha512>(salt, password),
        }
    }
}

fn salted<D: Digest>(salt: &[u8], password: &[u8]) -> Vec<u8> {
    D::new()
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .to_vec()
}

impl FromStr for HashingAlgorithm {
    type Err = UnknownAlgorithm;

    /// Reads RabbitMQ's name. Empty means MD5: definitions older than the field have no other.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        match name {
            "" | "rabbit_password_hashing_md5" => Ok(Self::Md5),
            "rabbit_password_hashing_sha256" => Ok(Self::Sha256),
            "rabbit_password_hashing_sha512" => Ok(Self::Sha512),
            _ => Err(UnknownAlgorithm {
                name: name.to_owned(),
            }),
        }
    }
}

/// A stored password: salt, hash and how it was made.
#[derive(Clone, PartialEq, Eq)]
pub struct HashedPassword {
    algorithm: HashingAlgorithm,
    salt: [u8; SALT_BYTES],
    digest: Vec<u8>,
}

const SALT_BYTES: usize = 4;

/// A stored hash that is not base64 of a salt and a hash of the algorithm's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored password hash is not base64 of a 4-byte salt and a hash of its algorithm")]
pub struct UnreadableHash;

impl HashedPassword {
    /// Hashes a password with a fresh salt.
    pub fn new(algorithm: HashingAlgorithm, password: &[u8]) -> Self {
        Self::with_salt(algorithm, rand::random(), password)
    }

    /// Hashes a password with a given salt, as needed to compare with a known hash.
    pub fn with_salt(algorithm: HashingAlgorithm, salt: [u8; SALT_BYTES], password: &[u8]) -> Self {
        Self {
            algorithm,
            salt,
            digest: algorithm.digest(&salt, password),
        }
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`UnreadableHash`] if it is none of this algorithm.
    pub fn read(algorithm: HashingAlgorithm, stored: &str) -> Result<Self, UnreadableHash> {
        let bytes = BASE64.decode(stored).map_err(|_| UnreadableHash)?;
        let (salt, digest) = bytes.split_first_chunk().ok_or(UnreadableHash)?;
        let hash_bytes = algorithm.digest(salt, b"").len();
        if digest.len() != hash_bytes {
            return Err(UnreadableHash);
        }
        Ok(Self {
            algorithm,
            salt: *salt,
            digest: digest.to_vec(),
        })
    }

    /// How it was made.
    pub const fn algorithm(&self) -> HashingAlgorithm {
        self.algorithm
    }

    /// Whether this is the password. Takes the same time whether it is or not.
    pub fn matches(&self, password: &[u8]) -> bool {
        let offered = self.algorithm.digest(&self.salt, password);
        offered.ct_eq(&self.digest).into()
    }
}

impl fmt::Display for HashedPassword {
    /// The stored form.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&BASE64.encode([self.salt.as_slice(), &self.digest].concat()))
    }
}

impl fmt::Debug for HashedPassword {
    /// A hash of a weak password is as good as the password: it does not print.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("HashedPassword")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RabbitMQ's documentation computes this one by hand.
    // rabbitmq docs: passwords, "Computing Hashes"
    const DOCUMENTED: &str = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR";
    const SALT: [u8; 4] = [0x90, 0x8d, 0xc6, 0x0a];

    #[test]
    fn the_documented_example_hashes_to_the_documented_text() {
        let hashed = HashedPassword::with_salt(HashingAlgorithm::Sha256, SALT, b"test12");
        assert_eq!(hashed.to_string(), DOCUMENTED);
    }

    #[test]
    fn the_documented_hash_takes_its_password_and_no_other() {
        let stored = HashedPassword::read(HashingAlgorithm::Sha256, DOCUMENTED).expect("a hash");
        assert!(stored.matches(b"test12"));
        for wrong in ["", "test1", "test123", "Test12", "test12\0"] {
            assert!(!stored.matches(wrong.as_bytes()), "{wrong:?}");
        }
    }

    /// Made by another implementation (Python's hashlib over salt and password): what RabbitMQ would
    /// store, password `test12` with the documented salt and `pässwörd €` with another.
    const KNOWN: [(HashingAlgorithm, &str, &str); 3] = [
        (
            HashingAlgorithm::Md5,
            "kI3GChNpte2FApYFXScl+0dIluk=",
            "AP8Qfw9k8MpCPeLssbLmKBZs1oE=",
        ),
        (
            HashingAlgorithm::Sha256,
            DOCUMENTED,
            "AP8QfylS8pzdJlx7tB/LsiFqWKYM9kse6Ekc7ikFMyasrTG5",
        ),
        (
            HashingAlgorithm::Sha512,
            "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4D\
             Hnc=",
            "AP8QfxxpTc6truOEWyiEWzhcyXQ2sm/iHr8z5dnPo269Z8qdTiywkREcNkjZb95e85Qd3S8SGGgaXyCg/x2eUNco\
             BDc=",
        ),
    ];
    const OTHER_SALT: [u8; 4] = [0x00, 0xff, 0x10, 0x7f];
    const OTHER: &str = "pässwörd €";

    #[test]
    fn hashes_of_another_implementation_are_written_and_taken_by_every_algorithm() {
        for (algorithm, documented, other) in KNOWN {
            for (salt, password, stored) in
                [(SALT, "test12", documented), (OTHER_SALT, OTHER, other)]
            {
                let ours = HashedPassword::with_salt(algorithm, salt, password.as_bytes());
                assert_eq!(ours.to_string(), stored, "{algorithm:?}");
                let theirs = HashedPassword::read(algorithm, stored).expect("a hash");
                assert!(theirs.matches(password.as_bytes()), "{algorithm:?}");
                assert!(!theirs.matches(b"test13"), "{algorithm:?}");
            }
        }
    }

    #[test]
    fn every_algorithm_reads_what_it_writes() {
        let algorithms = [
            HashingAlgorithm::Md5,
            HashingAlgorithm::Sha256,
            HashingAlgorithm::Sha512,
        ];
        for algorithm in algorithms {
            let stored = HashedPassword::new(algorithm, "pässword".as_bytes()).to_string();
            let read = HashedPassword::read(algorithm, &stored).expect("its own form");
            assert!(read.matches("pässword".as_bytes()), "{algorithm:?}");
            assert!(!read.matches(b"password"), "{algorithm:?}");
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn a_hash_of_another_algorithm_is_unreadable() {
        let long = HashedPassword::new(HashingAlgorithm::Sha512, b"x").to_string();
        for stored in [long.as_str(), "", "kI3G", "not base64!", "kI3GCqW5"] {
            let read = HashedPassword::read(HashingAlgorithm::Sha256, stored);
            assert_eq!(read, Err(UnreadableHash), "{stored:?}");
        }
    }

    #[test]
    fn two_hashes_of_one_password_differ_by_their_salt() {
        // Four random bytes collide once in 2^32: eight equal ones are no accident.
        let hash = || HashedPassword::new(HashingAlgorithm::Sha256, b"same").to_string();
        let first = hash();
        assert!((0..8).any(|_| hash() != first));
    }

    #[test]
    fn definitions_without_an_algorithm_mean_md5() {
        assert_eq!("".parse(), Ok(HashingAlgorithm::Md5));
        let unknown = "rot13"
            .parse::<HashingAlgorithm>()
            .expect_err("no algorithm");
        assert_eq!(
            unknown.to_string(),
            "unknown password hashing algorithm \"rot13\""
        );
    }

    #[test]
    fn a_hash_does_not_print_in_a_dump() {
        let stored = HashedPassword::read(HashingAlgorithm::Sha256, DOCUMENTED).expect("a hash");
        assert_eq!(
            format!("{stored:?}"),
            "HashedPassword { algorithm: Sha256, .. }"
        );
    }
}
