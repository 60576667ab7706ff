//! One channel of a raw connection: the calls that tests make most, each checked for its right
//! answer. Knows the shape of answers, not what a broker should decide.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::connection::{Close, Connection, Content, Instead, PATIENCE, QUIET};
use crate::request::{self, ConsumerSpec, ExchangeSpec, Publication, QueueSpec};
use crate::wire::{Method, Properties, Table};

/// How often a condition that must come true is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A message handed out by the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The consumer; empty for an answer to basic.get.
    pub consumer_tag: String,
    /// The delivery tag.
    pub tag: u64,
    /// Handed out before.
    pub redelivered: bool,
    /// Exchange of the publish.
    pub exchange: String,
    /// Routing key of the publish.
    pub routing_key: String,
    /// Messages still ready behind this one; only basic.get tells.
    pub ready_behind: Option<u64>,
    /// Properties.
    pub properties: Properties,
    /// Body.
    pub body: Vec<u8>,
    /// Sizes of the body frames.
    pub frame_bytes: Vec<usize>,
}

impl Delivery {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A message that no queue took.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// Reply code.
    pub code: u16,
    /// Reply text.
    pub text: String,
    /// Exchange of the publish.
    pub exchange: String,
    /// Routing key of the publish.
    pub routing_key: String,
    /// Properties.
    pub properties: Properties,
    /// Body.
    pub body: Vec<u8>,
}

/// The answer to queue.declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The queue's name.
    pub name: String,
    /// Messages ready.
    pub ready: u64,
    /// Consumers.
    pub consumers: u64,
}

/// A handle to one channel; copies are the same channel.
#[derive(Clone, Debug)]
pub struct Channel {
    connection: Connection,
    number: u16,
    confirms: Rc<Confirms>,
}

/// Numbers of publishes in confirm mode.
#[derive(Debug, Default)]
struct Confirms {
    selected: Cell<bool>,
    published: Cell<u64>,
    settled: Cell<u64>,
}

impl Channel {
    pub(crate) fn new(connection: Connection, number: u16) -> Channel {
        Channel {
            connection,
            number,
            confirms: Rc::default(),
        }
    }

    /// Its connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends a method.
    #[track_caller]
    pub fn send(&self, method: &Method) {
        self.connection.send(self.number, method);
    }

    /// Waits for one of `names` on this channel.
    #[track_caller]
    pub fn wait_for(&self, names: &[&str]) -> (Method, Option<Content>) {
        self.connection.wait_for(self.number, names)
    }

    /// Sends a method and waits for the one that answers it.
    #[track_caller]
    pub fn call(&self, method: &Method) -> Method {
        self.send(method);
        self.wait_for(&[&format!("{}-ok", method.name)]).0
    }

    /// Sends a method that must end in a close.
    #[track_caller]
    pub fn refused(&self, method: &Method) -> Close {
        self.send(method);
        self.expect_close()
    }

    /// Waits until the broker closes this channel or the connection.
    #[track_caller]
    pub fn expect_close(&self) -> Close {
        self.connection.expect_close(self.number)
    }

    /// A round trip: all that was sent before has been handled.
    #[track_caller]
    pub fn sync(&self) {
        self.call(&request::basic_qos(0));
    }

    /// The orderly end of the channel.
    #[track_caller]
    pub fn close(&self) {
        self.call(&request::channel_close());
    }

    /// Declares a queue.
    #[track_caller]
    pub fn declare(&self, spec: &QueueSpec) -> Declared {
        let answer = self.call(&request::queue_declare(spec));
        Declared {
            name: answer.text(0),
            ready: answer.number(1),
            consumers: answer.number(2),
        }
    }

    /// Declares an exchange.
    #[track_caller]
    pub fn declare_exchange(&self, spec: &ExchangeSpec) {
        self.call(&request::exchange_declare(spec));
    }

    /// Binds a queue.
    #[track_caller]
    pub fn bind(&self, queue: &str, exchange: &str, binding_key: &str) {
        self.bind_with(queue, exchange, binding_key, &Table::default());
    }

    /// Binds a queue with arguments.
    #[track_caller]
    pub fn bind_with(&self, queue: &str, exchange: &str, binding_key: &str, arguments: &Table) {
        self.call(&request::queue_bind(
            queue,
            exchange,
            binding_key,
            arguments,
        ));
    }

    /// Takes a binding away.
    #[track_caller]
    pub fn unbind(&self, queue: &str, exchange: &str, binding_key: &str) {
        self.call(&request::queue_unbind(
            queue,
            exchange,
            binding_key,
            &Table::default(),
        ));
    }

