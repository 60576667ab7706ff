//! A consumer: takes deliveries (pushed, or polled with basic.get), times and checks them, and
//! settles them.

use std::collections::VecDeque;
use std::sync::Arc;

use amqp::protocol::{AMQPClass, basic, channel};
use amqp::{BasicAck, BasicNack, Method, encode_ack, encode_method, encode_nack};

use super::incoming::{Arrived, Delivery, Incoming};
use super::service::Service;
use super::{Turn, close_channel, obey_flow};
use crate::body::{Filler, IDENTITY_BYTES, RunMark};
use crate::client::ClientFault;
use crate::orders::Order;
use crate::verify::{OrderCheck, Sighting, Witness};

/// How messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    Push,
    /// basic.get, with a pause after an empty answer.
    Poll {
        pause_ns: u64,
    },
}

/// What a consumer is to do.
pub(crate) struct ConsumerPlan {
    pub(crate) channel: u16,
    pub(crate) mark: RunMark,
    /// Number and name of each queue.
    pub(crate) queues: Vec<(u32, String)>,
    pub(crate) intake: Intake,
    /// Acknowledge every so many deliveries; 0 lets the broker do it.
    pub(crate) ack_every: u32,
    /// Send every so many first deliveries back; 0 none.
    pub(crate) requeue_every: u32,
    /// Send back what was sent back before, too.
    pub(crate) requeue_again: bool,
    /// Never settle every so many deliveries, the first one to begin with; 0 none.
    pub(crate) stuck_every: u64,
    /// Settle a message when so many more have come.
    pub(crate) lag: usize,
    /// How long a message takes; 0 no time.
    pub(crate) service_ns: u64,
    /// Compare bodies with this.
    pub(crate) filler: Option<Filler>,
    pub(crate) witness: Arc<dyn Witness>,
}

pub(crate) struct Consumer {
    plan: ConsumerPlan,
    stage: Stage,
    subscribed: usize,
    /// Which queue is asked next.
    next_get: usize,
    get: Get,
    incoming: Incoming,
    service: Option<Service<Delivery>>,
    first_deliveries: u32,
    /// Deliveries since the last ack, and the last of them.
    unacked: u32,
    unacked_tag: u64,
    /// Deliveries that are settled later, of a consumer that holds some back.
    held: VecDeque<u64>,
    /// Deliveries that were judged, stuck or held, so far.
    judged: u64,
    sightings: Vec<Sighting>,
    remembered: Vec<Sighting>,
    order: OrderCheck,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Subscribing,
    Consuming,
    Closing,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Get {
    Due { at_ns: u64 },
    Asked,
}

impl Consumer {
    pub(crate) fn new(plan: ConsumerPlan) -> Self {
        Self {
            service: (plan.service_ns > 0).then(|| Service::new(plan.service_ns)),
            plan,
            stage: Stage::Waiting,
            subscribed: 0,
            next_get: 0,
            get: Get::Due { at_ns: 0 },
            incoming: Incoming::default(),
            first_deliveries: 0,
            unacked: 0,
            unacked_tag: 0,
            held: VecDeque::new(),
            judged: 0,
            sightings: Vec::new(),
            remembered: Vec::new(),
            order: OrderCheck::default(),
        }
    }

    pub(crate) fn pump(&mut self, turn: &mut Turn<'_>) -> Option<u64> {
        match (self.stage, turn.orders.consume) {
            (Stage::Waiting, Order::Go { .. }) => self.begin(turn),
            (Stage::Waiting | Stage::Consuming, Order::Stop) => self.finish(turn),
            _ => {}
        }
        if self.stage != Stage::Consuming {
            return None;
        }
        while let Some(delivery) = self.served(turn.now_ns) {
            self.settle(delivery, turn);
        }
        self.note_kept(turn);
        let get_ns = self.ask_if_due(turn);
        let served_ns = self.service.as_ref().and_then(Service::next_done_ns);
        [get_ns, served_ns].into_iter().flatten().min()
    }

    fn served(&mut self, now_ns: u64) -> Option<Delivery> {
        self.service.as_mut()?.finish(now_ns)
    }

    fn begin(&mut self, turn: &mut Turn<'_>) {
        if let Intake::Poll { .. } = self.plan.intake {
            self.consuming(turn);
            return;
        }
        for (queue, name) in &self.plan.queues {
            let consume = basic::Consume {
                queue: name.as_str().into(),
                consumer_tag: queue.to_string().into(),
                no_ack: self.plan.ack_every == 0,
                ..basic::Consume::default()
            };
            let consume = AMQPClass::Basic(basic::AMQPMethod::Consume(consume));
            encode_method(turn.out, self.plan.channel, &consume);
        }
        self.stage = Stage::Subscribing;
    }

    fn consuming(&mut self, turn: &mut Turn<'_>) {
        self.stage = Stage::Consuming;
        turn.tally.counts.consumers_ready += 1;
    }

