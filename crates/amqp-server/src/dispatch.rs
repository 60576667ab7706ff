//! Methods that may have to wait, by class: protocol arguments to the broker's calls, and the
//! broker's answers to the protocol's.
//!
//! Every method of every class is answered or refused here. The reader's task waits for each
//! call, so replies keep their order per channel.

mod basic;
mod channel;
mod connection;
mod exchange;
mod queue;
mod transaction;

use std::borrow::Cow;

use amqp::protocol::AMQPClass;
use amqp::protocol_types::ShortString;
use amqp::{Frame, Method, OtherMethod};
use broker_core::{ExchangeName, QueueName};

use crate::channel_table::OpenChannel;
use crate::ending::{Cause, Failure};
use crate::fault::{MethodId, ProtocolFault};
use crate::outbox::FrameOutbox;
use crate::reply;
use crate::serving::Serving;

/// Result of one method.
type Outcome = Result<(), Cause>;

/// What a method on an open channel works with.
struct Call<'a> {
    number: u16,
    open: &'a mut OpenChannel,
    outbox: &'a FrameOutbox,
}

impl Call<'_> {
    fn reply(&self, method: &AMQPClass) {
        self.outbox.reply(self.number, method);
    }

    /// Replies unless the client asked not to be answered.
    fn reply_unless(&self, nowait: bool, method: impl FnOnce() -> AMQPClass) {
        if !nowait {
            self.reply(&method());
        }
    }
}

impl Serving {
    /// Carries out a method that `accept` did not.
    pub(crate) async fn dispatch(
        &mut self,
        frame: Frame<'_>,
        method: Method<'_>,
    ) -> Result<(), Failure> {
        let number = frame.channel;
        let at = MethodId::of(frame.payload);
        // What other channels of this connection published before is on its way before this
        // method looks at a queue.
        self.end_turn();
        let outcome = match method {
            Method::Other(method) => self.other(frame, *method).await,
            // Methods that only servers send, and hot ones where no channel is open.
            _ => Err(self.misplaced(number).into()),
        };
        outcome.map_err(|cause| match &cause {
            // Limits of channels are found where no method is at fault yet.
            // rabbitmq: class 0, method 0
            Cause::Refused(_) if at == channel::OPEN => cause.at(MethodId::NONE),
            _ => cause.at(at),
        })
    }

    async fn other(&mut self, frame: Frame<'_>, method: OtherMethod) -> Outcome {
        let number = frame.channel;
        match method.call {
            AMQPClass::Connection(call) if number == 0 => self.connection(call).await,
            AMQPClass::Channel(call) if number != 0 => self.channel(number, call).await,
            _ => self.on_open_channel(frame, method).await,
        }
    }

    async fn on_open_channel(&mut self, frame: Frame<'_>, method: OtherMethod) -> Outcome {
        let number = frame.channel;
        let misplaced = self.misplaced(number);
        let Some(open) = self.channels.touch(number) else {
            return Err(misplaced.into());
        };
        let mut on = Call {
            number,
            open,
            outbox: &self.outbox,
        };
        let OtherMethod { call, table } = method;
        match call {
            AMQPClass::Access(call) => access(&on, &call),
            AMQPClass::Basic(call) => basic::basic(&mut on, call, table, frame.payload).await,
            AMQPClass::Confirm(call) => transaction::confirm(&mut on, &call),
            AMQPClass::Exchange(call) => exchange::exchange(&mut on, call, table).await,
            AMQPClass::Queue(call) => queue::queue(&mut on, call, table).await,
            AMQPClass::Tx(call) => transaction::tx(&mut on, &call).await,
            AMQPClass::Channel(_) | AMQPClass::Connection(_) => Err(misplaced.into()),
        }
    }

    /// The fault of a method that cannot come on this channel at this moment.
    fn misplaced(&mut self, number: u16) -> ProtocolFault {
        if number == 0 {
            return ProtocolFault::UnexpectedInRunning;
        }
        match self.channels.open(number) {
            Some(_) => ProtocolFault::UnimplementedMethod,
            None => ProtocolFault::ChannelNotOpen,
        }
    }
}

/// Class access is a relic: every ticket is given, none is looked at.
fn access(on: &Call<'_>, method: &amqp::protocol::access::AMQPMethod) -> Outcome {
    use amqp::protocol::access::AMQPMethod as Access;
    match method {
        Access::Request(_) => {
            on.reply(&reply::access_ok());
            Ok(())
        }
        Access::RequestOk(_) => Err(ProtocolFault::UnimplementedMethod.into()),
    }
}

/// A name without the line ends that RabbitMQ takes out of names.
// rabbitmq: CR and LF are removed from exchange and queue names
fn clean(name: &str) -> Cow<'_, str> {
    if !name.contains(['\r', '\n']) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.replace(['\r', '\n'], ""))
}

fn exchange_name(name: &ShortString) -> ExchangeName {
    ExchangeName::new(clean(name.as_str()))
}

fn queue_name(name: &ShortString) -> QueueName {
    QueueName::new(clean(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_taken_out_of_names() {
        assert_eq!(clean("cr\r\nlf"), "crlf");
        assert!(matches!(clean("plain"), Cow::Borrowed("plain")));
    }
}