    /// Messages ready in a queue.
    #[track_caller]
    pub fn ready(&self, queue: &str) -> u64 {
        self.declare(&QueueSpec::passive(queue)).ready
    }

    /// Waits until `queue` has just `wanted` messages ready.
    #[track_caller]
    pub fn expect_ready(&self, queue: &str, wanted: u64) {
        let look = || self.ready(queue);
        expect_soon(&format!("messages ready in {queue}"), &wanted, look);
    }

    /// Waits until `queue` has just `wanted` consumers.
    #[track_caller]
    pub fn expect_consumers(&self, queue: &str, wanted: u64) {
        let look = || self.declare(&QueueSpec::passive(queue)).consumers;
        expect_soon(&format!("consumers of {queue}"), &wanted, look);
    }

    /// Deletes a queue and tells how many messages were ready in it.
    #[track_caller]
    pub fn delete(&self, queue: &str) -> u64 {
        self.call(&request::queue_delete(queue)).number(0)
    }

    /// Purges a queue and tells how many messages went.
    #[track_caller]
    pub fn purge(&self, queue: &str) -> u64 {
        self.call(&request::queue_purge(queue)).number(0)
    }

    /// Sends a message.
    #[track_caller]
    pub fn publish(&self, publication: &Publication) {
        if self.confirms.selected.get() {
            self.confirms
                .published
                .set(self.confirms.published.get() + 1);
        }
        self.connection.publish(self.number, publication);
    }

    /// Sends a persistent text to one queue.
    #[track_caller]
    pub fn put(&self, queue: &str, text: &str) {
        let publication = Publication::to_queue(queue, text);
        self.publish(&publication.with(Properties::persistent()));
    }

    /// Sends texts to one queue and waits until they are confirmed; selects confirms if need be.
    #[track_caller]
    pub fn put_all<T: AsRef<str>>(&self, queue: &str, texts: impl IntoIterator<Item = T>) {
        self.confirm_select();
        texts
            .into_iter()
            .for_each(|text| self.put(queue, text.as_ref()));
        let refused: Vec<_> = self
            .outcomes()
            .into_iter()
            .filter(|(_, ack)| !ack)
            .collect();
        assert!(
            refused.is_empty(),
            "expected every publish to be confirmed; nacks: {refused:?}"
        );
    }

    /// Turns confirms on.
    #[track_caller]
    pub fn confirm_select(&self) {
        if !self.confirms.selected.replace(true) {
            self.call(&request::confirm_select());
        }
    }

    /// Waits until every publish since the last call is settled: number and whether it was an ack.
    #[track_caller]
    pub fn outcomes(&self) -> Vec<(u64, bool)> {
        let mut open: Vec<u64> =
            (self.confirms.settled.get() + 1..=self.confirms.published.get()).collect();
        let mut outcomes = Vec::new();
        while !open.is_empty() {
            let (method, _) = self.wait_for(&["basic.ack", "basic.nack"]);
            let (tag, multiple) = (method.number(0), method.bit(1));
            let meant = |number: &u64| *number == tag || (multiple && *number <= tag);
            let settled: Vec<u64> = open.iter().copied().filter(meant).collect();
            assert!(
                !settled.is_empty(),
                "{method:?} settles nothing; open are {open:?}"
            );
            open.retain(|number| !meant(number));
            outcomes.extend(
                settled
                    .into_iter()
                    .map(|number| (number, method.name == "basic.ack")),
            );
        }
        self.confirms.settled.set(self.confirms.published.get());
        outcomes.sort_unstable();
        outcomes
    }

    /// Publishes and waits for the confirm: whether it was an ack.
    #[track_caller]
    pub fn publish_confirmed(&self, publication: &Publication) -> bool {
        self.confirm_select();
        self.publish(publication);
        self.outcomes().iter().all(|(_, ack)| *ack)
    }

    /// The next message that was returned.
    #[track_caller]
    pub fn expect_return(&self) -> Return {
        let (method, content) = self.wait_for(&["basic.return"]);
        let content = content.expect("A return has content.");
        Return {
            code: u16::try_from(method.number(0)).expect("A short."),
            text: method.text(1),
            exchange: method.text(2),
            routing_key: method.text(3),
            properties: content.properties,
            body: content.body,
        }
    }

    /// basic.get with acknowledgement.
    #[track_caller]
    pub fn get(&self, queue: &str) -> Option<Delivery> {
        self.get_by(queue, false)
    }

    /// basic.get that settles at once.
    #[track_caller]
    pub fn take(&self, queue: &str) -> Option<Delivery> {
        self.get_by(queue, true)
    }

