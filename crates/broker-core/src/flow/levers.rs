//! The operator's words about levers: for everybody, for one user or vhost, and about libraries that
//! the built-in table does not know or judges otherwise.
//!
//! It must not know where the words are written, nor which connections are open: a client is judged
//! once, when it connects.

use std::collections::BTreeMap;

use super::client::When;
use crate::{UserName, VhostName};

/// What the operator says of a client library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryWord {
    /// What it calls itself; compared whole, because names of other products may begin alike.
    pub product: String,
    /// The beginning of its platform; empty fits any.
    pub platform: String,
    /// Whether it stops publishing on `channel.flow(false)`; `None` says nothing of it.
    pub obeys_flow: Option<bool>,
    /// Whether `connection.blocked` stops its acks as well; `None` says nothing of it.
    pub stops_acks: Option<bool>,
}

impl LibraryWord {
    fn fits(&self, product: &str, platform: &str) -> bool {
        self.product == product && platform.starts_with(&self.platform)
    }
}

/// What the operator says of one user's connections; `None` leaves it to the vhost's word, then to
/// the one for everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserWord {
    /// Whether they are sent `channel.flow`.
    pub channel_flow: Option<When>,
    /// Whether they are told `connection.blocked`.
    pub blocked_notice: Option<When>,
}

/// All the operator's words. Bounded by the file that they are written in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levers {
    /// Who is sent `channel.flow`.
    pub channel_flow: When,
    /// Who is told `connection.blocked`.
    pub blocked_notice: When,
    /// Of those that fit a client, the first that says something of a trait is believed.
    pub libraries: Vec<LibraryWord>,
    /// Words about users.
    pub users: BTreeMap<UserName, UserWord>,
    /// Who is sent `channel.flow` in one vhost.
    pub vhosts: BTreeMap<VhostName, When>,
}

impl Levers {
    /// Whether this user's clients in this vhost are sent `channel.flow`.
    pub(super) fn channel_flow(&self, user: &UserName, vhost: &VhostName) -> When {
        let of_user = self.users.get(user).and_then(|word| word.channel_flow);
        of_user
            .or_else(|| self.vhosts.get(vhost).copied())
            .unwrap_or(self.channel_flow)
    }

    /// Whether this user's clients are told `connection.blocked`.
    pub(super) fn blocked_notice(&self, user: &UserName) -> When {
        let of_user = self.users.get(user).and_then(|word| word.blocked_notice);
        of_user.unwrap_or(self.blocked_notice)
    }

    /// What the operator says of this trait of a library.
    pub(super) fn of_library(
        &self,
        product: &str,
        platform: &str,
        said: impl Fn(&LibraryWord) -> Option<bool>,
    ) -> Option<bool> {
        let fitting = self
            .libraries
            .iter()
            .filter(|word| word.fits(product, platform));
        fitting.filter_map(said).next()
    }
}