    /// Acknowledges the rest and closes; what was not served goes back to its queue.
    fn finish(&mut self, turn: &mut Turn<'_>) {
        if self.unacked > 0 {
            self.ack_all(turn);
        }
        self.ack_held(0, turn);
        close_channel(turn.out, self.plan.channel);
        self.stage = Stage::Closing;
    }

    fn ask_if_due(&mut self, turn: &mut Turn<'_>) -> Option<u64> {
        if self.plan.intake == Intake::Push || self.is_full() {
            return None;
        }
        let Get::Due { at_ns } = self.get else {
            return None;
        };
        if at_ns > turn.now_ns {
            return Some(at_ns);
        }
        let (_, name) = &self.plan.queues[self.next_get];
        let get = basic::Get {
            queue: name.as_str().into(),
            no_ack: self.plan.ack_every == 0,
        };
        let get = AMQPClass::Basic(basic::AMQPMethod::Get(get));
        encode_method(turn.out, self.plan.channel, &get);
        self.get = Get::Asked;
        None
    }

    pub(crate) fn on_method(
        &mut self,
        method: Method<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), ClientFault> {
        match method {
            Method::BasicDeliver(deliver) => {
                let queue = self.queue_of(deliver.consumer_tag)?;
                self.incoming
                    .begin(deliver.delivery_tag, deliver.redelivered, queue);
                Ok(())
            }
            Method::BasicGetOk(get_ok) => {
                let queue = self.plan.queues[self.next_get].0;
                self.next_queue();
                self.get = Get::Due { at_ns: 0 };
                self.incoming
                    .begin(get_ok.delivery_tag, get_ok.redelivered, queue);
                Ok(())
            }
            Method::Other(other) => self.on_other(&other.call, turn),
            other => Err(ClientFault::unexpected(format!("{other:?}"), "a delivery")),
        }
    }

    fn on_other(&mut self, call: &AMQPClass, turn: &mut Turn<'_>) -> Result<(), ClientFault> {
        match call {
            AMQPClass::Basic(basic::AMQPMethod::ConsumeOk(_)) => {
                self.subscribed += 1;
                if self.subscribed == self.plan.queues.len() {
                    self.consuming(turn);
                }
            }
            AMQPClass::Basic(basic::AMQPMethod::GetEmpty(_)) => {
                turn.tally.counts.empty_gets += 1;
                self.next_queue();
                if let Intake::Poll { pause_ns } = self.plan.intake {
                    let at_ns = turn.now_ns.saturating_add(pause_ns);
                    self.get = Get::Due { at_ns };
                }
            }
            AMQPClass::Basic(basic::AMQPMethod::Cancel(cancel)) => {
                let tag = cancel.consumer_tag.as_str().to_owned();
                return Err(ClientFault::Cancelled { tag });
            }
            AMQPClass::Channel(channel::AMQPMethod::Flow(flow)) => {
                obey_flow(turn.out, self.plan.channel, flow.active);
            }
            AMQPClass::Channel(channel::AMQPMethod::CloseOk(_)) => {
                self.plan.witness.settled(&self.remembered);
                self.remembered.clear();
                self.stage = Stage::Done;
            }
            other => {
                let got = format!("{other:?}");
                return Err(ClientFault::unexpected(got, "an answer to a consumer"));
            }
        }
        Ok(())
    }

    fn next_queue(&mut self) {
        self.next_get = (self.next_get + 1) % self.plan.queues.len();
    }

    /// The consumer tag is the queue's number.
    fn queue_of(&self, consumer_tag: &str) -> Result<u32, ClientFault> {
        if let [(queue, _)] = self.plan.queues.as_slice() {
            return Ok(*queue);
        }
        consumer_tag
            .parse()
            .map_err(|_| ClientFault::unexpected(consumer_tag, "one of our consumer tags"))
    }

    pub(crate) fn on_header(&mut self, body_bytes: u64, turn: &mut Turn<'_>) {
        let arrived = self.incoming.header(body_bytes);
        self.take_unless_closing(arrived, turn);
    }

    pub(crate) fn on_body(&mut self, piece: &[u8], turn: &mut Turn<'_>) {
        let arrived = self.incoming.piece(piece, self.plan.filler.as_ref());
        self.take_unless_closing(arrived, turn);
    }

    /// After close was sent, what still comes is not kept: it goes back to its queue.
    fn take_unless_closing(&mut self, arrived: Option<Arrived>, turn: &mut Turn<'_>) {
        if let Some(arrived) = arrived
            && self.stage != Stage::Closing
        {
            self.take(arrived, turn);
        }
    }

