//! A producer: what it publishes when, and what the broker says of it.
//!
//! Sequences count from `first_sequence`; on a channel with confirms the delivery tag is the
//! place in that count, from 1 on.

use amqp::protocol::{AMQPClass, channel, tx};
use amqp::{BasicAck, BasicNack, Method, encode_method};

use super::template::{Address, Template};
use super::transaction::Transaction;
use super::{Turn, close_channel, obey_flow};
use crate::body::{Filler, Identity, RunMark, SizeDraw, Stamp};
use crate::client::{ClientFault, WRITE_BYTES_MAX};
use crate::confirms::ConfirmWindow;
use crate::orders::Order;
use crate::pacing::Pacing;
use crate::verify::Published;

/// How the broker answers for publishes.
pub(crate) enum Answers {
    None,
    Confirms(ConfirmWindow),
    Transactions(Transaction),
}

/// What a producer is to do.
pub(crate) struct PublisherPlan {
    pub(crate) channel: u16,
    pub(crate) producer: u16,
    pub(crate) mark: RunMark,
    pub(crate) first_sequence: u64,
    /// How many to publish; until told to stop when absent.
    pub(crate) quota: Option<u64>,
    pub(crate) answers: Answers,
    /// Messages a second.
    pub(crate) rate: Option<f64>,
    /// Moves the grid of due times, so that producers do not publish all at once.
    pub(crate) rate_offset_ns: u64,
    pub(crate) sizes: SizeDraw,
    pub(crate) filler: Filler,
    /// Exchange and routing key of each target, served in turn.
    pub(crate) targets: Vec<(String, String)>,
    pub(crate) mandatory: bool,
    pub(crate) properties: Vec<u8>,
    pub(crate) frame_bytes_max: usize,
}

pub(crate) struct Publisher {
    channel: u16,
    identity: Identity,
    first_sequence: u64,
    quota: Option<u64>,
    answers: Answers,
    rate: Option<f64>,
    rate_offset_ns: u64,
    pacing: Option<Pacing>,
    sizes: SizeDraw,
    filler: Filler,
    templates: Vec<Template>,
    stage: Stage,
    /// The broker said channel.flow.
    paused: bool,
    /// The next piece of a body is the first of a returned message's.
    return_begins: bool,
    record: Published,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Publishing,
    /// Published what was to be published; answers are outstanding.
    Settling,
    Closing,
    Done,
}

impl Publisher {
    pub(crate) fn new(plan: PublisherPlan) -> Self {
        let templates = plan.targets.iter().map(|(exchange, routing_key)| {
            let address = Address {
                exchange,
                routing_key,
                mandatory: plan.mandatory,
            };
            let (channel, frame_bytes_max) = (plan.channel, plan.frame_bytes_max);
            Template::new(channel, frame_bytes_max, address, &plan.properties)
        });
        Self {
            channel: plan.channel,
            identity: Identity {
                mark: plan.mark,
                producer: plan.producer,
                sequence: plan.first_sequence,
            },
            first_sequence: plan.first_sequence,
            quota: plan.quota,
            answers: plan.answers,
            rate: plan.rate,
            rate_offset_ns: plan.rate_offset_ns,
            pacing: None,
            templates: templates.collect(),
            sizes: plan.sizes,
            filler: plan.filler,
            stage: Stage::Waiting,
            paused: false,
            return_begins: false,
            record: Published::default(),
        }
    }

    pub(crate) fn pump(&mut self, turn: &mut Turn<'_>) -> Option<u64> {
        if let (Stage::Waiting, Order::Go { since_ns }) = (self.stage, turn.orders.publish) {
            let start_ns = since_ns.saturating_add(self.rate_offset_ns);
            self.pacing = self.rate.map(|rate| Pacing::new(start_ns, rate));
            self.stage = Stage::Publishing;
        }
        let stopped = turn.orders.publish == Order::Stop;
        if stopped && matches!(self.stage, Stage::Waiting | Stage::Publishing) {
            self.stage = Stage::Settling;
        }
        let wake_ns = if self.stage == Stage::Publishing {
            self.publish(turn)
        } else {
            None
        };
        self.commit_if_due(turn);
        if self.stage == Stage::Settling && self.awaited() == 0 {
            close_channel(turn.out, self.channel);
            self.stage = Stage::Closing;
        }
        wake_ns
    }

