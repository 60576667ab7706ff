//! What a run needs on the broker: declared if it is not there, and only then deleted again.

use amqp::Table;
use amqp::protocol::{AMQPClass, exchange, queue};

use crate::client::{ClientFault, ClientOptions, Connection};
use crate::options::LoadOptions;
use crate::uri::Endpoint;

const CHANNEL: u16 = 1;

/// What was declared, so that it can be deleted.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    queues: Vec<String>,
    exchange: Option<String>,
}

/// What to declare a queue with.
#[derive(Clone, Debug)]
pub(crate) struct QueueDeclaration {
    pub(crate) durable: bool,
    pub(crate) arguments: Table,
}

impl QueueDeclaration {
    pub(crate) fn of(load: &LoadOptions) -> Self {
        let given = load.queue_args.as_ref();
        let mut arguments = given.map_or_else(Table::new, |given| given.table.clone());
        if let Some(queue_type) = &load.queue_type {
            arguments.insert("x-queue-type", queue_type.as_str());
        }
        Self {
            durable: !load.transient_queues,
            arguments,
        }
    }
}

/// A connection for questions, one at a time.
pub(crate) struct Control {
    connection: Connection,
}

impl Control {
    pub(crate) async fn open(
        endpoint: &Endpoint,
        client: &ClientOptions,
    ) -> Result<Self, ClientFault> {
        // Nobody keeps a heartbeat between two questions.
        let client = ClientOptions {
            heartbeat_seconds: 0,
            ..client.clone()
        };
        let mut connection = Connection::open(endpoint, &client).await?;
        connection.open_channel(CHANNEL).await?;
        Ok(Self { connection })
    }

    /// Who answered.
    pub(crate) fn server(&self) -> &crate::client::ServerIdentity {
        &self.connection.server
    }

    pub(crate) async fn close(self) {
        // What was asked was answered; how the connection ends changes nothing.
        let _courtesy = self.connection.close().await;
    }

    /// Whether a question about something by name finds it; the broker closes the channel if not.
    async fn exists(&mut self, question: &AMQPClass) -> Result<bool, ClientFault> {
        match self.connection.call(CHANNEL, question).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_not_found() => {
                self.connection.open_channel(CHANNEL).await?;
                Ok(false)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Declares a queue unless there is one of this name; answers whether it did.
    pub(crate) async fn ensure_queue(
        &mut self,
        name: &str,
        declaration: &QueueDeclaration,
    ) -> Result<bool, ClientFault> {
        let passive = queue::Declare {
            queue: name.into(),
            passive: true,
            ..queue::Declare::default()
        };
        let passive = AMQPClass::Queue(queue::AMQPMethod::Declare(passive));
        if self.exists(&passive).await? {
            return Ok(false);
        }
        declare_queue(&mut self.connection, CHANNEL, name, declaration).await?;
        Ok(true)
    }

    async fn ensure_exchange(
        &mut self,
        load: &LoadOptions,
        name: &str,
    ) -> Result<bool, ClientFault> {
        let passive = exchange::Declare {
            exchange: name.into(),
            kind: load.exchange_type.as_str().into(),
            passive: true,
            ..exchange::Declare::default()
        };
        let mut declare = passive.clone();
        let passive = AMQPClass::Exchange(exchange::AMQPMethod::Declare(passive));
        if self.exists(&passive).await? {
            return Ok(false);
        }
        declare.passive = false;
        declare.durable = true;
        let declare = AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare));
        let given = load.exchange_args.as_ref();
        let arguments = given.map_or_else(Table::new, |given| given.table.clone());
        self.connection
            .call_with_table(CHANNEL, &declare, &arguments)
            .await?;
        Ok(true)
    }

    async fn bind(
        &mut self,
        load: &LoadOptions,
        exchange: &str,
        name: &str,
    ) -> Result<(), ClientFault> {
        let binding_key = load.binding_key.as_ref().unwrap_or(&load.routing_key);
        let bind = queue::Bind {
            queue: name.into(),
            exchange: exchange.into(),
            routing_key: binding_key.as_str().into(),
            ..queue::Bind::default()
        };
        let bind = AMQPClass::Queue(queue::AMQPMethod::Bind(bind));
        let given = load.binding_args.as_ref();
        let arguments = given.map_or_else(Table::new, |given| given.table.clone());
        self.connection
            .call_with_table(CHANNEL, &bind, &arguments)
            .await?;
        Ok(())
    }

    pub(crate) async fn delete_queue(&mut self, name: &str) -> Result<(), ClientFault> {
        delete_queue(&mut self.connection, CHANNEL, name).await
    }
}

pub(crate) async fn declare_queue(
    connection: &mut Connection,
    channel: u16,
    name: &str,
    declaration: &QueueDeclaration,
) -> Result<(), ClientFault> {
    let declare = queue::Declare {
        queue: name.into(),
        durable: declaration.durable,
        ..queue::Declare::default()
    };
    let declare = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
    connection
        .call_with_table(channel, &declare, &declaration.arguments)
        .await?;
    Ok(())
}

pub(crate) async fn delete_queue(
    connection: &mut Connection,
    channel: u16,
    name: &str,
) -> Result<(), ClientFault> {
    let delete = queue::Delete {
        queue: name.into(),
        ..queue::Delete::default()
    };
    let delete = AMQPClass::Queue(queue::AMQPMethod::Delete(delete));
    connection.call(channel, &delete).await?;
    Ok(())
}

impl Topology {
    /// Declares what is missing. A queue and an exchange that were both there keep their bindings
    /// as they are. What was declared before a fault is deleted again.
    pub(crate) async fn declare(
        control: &mut Control,
        load: &LoadOptions,
        queues: &[String],
    ) -> Result<Self, ClientFault> {
        let mut topology = Self::default();
        match topology.declare_all(control, load, queues).await {
            Ok(()) => Ok(topology),
            Err(fault) => {
                // The fault may have closed the channel; a dead connection fails here again, and
                // the first fault is the one that tells something.
                if control.connection.open_channel(CHANNEL).await.is_ok() {
                    let _best_effort = topology.delete(control).await;
                }
                Err(fault)
            }
        }
    }

    async fn declare_all(
        &mut self,
        control: &mut Control,
        load: &LoadOptions,
        queues: &[String],
    ) -> Result<(), ClientFault> {
        if let Some(name) = &load.exchange
            && control.ensure_exchange(load, name).await?
        {
            self.exchange = Some(name.clone());
        }
        let declaration = QueueDeclaration::of(load);
        for name in queues {
            let declared = control.ensure_queue(name, &declaration).await?;
            if declared {
                self.queues.push(name.clone());
            }
            if let Some(exchange) = &load.exchange
                && (declared || self.exchange.is_some())
            {
                control.bind(load, exchange, name).await?;
            }
        }
        Ok(())
    }

    /// Deletes what was declared.
    pub(crate) async fn delete(&self, control: &mut Control) -> Result<(), ClientFault> {
        for name in &self.queues {
            control.delete_queue(name).await?;
        }
        if let Some(name) = &self.exchange {
            let delete = exchange::Delete {
                exchange: name.as_str().into(),
                ..exchange::Delete::default()
            };
            let delete = AMQPClass::Exchange(exchange::AMQPMethod::Delete(delete));
            control.connection.call(CHANNEL, &delete).await?;
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.exchange.is_none()
    }
}