    fn take(&mut self, arrived: Arrived, turn: &mut Turn<'_>) {
        let counts = &mut turn.tally.counts;
        let mut delivery = arrived.delivery;
        counts.redelivered += u64::from(delivery.redelivered);
        counts.consumed_bytes += arrived.body_bytes as u64;
        turn.tally.last.consumed_ns = turn.now_ns;
        let mark = self.plan.mark;
        match arrived.stamp.filter(|stamp| stamp.identity.mark == mark) {
            Some(stamp) => {
                counts.corrupted += u64::from(!arrived.intact);
                if let Some(published_ns) = stamp.published_ns {
                    let latency_ns = turn.now_ns.saturating_sub(published_ns);
                    turn.tally.latency.record(latency_ns);
                }
                let sighting = Sighting {
                    queue: delivery.queue,
                    producer: stamp.identity.producer,
                    redelivered: delivery.redelivered,
                    sequence: stamp.identity.sequence,
                };
                if !delivery.redelivered {
                    self.order.note(&sighting);
                }
                delivery.sighting = Some(sighting);
            }
            // Bodies too small for a stamp are nobody's.
            None => counts.foreign += u64::from(arrived.body_bytes >= IDENTITY_BYTES),
        }
        match &mut self.service {
            Some(service) => service.arrive(turn.now_ns, delivery),
            None => self.settle(delivery, turn),
        }
    }

    fn settle(&mut self, delivery: Delivery, turn: &mut Turn<'_>) {
        if self.wants_back(delivery) {
            let nack = BasicNack {
                delivery_tag: delivery.tag,
                multiple: false,
                requeue: true,
            };
            encode_nack(turn.out, self.plan.channel, nack);
            turn.tally.counts.requeued += 1;
            return;
        }
        turn.tally.counts.consumed += 1;
        self.sightings.extend(delivery.sighting);
        if self.plan.ack_every == 0 {
            turn.tally.counts.acknowledged += 1;
            return;
        }
        if self.plan.stuck_every > 0 || self.plan.lag > 0 {
            return self.hold(delivery.tag, turn);
        }
        self.unacked += 1;
        self.unacked_tag = delivery.tag;
        if self.unacked >= self.plan.ack_every {
            self.ack_all(turn);
        }
    }

    /// Keeps a delivery back, for ever or for a while, and acknowledges those whose while is over.
    fn hold(&mut self, tag: u64, turn: &mut Turn<'_>) {
        let number = self.judged;
        self.judged += 1;
        if self.plan.stuck_every > 0 && number.is_multiple_of(self.plan.stuck_every) {
            return;
        }
        self.held.push_back(tag);
        if self.held.len() >= self.plan.lag + self.plan.ack_every as usize {
            self.ack_held(self.plan.lag, turn);
        }
    }

    /// Acknowledges all that are held back but the last `kept`.
    fn ack_held(&mut self, kept: usize, turn: &mut Turn<'_>) {
        let due = self.held.len().saturating_sub(kept);
        turn.tally.counts.acknowledged += due as u64;
        // What is stuck lies in between: an ack of several would take it along.
        let at_once = match self.plan.stuck_every {
            0 => due,
            _ => 1,
        };
        let mut left = due;
        while left > 0 {
            let some = at_once.min(left);
            let last = self.held.drain(..some).next_back();
            left -= some;
            let ack = BasicAck {
                delivery_tag: last.unwrap_or(0),
                multiple: some > 1,
            };
            encode_ack(turn.out, self.plan.channel, ack);
        }
    }

    /// Unless the plan says so, only first deliveries are sent back, so that every message is kept in the
    /// end.
    fn wants_back(&mut self, delivery: Delivery) -> bool {
        let again = delivery.redelivered && !self.plan.requeue_again;
        if self.plan.requeue_every == 0 || again {
            return false;
        }
        self.first_deliveries += 1;
        if self.first_deliveries < self.plan.requeue_every {
            return false;
        }
        self.first_deliveries = 0;
        true
    }

    fn ack_all(&mut self, turn: &mut Turn<'_>) {
        let ack = BasicAck {
            delivery_tag: self.unacked_tag,
            multiple: self.unacked > 1,
        };
        encode_ack(turn.out, self.plan.channel, ack);
        turn.tally.counts.acknowledged += u64::from(self.unacked);
        self.unacked = 0;
    }

    fn note_kept(&mut self, turn: &mut Turn<'_>) {
        if self.sightings.is_empty() {
            return;
        }
        turn.tally.counts.distinct += self.plan.witness.note(&self.sightings);
        if self.plan.witness.wants_certainty() {
            self.remembered.extend_from_slice(&self.sightings);
        }
        self.sightings.clear();
    }

    pub(crate) fn end_turn(&mut self, turn: &mut Turn<'_>) {
        self.note_kept(turn);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.service.as_ref().is_some_and(Service::is_full)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    pub(crate) fn reordered(&self) -> u64 {
        self.order.reordered()
    }
}

#[cfg(test)]
#[path = "consumer_tests.rs"]
mod tests;
