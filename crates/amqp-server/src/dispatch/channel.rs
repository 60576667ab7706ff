//! Class channel: opening, closing, and the pauses that either side asks for.

use amqp::protocol::channel::AMQPMethod as Channel;
use broker_core::Refusal;

use super::Outcome;
use crate::channel_table::Slot;
use crate::fault::{MethodId, ProtocolFault};
use crate::reply;
use crate::serving::Serving;

/// channel.open.
pub(super) const OPEN: MethodId = MethodId {
    class: 20,
    method: 10,
};

impl Serving {
    pub(super) async fn channel(&mut self, number: u16, method: Channel) -> Outcome {
        match method {
            Channel::Open(_) => self.open_channel(number),
            Channel::Close(_) => self.end_channel(number).await,
            Channel::CloseOk(_) => self.channel_close_ok(number),
            Channel::Flow(flow) => self.flow(number, flow.active),
            Channel::FlowOk(flow_ok) => self.flow_ok(number, flow_ok.active),
            Channel::OpenOk(_) => match self.channels.open(number) {
                Some(_) => Err(ProtocolFault::UnimplementedMethod.into()),
                None => Err(ProtocolFault::ChannelNotOpen.into()),
            },
        }
    }

    fn open_channel(&mut self, number: u16) -> Outcome {
        match self.channels.slot(number) {
            // Ours until close-ok came.
            Some(Slot::Open(_) | Slot::Closing) => {
                return Err(ProtocolFault::ChannelOpenTwice.into());
            }
            Some(Slot::Crossed) | None => {}
        }
        if self.channels.is_full() {
            let max = self.channels.channel_max();
            return Err(Refusal::ChannelMaxReached { max }.into());
        }
        let channel = self.session.open_channel(number)?;
        self.channels.insert(number, channel);
        self.outbox.reply(number, &reply::channel_open_ok());
        Ok(())
    }

    /// channel.close from the client.
    async fn end_channel(&mut self, number: u16) -> Outcome {
        match self.channels.slot(number) {
            None => return Err(ProtocolFault::ChannelNotOpen.into()),
            Some(Slot::Closing) => self.channels.cross(number),
            Some(Slot::Crossed) => {}
            Some(Slot::Open(_)) => {
                if let Some(open) = self.channels.remove(number) {
                    open.channel.close().await;
                }
            }
        }
        self.outbox.reply(number, &reply::channel_close_ok());
        Ok(())
    }

    fn channel_close_ok(&mut self, number: u16) -> Outcome {
        match self.channels.slot(number) {
            None => Err(ProtocolFault::ChannelNotOpen.into()),
            Some(Slot::Closing | Slot::Crossed) => {
                self.channels.remove(number);
                Ok(())
            }
            Some(Slot::Open(open)) => match std::mem::take(&mut open.late_close_ok) {
                true => Ok(()),
                false => Err(ProtocolFault::UnimplementedMethod.into()),
            },
        }
    }

    /// The client pauses or resumes its own deliveries.
    fn flow(&mut self, number: u16, active: bool) -> Outcome {
        let Some(open) = self.channels.open(number) else {
            return Err(ProtocolFault::ChannelNotOpen.into());
        };
        if self.traits.echoes_flow && open.flows_asked.echo(active) {
            return Ok(());
        }
        if !active && !self.obeys_client_flow {
            return Err(ProtocolFault::FlowNotImplemented.into());
        }
        // Between flow-ok(false) and flow-ok(true) the client sees no delivery.
        if active {
            self.outbox.reply(number, &reply::flow_ok(active));
            open.channel.flow(active);
        } else {
            open.channel.flow(active);
            self.outbox.reply(number, &reply::flow_ok(active));
        }
        Ok(())
    }

    /// The answer to a flow of ours is not waited for: some clients never give it, some say the
    /// opposite. Without a flow of ours it is a breach.
    fn flow_ok(&mut self, number: u16, active: bool) -> Outcome {
        let Some(open) = self.channels.open(number) else {
            return Err(ProtocolFault::ChannelNotOpen.into());
        };
        match open.flows_asked.answer(active) {
            true => Ok(()),
            false => Err(ProtocolFault::UnimplementedMethod.into()),
        }
    }
}