    #[track_caller]
    fn get_by(&self, queue: &str, no_ack: bool) -> Option<Delivery> {
        self.send(&request::basic_get(queue, no_ack));
        let (method, content) = self.wait_for(&["basic.get-ok", "basic.get-empty"]);
        let content = content?;
        Some(Delivery {
            consumer_tag: String::new(),
            tag: method.number(0),
            redelivered: method.bit(1),
            exchange: method.text(2),
            routing_key: method.text(3),
            ready_behind: Some(method.number(4)),
            properties: content.properties,
            body: content.body,
            frame_bytes: content.frame_bytes,
        })
    }

    /// basic.get until there is a message.
    #[track_caller]
    pub fn get_soon(&self, queue: &str) -> Delivery {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(delivery) = self.get(queue) {
                return delivery;
            }
            assert!(
                Instant::now() < deadline,
                "expected a message in {queue}; it stays empty"
            );
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// The texts of all messages ready, taken out.
    #[track_caller]
    pub fn take_all(&self, queue: &str) -> Vec<String> {
        std::iter::from_fn(|| self.take(queue))
            .map(|delivery| delivery.text())
            .collect()
    }

    /// Starts a consumer and tells its tag.
    #[track_caller]
    pub fn consume(&self, spec: &ConsumerSpec) -> String {
        self.call(&request::basic_consume(spec)).text(0)
    }

    /// Sets the prefetch of consumers that start later.
    #[track_caller]
    pub fn prefetch(&self, count: u16) {
        self.call(&request::basic_qos(count));
    }

    /// Cancels a consumer.
    #[track_caller]
    pub fn cancel(&self, consumer_tag: &str) {
        self.call(&request::basic_cancel(consumer_tag));
    }

    /// The next delivery.
    #[track_caller]
    pub fn expect_delivery(&self) -> Delivery {
        let (method, content) = self.wait_for(&["basic.deliver"]);
        delivery(&method, content)
    }

    /// The next delivery, if one comes in time.
    #[track_caller]
    pub fn delivery_within(&self, limit: Duration) -> Option<Delivery> {
        let came = self
            .connection
            .wait_within(self.number, &["basic.deliver"], limit);
        came.ok()
            .map(|(method, content)| delivery(&method, content))
    }

    /// The next `count` deliveries.
    #[track_caller]
    pub fn expect_deliveries(&self, count: usize) -> Vec<Delivery> {
        (0..count).map(|_| self.expect_delivery()).collect()
    }

    /// The texts of the next `count` deliveries.
    #[track_caller]
    pub fn expect_texts(&self, count: usize) -> Vec<String> {
        self.expect_deliveries(count)
            .iter()
            .map(Delivery::text)
            .collect()
    }

    /// Checks that nothing is delivered for a while.
    #[track_caller]
    pub fn expect_no_delivery(&self) {
        match self
            .connection
            .wait_within(self.number, &["basic.deliver"], QUIET)
        {
            Err(Instead::Nothing(_)) => {}
            Ok((method, content)) => {
                panic!(
                    "expected no delivery; came: {:?}",
                    delivery(&method, content)
                )
            }
            Err(instead) => panic!("expected no delivery; came: {instead}"),
        }
    }

    /// Waits for a basic.cancel from the broker and tells the consumer tag.
    #[track_caller]
    pub fn expect_cancel(&self) -> String {
        self.wait_for(&["basic.cancel"]).0.text(0)
    }

    /// Settles one delivery.
    #[track_caller]
    pub fn ack(&self, delivery: &Delivery) {
        self.send(&request::basic_ack(delivery.tag, false));
    }

    /// Gives one delivery back to its queue.
    #[track_caller]
    pub fn requeue(&self, delivery: &Delivery) {
        self.send(&request::basic_nack(delivery.tag, false, true));
    }

    /// Rejects one delivery for good.
    #[track_caller]
    pub fn discard(&self, delivery: &Delivery) {
        self.send(&request::basic_reject(delivery.tag, false));
    }
}

fn delivery(method: &Method, content: Option<Content>) -> Delivery {
    let content = content.expect("A delivery has content.");
    Delivery {
        consumer_tag: method.text(0),
        tag: method.number(1),
        redelivered: method.bit(2),
        exchange: method.text(3),
        routing_key: method.text(4),
        ready_behind: None,
        properties: content.properties,
        body: content.body,
        frame_bytes: content.frame_bytes,
    }
}

/// Looks until `look` gives `wanted`.
///
/// # Panics
/// When it does not within the usual patience; tells what it gave last.
#[track_caller]
pub fn expect_soon<T: PartialEq + std::fmt::Debug>(what: &str, wanted: &T, look: impl Fn() -> T) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let came = look();
        if came == *wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{what}: expected {wanted:?}; came: {came:?}"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
}
