//! What the session's user may do, with the verdicts on publishing that a channel has asked for
//! lately. They are dropped whenever the metadata changes.

use std::collections::HashMap;

use amqp::Properties;
use broker_core::permission::Operation;
use broker_core::refusal::{Permission, Tenant, TenantThing};
use broker_core::router::carbon_copy_keys;
use broker_core::{Refusal, UserName, VhostName};

use crate::bounds::ROUTES_CACHED_MAX;
use crate::node::Node;
use crate::session::{SessionOptions, SessionShared};
use crate::tenants::{self, Pace};

pub(crate) struct Access {
    user: UserName,
    vhost: VhostName,
    version: u64,
    /// Exchanges that may be published to. Clients choose the names: std's hasher withstands
    /// floods.
    publishable: HashMap<Box<str>, Publishable>,
    last: Option<(Box<str>, Publishable)>,
    /// The largest body that the user may publish here, and whose limit that is.
    size_limit: Option<(Tenant, u64)>,
    /// The rates that publishes are charged to.
    paces: Vec<Pace>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Publishable {
    /// With any key.
    AnyKey,
    /// The user has a topic permission: each key is looked at.
    KeysChecked,
}

impl Access {
    pub(crate) fn new(options: &SessionOptions) -> Self {
        Self {
            user: options.user.clone(),
            vhost: options.vhost.clone(),
            version: 0,
            publishable: HashMap::new(),
            last: None,
            size_limit: None,
            paces: Vec::new(),
        }
    }

    /// Whether the operation is permitted.
    pub(crate) fn check(&self, node: &Node, operation: &Operation<'_>) -> Result<(), Refusal> {
        node.metadata
            .read()
            .check_access(&self.user, &self.vhost, operation)
    }

    /// Whether a binding key may be used with an exchange.
    pub(crate) fn check_binding_key(
        &self,
        node: &Node,
        exchange: &str,
        key: &str,
    ) -> Result<(), Refusal> {
        let metadata = node.metadata.read();
        let key = key.as_bytes();
        metadata.check_topic_access(&self.user, &self.vhost, exchange, key, Permission::Read)
    }

    /// Whether a message may be published.
    pub(crate) fn check_publish(
        &mut self,
        node: &Node,
        exchange: &str,
        key: &str,
        properties: Properties<'_>,
    ) -> Result<(), Refusal> {
        let version = node.metadata.version();
        if self.version != version {
            self.publishable.clear();
            self.last = None;
            self.size_limit = {
                let metadata = node.metadata.read();
                metadata.message_size_limit(&self.user, &self.vhost)
            };
            self.paces = node.paces(&self.user, &self.vhost)?;
            // Last, so that a publish that a limit of 0 refuses is not the only one.
            self.version = version;
        }
        match self.publishable(node, exchange)? {
            Publishable::AnyKey => Ok(()),
            Publishable::KeysChecked => self.check_keys(node, exchange, key, properties),
        }
    }

    /// Whether a body may be this large. To be asked after [`Access::check_publish`].
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), Refusal> {
        match &self.size_limit {
            Some((holder, limit)) if bytes as u64 > *limit => Err(Refusal::TenantLimit {
                what: TenantThing::MessageSize,
                holder: holder.clone(),
                limit: *limit,
            }),
            _ => Ok(()),
        }
    }

    /// Charges a publish to the rates of its user and vhost.
    pub(crate) fn charge(&self, session: &SessionShared, body_bytes: usize) {
        tenants::charge(&self.paces, session, body_bytes);
    }

    fn publishable(&mut self, node: &Node, exchange: &str) -> Result<Publishable, Refusal> {
        if let Some((last, verdict)) = &self.last
            && **last == *exchange
        {
            return Ok(*verdict);
        }
        let verdict = match self.publishable.get(exchange) {
            Some(verdict) => *verdict,
            None => self.ask(node, exchange)?,
        };
        self.last = Some((exchange.into(), verdict));
        Ok(verdict)
    }

    fn ask(&mut self, node: &Node, exchange: &str) -> Result<Publishable, Refusal> {
        let metadata = node.metadata.read();
        metadata.check_access(&self.user, &self.vhost, &Operation::Publish { exchange })?;
        let verdict = match metadata.topic_permission(&self.user, &self.vhost, exchange) {
            Some(_) => Publishable::KeysChecked,
            None => Publishable::AnyKey,
        };
        drop(metadata);
        if self.publishable.len() >= ROUTES_CACHED_MAX {
            self.publishable.clear();
        }
        self.publishable.insert(exchange.into(), verdict);
        Ok(verdict)
    }

    fn check_keys(
        &self,
        node: &Node,
        exchange: &str,
        key: &str,
        properties: Properties<'_>,
    ) -> Result<(), Refusal> {
        let metadata = node.metadata.read();
        let check = |key: &[u8]| {
            metadata.check_topic_access(&self.user, &self.vhost, exchange, key, Permission::Write)
        };
        check(key.as_bytes())?;
        let headers = properties.headers().ok().flatten().unwrap_or_default();
        // A header that is no array is the router's to refuse.
        let copies = carbon_copy_keys(&headers).unwrap_or_default();
        copies.into_iter().try_for_each(check)
    }

    /// Whether the `user_id` property may name this user.
    pub(crate) fn check_user_id(&self, node: &Node, claimed: &[u8]) -> Result<(), Refusal> {
        node.metadata.read().check_user_id(&self.user, claimed)
    }
}