    /// Publishes what may go now; answers when the next message is due, if that is the reason to
    /// stop.
    fn publish(&mut self, turn: &mut Turn<'_>) -> Option<u64> {
        while self.may_publish(turn) {
            let at_ns = match &mut self.pacing {
                None => turn.now_ns,
                Some(pacing) => match pacing.take(turn.now_ns) {
                    Some(due_ns) => due_ns,
                    None => return Some(pacing.wake_ns(turn.now_ns)),
                },
            };
            self.publish_one(at_ns, turn);
        }
        if self.quota == Some(self.record.count) {
            self.stage = Stage::Settling;
        }
        None
    }

    fn may_publish(&self, turn: &Turn<'_>) -> bool {
        let answers_have_room = match &self.answers {
            Answers::None => true,
            Answers::Confirms(window) => window.has_room(),
            Answers::Transactions(transaction) => transaction.has_room(),
        };
        answers_have_room
            && !self.paused
            && !turn.blocked
            && turn.publishes_left > 0
            && turn.out.len() < WRITE_BYTES_MAX
            && self.quota != Some(self.record.count)
    }

    fn publish_one(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        let body_bytes = self.sizes.next_size();
        let target = (self.identity.sequence % self.templates.len() as u64) as usize;
        let stamp = Stamp::bytes(self.identity, at_ns);
        self.templates[target].append(turn.out, &stamp, &self.filler, body_bytes);
        match &mut self.answers {
            Answers::None => {}
            Answers::Confirms(window) => window.published(at_ns),
            Answers::Transactions(transaction) => transaction.published(at_ns),
        }
        self.identity.sequence += 1;
        self.record.count += 1;
        turn.publishes_left -= 1;
        turn.tally.counts.published += 1;
        turn.tally.counts.published_bytes += body_bytes as u64;
        turn.tally.last.published_ns = turn.now_ns;
    }

    fn commit_if_due(&mut self, turn: &mut Turn<'_>) {
        let Answers::Transactions(transaction) = &mut self.answers else {
            return;
        };
        if transaction.commit_due(self.stage == Stage::Settling) {
            let commit = tx::AMQPMethod::Commit(tx::Commit {});
            encode_method(turn.out, self.channel, &AMQPClass::Tx(commit));
            transaction.commit_sent();
        }
    }

