//! Who may do what: which permissions each operation needs, and whether a user has them.
//!
//! A verdict is good until `Metadata::permission_version` changes, so a channel can keep it. What
//! exists is not asked here: permissions are checked first, and what is missing is refused to
//! those without rights just the same.

use amqp::Table;
use smallvec::{SmallVec, smallvec};

use crate::arguments::DEAD_LETTER_EXCHANGE;
use crate::exchange::{ALTERNATE_EXCHANGE, ExchangeKind};
use crate::metadata::{Destination, Metadata};
use crate::names::{UserName, VhostName};
use crate::refusal::{Permission, Refusal, Resource, ResourceKind, Result};

/// What the default exchange is called in permission patterns and their refusals.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// The tag that frees a user from telling the truth in `user_id`.
const IMPERSONATOR: &str = "impersonator";

/// An operation that needs permissions, with the names that they are needed for.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the variant says what its fields are")]
pub enum Operation<'a> {
    /// `exchange.declare`.
    ExchangeDeclare {
        exchange: &'a str,
        arguments: &'a Table,
    },
    /// `exchange.declare` passive.
    ExchangeDeclarePassive { exchange: &'a str },
    /// `exchange.delete`.
    ExchangeDelete { exchange: &'a str },
    /// `queue.declare`; a name left to the broker is checked as generated.
    QueueDeclare {
        queue: &'a str,
        arguments: &'a Table,
    },
    /// `queue.declare` passive.
    QueueDeclarePassive { queue: &'a str },
    /// `queue.delete`.
    QueueDelete { queue: &'a str },
    /// `queue.bind`, `queue.unbind`, `exchange.bind`, `exchange.unbind`.
    Bind {
        source: &'a str,
        destination: &'a Destination,
    },
    /// `queue.purge`, `basic.get`, `basic.consume`.
    QueueRead { queue: &'a str },
    /// `basic.publish`.
    Publish { exchange: &'a str },
}

/// One permission on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// What for.
    pub permission: Permission,
    /// On what kind of thing.
    pub kind: ResourceKind,
    /// On which; the default exchange by its public name.
    pub name: &'a str,
}

fn need(permission: Permission, kind: ResourceKind, name: &str) -> Need<'_> {
    let name = match (kind, name) {
        (ResourceKind::Exchange, "") => DEFAULT_EXCHANGE,
        _ => name,
    };
    Need {
        permission,
        kind,
        name,
    }
}

impl<'a> Operation<'a> {
    /// The permissions that the operation needs, in the order in which they are checked. Passive
    /// declarations are not told here: for them any one permission is enough.
    // rabbitmq docs: access control, table of operations
    pub fn needs(&self) -> SmallVec<[Need<'a>; 3]> {
        use Permission::{Configure, Read, Write};
        use ResourceKind::{Exchange, Queue};
        match *self {
            Operation::ExchangeDeclare {
                exchange,
                arguments,
            } => {
                let alternate = arguments
                    .get(ALTERNATE_EXCHANGE)
                    .and_then(amqp::Value::as_str);
                let mut needs = smallvec![need(Configure, Exchange, exchange)];
                if let Some(alternate) = alternate {
                    needs.push(need(Read, Exchange, exchange));
                    needs.push(need(Write, Exchange, alternate));
                }
                needs
            }
            Operation::QueueDeclare { queue, arguments } => {
                let dead_letters = arguments
                    .get(DEAD_LETTER_EXCHANGE)
                    .and_then(amqp::Value::as_str);
                let mut needs = smallvec![need(Configure, Queue, queue)];
                if let Some(exchange) = dead_letters {
                    needs.push(need(Read, Queue, queue));
                    needs.push(need(Write, Exchange, exchange));
                }
                needs
            }
            Operation::ExchangeDelete { exchange }
            | Operation::ExchangeDeclarePassive { exchange } => {
                smallvec![need(Configure, Exchange, exchange)]
            }
            Operation::QueueDelete { queue } | Operation::QueueDeclarePassive { queue } => {
                smallvec![need(Configure, Queue, queue)]
            }
            Operation::Bind {
                source,
                destination,
            } => smallvec![
                need(Write, destination.kind(), destination.name()),
                need(Read, Exchange, source),
            ],
            Operation::QueueRead { queue } => smallvec![need(Read, Queue, queue)],
            Operation::Publish { exchange } => smallvec![need(Write, Exchange, exchange)],
        }
    }

    fn is_passive(&self) -> bool {
        matches!(
            self,
            Operation::ExchangeDeclarePassive { .. } | Operation::QueueDeclarePassive { .. }
        )
    }
}

impl Metadata {
    /// Whether a user may carry out an operation in a vhost.
    ///
    /// # Errors
    /// `AccessRefused` naming the first permission that is missing.
    pub fn check_access(
        &self,
        user: &UserName,
        vhost: &VhostName,
        operation: &Operation<'_>,
    ) -> Result<()> {
        for need in operation.needs() {
            if operation.is_passive() && self.has_any(user, vhost, need.name) {
                continue;
            }
            if !self.has(user, vhost, need) {
                return Err(Refusal::AccessRefused {
                    permission: need.permission,
                    resource: Resource {
                        kind: need.kind,
                        name: need.name.into(),
                        vhost: vhost.clone(),
                    },
                    user: user.clone(),
                });
            }
        }
        Ok(())
    }

    fn has(&self, user: &UserName, vhost: &VhostName, need: Need<'_>) -> bool {
        self.permission(user, vhost).is_some_and(|record| {
            let pattern = match need.permission {
                Permission::Configure => &record.configure,
                Permission::Write => &record.write,
                Permission::Read => &record.read,
            };
            pattern.matches(need.name)
        })
    }

    fn has_any(&self, user: &UserName, vhost: &VhostName, name: &str) -> bool {
        self.permission(user, vhost).is_some_and(|record| {
            [&record.configure, &record.write, &record.read]
                .into_iter()
                .any(|pattern| pattern.matches(name))
        })
    }

    /// Whether a user may use a key of an exchange: to write it when publishing (each `CC` and
    /// `BCC` key as well), to read it when binding. Only topic exchanges ask, and only of users
    /// with a record.
    ///
    /// # Errors
    /// `TopicAccessRefused`.
    // rabbitmq docs: access control, topic authorisation
    pub fn check_topic_access(
        &self,
        user: &UserName,
        vhost: &VhostName,
        exchange: &str,
        key: &[u8],
        permission: Permission,
    ) -> Result<()> {
        let Some(record) = self.topic_permission(user, vhost, exchange) else {
            return Ok(());
        };
        let kind = self
            .vhost(vhost)?
            .exchange(exchange)
            .map(|exchange| exchange.record().kind);
        if kind != Some(ExchangeKind::Topic) {
            return Ok(());
        }
        let pattern = match permission {
            Permission::Read => &record.read,
            Permission::Write | Permission::Configure => &record.write,
        };
        let key = String::from_utf8_lossy(key);
        if pattern.matches(&key) {
            return Ok(());
        }
        Err(Refusal::TopicAccessRefused {
            permission,
            key: key.into(),
            exchange: exchange.into(),
            vhost: vhost.clone(),
            user: user.clone(),
        })
    }

    /// Whether a publisher may put this name into the `user_id` property.
    ///
    /// # Errors
    /// `UserIdMismatch`.
    // rabbitmq docs: validated user-id
    pub fn check_user_id(&self, user: &UserName, claimed: &[u8]) -> Result<()> {
        let may_claim_any = || {
            self.user(user)
                .is_some_and(|record| record.tags.iter().any(|tag| &**tag == IMPERSONATOR))
        };
        if claimed == user.as_str().as_bytes() || may_claim_any() {
            return Ok(());
        }
        Err(Refusal::UserIdMismatch {
            claimed: String::from_utf8_lossy(claimed).into(),
            user: user.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
