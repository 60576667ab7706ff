//! Declaring, binding, deleting: every change goes through the one door.

use amqp::Table;
use broker_core::metadata::{
    ConnectionId, Destination, MetadataChange, Outcome, QueueDeclaration, QueueDeletion,
    QueueRecord,
};
use broker_core::permission::Operation;
use broker_core::queue::Use;
use broker_core::{ExchangeName, QueueName, Refusal, VhostName};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Channel;
use crate::doors::Door;
use crate::queue::{Lane, Queue};
use crate::replies::ReplyName;
use crate::server_name;

/// `exchange.declare`.
#[derive(Clone, Debug)]
pub struct DeclareExchange {
    /// Name.
    pub exchange: ExchangeName,
    /// Type, as sent.
    pub exchange_type: String,
    /// Only ask whether it exists.
    pub passive: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// Deleted with its last binding.
    pub auto_delete: bool,
    /// Not for publishers.
    pub internal: bool,
    /// Arguments.
    pub arguments: Table,
}

/// `exchange.bind` and `exchange.unbind`.
#[derive(Clone, Debug)]
pub struct BindExchange {
    /// Where messages go.
    pub destination: ExchangeName,
    /// Where they come from.
    pub source: ExchangeName,
    /// Binding key.
    pub binding_key: String,
    /// Arguments.
    pub arguments: Table,
}

/// `queue.bind` and `queue.unbind`.
#[derive(Clone, Debug)]
pub struct BindQueue {
    /// Queue; empty for the last one declared on the channel.
    pub queue: QueueName,
    /// Where messages come from.
    pub exchange: ExchangeName,
    /// Binding key.
    pub binding_key: String,
    /// Arguments.
    pub arguments: Table,
}

/// `queue.declare`.
#[derive(Clone, Debug)]
pub struct DeclareQueue {
    /// Name; empty for one that the broker makes.
    pub queue: QueueName,
    /// Only ask whether it exists.
    pub passive: bool,
    /// Outlives a restart.
    pub durable: bool,
    /// For this connection only.
    pub exclusive: bool,
    /// Deleted with its last consumer.
    pub auto_delete: bool,
    /// Arguments.
    pub arguments: Table,
}

/// Answer to `queue.declare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDeclared {
    /// Its name.
    pub queue: QueueName,
    /// Messages ready.
    pub message_count: u32,
    /// Consumers.
    pub consumer_count: u32,
}

/// A binding that the user may make or take away.
struct CheckedBinding {
    vhost: VhostName,
    source: ExchangeName,
    destination: Destination,
    key: Box<str>,
    arguments: Table,
    connection: Option<ConnectionId>,
}

impl CheckedBinding {
    fn made(self) -> MetadataChange {
        let Self {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        } = self;
        MetadataChange::Bind {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        }
    }

    fn taken_away(self) -> MetadataChange {
        let Self {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        } = self;
        MetadataChange::Unbind {
            vhost,
            source,
            destination,
            key,
            arguments,
            connection,
        }
    }
}

impl Channel {
    pub(super) fn vhost(&self) -> VhostName {
        self.holder.session.options.vhost.clone()
    }

    fn connection(&self) -> Option<ConnectionId> {
        Some(self.holder.session.id)
    }

    async fn change(&self, change: MetadataChange) -> Result<Outcome, Refusal> {
        self.node.apply(&change).await
    }

    /// `exchange.declare`.
    ///
    /// # Errors
    /// Not permitted, unknown type, reserved name, or one that differs exists.
    pub async fn declare_exchange(&mut self, declare: DeclareExchange) -> Result<(), Refusal> {
        self.settle_down().await;
        let vhost = self.vhost();
        if declare.exchange.as_str().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        if declare.passive {
            let exchange = declare.exchange.as_str();
            self.access
                .check(&self.node, &Operation::ExchangeDeclarePassive { exchange })?;
            if Door::of(exchange).is_some() {
                return Ok(());
            }
            let metadata = self.node.metadata.read();
            return match metadata.vhost(&vhost)?.exchange(declare.exchange.as_str()) {
                Some(_) => Ok(()),
                None => Err(Refusal::ExchangeNotFound {
                    exchange: declare.exchange,
                    vhost: vhost.clone(),
                }),
            };
        }
        self.access.check(
            &self.node,
            &Operation::ExchangeDeclare {
                exchange: declare.exchange.as_str(),
                arguments: &declare.arguments,
            },
        )?;
        self.change(MetadataChange::DeclareExchange {
            vhost,
            exchange: declare.exchange,
            exchange_type: declare.exchange_type.into(),
            durable: declare.durable,
            auto_delete: declare.auto_delete,
            internal: declare.internal,
            arguments: declare.arguments,
        })
        .await?;
        Ok(())
    }