    pub(crate) fn on_method(
        &mut self,
        method: Method<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<(), ClientFault> {
        match method {
            Method::BasicAck(BasicAck {
                delivery_tag,
                multiple,
            }) => self.on_confirm(delivery_tag, multiple, turn),
            Method::BasicNack(BasicNack {
                delivery_tag,
                multiple,
                ..
            }) => self.on_refusal(delivery_tag, multiple, turn),
            Method::BasicReturn(_) => {
                turn.tally.counts.returned += 1;
                Ok(())
            }
            Method::Other(other) => self.on_other(&other.call, turn),
            other => Err(ClientFault::unexpected(
                format!("{other:?}"),
                "a confirm or a return",
            )),
        }
    }

    fn on_confirm(
        &mut self,
        tag: u64,
        multiple: bool,
        turn: &mut Turn<'_>,
    ) -> Result<(), ClientFault> {
        let Answers::Confirms(window) = &mut self.answers else {
            return Err(ClientFault::unexpected("a confirm", "none was asked for"));
        };
        let now_ns = turn.now_ns;
        let tally = &mut *turn.tally;
        window.settle(tag, multiple, |_, published_ns| {
            tally.counts.confirmed += 1;
            let latency_ns = now_ns.saturating_sub(published_ns);
            tally.confirm_latency.record(latency_ns);
        })?;
        tally.last.confirmed_ns = now_ns;
        Ok(())
    }

    fn on_refusal(
        &mut self,
        tag: u64,
        multiple: bool,
        turn: &mut Turn<'_>,
    ) -> Result<(), ClientFault> {
        let Answers::Confirms(window) = &mut self.answers else {
            return Err(ClientFault::unexpected("a nack", "none was asked for"));
        };
        let counts = &mut turn.tally.counts;
        let (record, first_sequence) = (&mut self.record, self.first_sequence);
        window.settle(tag, multiple, |tag, _| {
            counts.nacked += 1;
            record.exempt.insert(first_sequence + tag - 1);
        })?;
        Ok(())
    }

    fn on_other(&mut self, call: &AMQPClass, turn: &mut Turn<'_>) -> Result<(), ClientFault> {
        match call {
            AMQPClass::Tx(tx::AMQPMethod::CommitOk(_)) => self.on_commit(turn),
            AMQPClass::Channel(channel::AMQPMethod::Flow(flow)) => {
                self.paused = !flow.active;
                turn.tally.counts.holds += u64::from(self.paused);
                obey_flow(turn.out, self.channel, flow.active);
            }
            AMQPClass::Channel(channel::AMQPMethod::CloseOk(_)) => {
                self.stage = Stage::Done;
                turn.tally.counts.producers_done += 1;
            }
            other => {
                let got = format!("{other:?}");
                return Err(ClientFault::unexpected(got, "an answer to a publish"));
            }
        }
        Ok(())
    }

    fn on_commit(&mut self, turn: &mut Turn<'_>) {
        let Answers::Transactions(transaction) = &mut self.answers else {
            return;
        };
        for published_ns in transaction.committed() {
            turn.tally.counts.confirmed += 1;
            let latency_ns = turn.now_ns.saturating_sub(published_ns);
            turn.tally.confirm_latency.record(latency_ns);
        }
        turn.tally.last.confirmed_ns = turn.now_ns;
    }

    /// The content of a returned message begins.
    pub(crate) fn on_header(&mut self) {
        self.return_begins = true;
    }

    pub(crate) fn on_body(&mut self, piece: &[u8]) {
        // The first piece tells which message came back; the others are dropped.
        if !std::mem::take(&mut self.return_begins) {
            return;
        }
        let mark = self.identity.mark;
        if let Some(stamp) = Stamp::read(piece).filter(|stamp| stamp.identity.mark == mark) {
            self.record.exempt.insert(stamp.identity.sequence);
        }
    }

    /// Publishes whose answer is outstanding.
    fn awaited(&self) -> u64 {
        match &self.answers {
            Answers::None => 0,
            Answers::Confirms(window) => window.open(),
            Answers::Transactions(transaction) => transaction.open(),
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// What was published; what the broker gave no word on need not arrive.
    pub(crate) fn into_record(mut self) -> PublishRecord {
        let unanswered = self.awaited();
        match &self.answers {
            Answers::None => {}
            Answers::Confirms(window) => {
                for tag in window.open_tags() {
                    self.record.exempt.insert(self.first_sequence + tag - 1);
                }
            }
            Answers::Transactions(_) => {
                let end = self.identity.sequence;
                for sequence in end - unanswered..end {
                    self.record.exempt.insert(sequence);
                }
            }
        }
        PublishRecord {
            producer: self.identity.producer,
            first_sequence: self.first_sequence,
            published: self.record,
            unanswered,
        }
    }
}

/// A producer's account of what it did.
#[derive(Debug)]
pub(crate) struct PublishRecord {
    pub(crate) producer: u16,
    pub(crate) first_sequence: u64,
    pub(crate) published: Published,
    /// Publishes that the broker gave no word on.
    pub(crate) unanswered: u64,
}

#[cfg(test)]
#[path = "publisher_tests.rs"]
mod tests;