    /// `exchange.delete`.
    ///
    /// # Errors
    /// Not permitted, a system exchange, or in use when that is a condition.
    pub async fn delete_exchange(
        &mut self,
        exchange: ExchangeName,
        if_unused: bool,
    ) -> Result<(), Refusal> {
        self.settle_down().await;
        if exchange.as_str().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let operation = Operation::ExchangeDelete {
            exchange: exchange.as_str(),
        };
        self.access.check(&self.node, &operation)?;
        let vhost = self.vhost();
        self.change(MetadataChange::DeleteExchange {
            vhost,
            exchange,
            if_unused,
        })
        .await?;
        Ok(())
    }

    /// `exchange.bind`.
    ///
    /// # Errors
    /// Not permitted, or an end is missing.
    pub async fn bind_exchange(&mut self, bind: BindExchange) -> Result<(), Refusal> {
        let binding = self.exchange_binding(bind).await?;
        self.change(binding.made()).await?;
        Ok(())
    }

    /// `exchange.unbind`.
    ///
    /// # Errors
    /// Not permitted.
    pub async fn unbind_exchange(&mut self, bind: BindExchange) -> Result<(), Refusal> {
        let binding = self.exchange_binding(bind).await?;
        self.change(binding.taken_away()).await?;
        Ok(())
    }

    async fn exchange_binding(&mut self, bind: BindExchange) -> Result<CheckedBinding, Refusal> {
        self.settle_down().await;
        self.check_exchange_binding(&bind)?;
        Ok(CheckedBinding {
            vhost: self.vhost(),
            source: bind.source,
            destination: Destination::Exchange(bind.destination),
            key: bind.binding_key.into(),
            arguments: bind.arguments,
            connection: self.connection(),
        })
    }

    fn check_exchange_binding(&self, bind: &BindExchange) -> Result<(), Refusal> {
        if bind.source.as_str().is_empty() || bind.destination.as_str().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let destination = Destination::Exchange(bind.destination.clone());
        self.check_binding(bind.source.as_str(), &destination, &bind.binding_key)
    }

    fn check_binding(
        &self,
        source: &str,
        destination: &Destination,
        key: &str,
    ) -> Result<(), Refusal> {
        self.access.check(
            &self.node,
            &Operation::Bind {
                source,
                destination,
            },
        )?;
        self.access.check_binding_key(&self.node, source, key)
    }

    /// `queue.declare`.
    ///
    /// # Errors
    /// Not permitted, locked, reserved, invalid, at a limit, or one that differs exists.
    pub async fn declare_queue(&mut self, declare: DeclareQueue) -> Result<QueueDeclared, Refusal> {
        self.settle_down().await;
        if let Some(declared) = self.declare_reply_queue(&declare.queue) {
            return declared;
        }
        if declare.passive {
            // rabbitmq: here an empty name is not the last queue declared.
            let queue = declare.queue;
            let operation = Operation::QueueDeclarePassive {
                queue: queue.as_str(),
            };
            self.access.check(&self.node, &operation)?;
            let record = self.open_queue(&queue)?;
            return self.declared(&record).await;
        }
        let server_named = declare.queue.as_str().is_empty();
        let queue = if server_named {
            server_name::queue()
        } else {
            declare.queue
        };
        self.access.check(
            &self.node,
            &Operation::QueueDeclare {
                queue: queue.as_str(),
                arguments: &declare.arguments,
            },
        )?;
        let declaration = QueueDeclaration {
            vhost: self.vhost(),
            queue,
            server_named,
            durable: declare.durable,
            exclusive: declare.exclusive,
            auto_delete: declare.auto_delete,
            arguments: declare.arguments,
            connection: self.connection(),
            user: Some(self.holder.session.options.user.clone()),
            node: self.node.core_node(),
            groups: self.node.options.groups,
        };
        let exclusive = declaration.exclusive;
        let outcome = self
            .change(MetadataChange::DeclareQueue(declaration))
            .await?;
        let record = outcome
            .declared_queue()
            .cloned()
            .ok_or_else(|| Refusal::Broken {
                what: "a declaration had no outcome".into(),
            })?;
        if exclusive {
            self.holder
                .session
                .owns_exclusive
                .store(true, Ordering::Release);
        }
        self.declared(&record).await
    }

    /// Reply names are there when somebody waits for replies; nothing is ever declared.
    // rabbitmq docs: direct reply-to, declaring
    fn declare_reply_queue(&self, queue: &QueueName) -> Option<Result<QueueDeclared, Refusal>> {
        let exists = match ReplyName::of(queue.as_str())? {
            ReplyName::Queue => true,
            ReplyName::Requester => self.is_open_reply_name(queue),
        };
        Some(match exists {
            true => Ok(QueueDeclared {
                queue: queue.clone(),
                message_count: 0,
                consumer_count: 1,
            }),
            false => Err(Refusal::QueueNotFound {
                queue: queue.clone(),
                vhost: self.vhost(),
            }),
        })
    }

    /// Whether somebody waits for the replies that go to this generated name.
    pub(super) fn is_open_reply_name(&self, queue: &QueueName) -> bool {
        ReplyName::of(queue.as_str()) == Some(ReplyName::Requester)
            && self.node.replies.is_open(queue.as_str())
    }

    async fn declared(&mut self, record: &Arc<QueueRecord>) -> Result<QueueDeclared, Refusal> {
        self.last_queue = Some(record.name.clone());
        let queue = self.live(record)?;
        queue.touch(Use::Declare);
        let (ready, consumers) = self.node.counts(&queue).await?;
        Ok(QueueDeclared {
            queue: record.name.clone(),
            message_count: u32::try_from(ready).unwrap_or(u32::MAX),
            consumer_count: u32::try_from(consumers).unwrap_or(u32::MAX),
        })
    }

    /// The queue that a name means: empty is the last one declared on this channel.
    // amqp 1.7.2.3: queue name.
    pub(super) fn named(&self, queue: QueueName) -> Result<QueueName, Refusal> {
        match queue.as_str().is_empty() {
            true => self.last_queue.clone().ok_or(Refusal::NoPreviousQueue),
            false => Ok(queue),
        }
    }

    /// The record of a queue that exists and is not locked by another connection.
    pub(super) fn open_queue(&self, queue: &QueueName) -> Result<Arc<QueueRecord>, Refusal> {
        let vhost = self.vhost();
        let metadata = self.node.metadata.read();
        let Some(record) = metadata.vhost(&vhost)?.queue(queue.as_str()) else {
            return Err(Refusal::QueueNotFound {
                queue: queue.clone(),
                vhost: vhost.clone(),
            });
        };
        if !record.is_open_to(self.connection()) {
            return Err(Refusal::ResourceLocked {
                queue: queue.clone(),
                vhost,
            });
        }
        Ok(record.clone())
    }

    pub(super) fn live(&self, record: &QueueRecord) -> Result<Arc<Queue>, Refusal> {
        self.node
            .queue(record.id)
            .ok_or_else(|| Refusal::QueueNotFound {
                queue: record.name.clone(),
                vhost: record.vhost.clone(),
            })
    }

    /// `queue.bind`.
    ///
    /// # Errors
    /// Not permitted, or an end is missing or locked.
    pub async fn bind_queue(&mut self, bind: BindQueue) -> Result<(), Refusal> {
        let binding = self.queue_binding(bind).await?;
        self.change(binding.made()).await?;
        Ok(())
    }

    /// `queue.unbind`.
    ///
    /// # Errors
    /// Not permitted, or the queue is locked.
    pub async fn unbind_queue(&mut self, bind: BindQueue) -> Result<(), Refusal> {
        let binding = self.queue_binding(bind).await?;
        self.change(binding.taken_away()).await?;
        Ok(())
    }

    async fn queue_binding(&mut self, bind: BindQueue) -> Result<CheckedBinding, Refusal> {
        self.settle_down().await;
        let bind = self.checked_binding(bind)?;
        Ok(CheckedBinding {
            vhost: self.vhost(),
            source: bind.exchange,
            destination: Destination::Queue(bind.queue),
            key: bind.binding_key.into(),
            arguments: bind.arguments,
            connection: self.connection(),
        })
    }

    fn checked_binding(&self, mut bind: BindQueue) -> Result<BindQueue, Refusal> {
        // amqp: queue.bind; an empty queue name and an empty key mean the queue's own name.
        if bind.queue.as_str().is_empty() && bind.binding_key.is_empty() {
            bind.binding_key = self.named(bind.queue.clone())?.to_string();
        }
        bind.queue = self.named(bind.queue)?;
        if ReplyName::of(bind.queue.as_str()) == Some(ReplyName::Requester) {
            return Err(Refusal::VolatileQueueBinding);
        }
        if bind.exchange.as_str().is_empty() {
            return Err(Refusal::DefaultExchange);
        }
        let destination = Destination::Queue(bind.queue.clone());
        self.check_binding(bind.exchange.as_str(), &destination, &bind.binding_key)?;
        Ok(bind)
    }

    /// `queue.purge`; answers the number of messages removed.
    ///
    /// # Errors
    /// Not permitted, missing or locked.
    pub async fn purge_queue(&mut self, queue: QueueName) -> Result<u32, Refusal> {
        self.settle_down().await;
        let queue = self.named(queue)?;
        self.access.check(
            &self.node,
            &Operation::QueueRead {
                queue: queue.as_str(),
            },
        )?;
        if self.is_open_reply_name(&queue) {
            // Replies never wait.
            return Ok(0);
        }
        let queue = self.live(&*self.open_queue(&queue)?)?;
        let purged = self.node.purge(&queue).await?;
        if let Lane::Group(group) = queue.lane {
            self.node
                .groups
                .barrier(group, &self.node.pressure, &self.holder);
            self.settle_down().await;
        }
        Ok(u32::try_from(purged).unwrap_or(u32::MAX))
    }

    /// `queue.delete`; answers the number of messages that were ready.
    ///
    /// # Errors
    /// Not permitted, locked, or a condition does not hold.
    pub async fn delete_queue(
        &mut self,
        queue: QueueName,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<u32, Refusal> {
        self.settle_down().await;
        let queue = self.named(queue)?;
        self.access.check(
            &self.node,
            &Operation::QueueDelete {
                queue: queue.as_str(),
            },
        )?;
        let record = match self.open_queue(&queue) {
            Ok(record) => Some(record),
            // rabbitmq: deleting what does not exist is no error.
            Err(Refusal::QueueNotFound { .. }) => None,
            Err(refusal) => return Err(refusal),
        };
        let live = record.and_then(|record| self.node.queue(record.id));
        let (ready, consumers) = match live {
            Some(queue) if if_unused || if_empty || !self.node.is_away(&queue) => {
                self.node.counts(&queue).await?
            }
            // A queue whose node is dead can be deleted all the same.
            Some(queue) => self.node.counts_soon(&queue).await,
            None => (0, 0),
        };
        let deletion = QueueDeletion {
            vhost: self.vhost(),
            queue,
            connection: self.connection(),
            if_unused,
            if_empty,
            consumers,
            ready,
        };
        // rabbitmq: the channel's own consumers hear of it after delete-ok; some clients take a
        // cancel in its place for a failure.
        self.holder.hold_cancels();
        self.cancels_held = true;
        self.change(MetadataChange::DeleteQueue(deletion)).await?;
        Ok(u32::try_from(ready).unwrap_or(u32::MAX))
    }
}
