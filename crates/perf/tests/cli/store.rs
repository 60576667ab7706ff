//! The stand-in's queues: messages that wait, consumers, and what is not acknowledged.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;

use amqp::{BasicDeliver, Content, FrameEncoder, Properties};

pub(crate) const FRAME_BYTES_MAX: u32 = 131_072;

#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) body: Vec<u8>,
    pub(crate) redelivered: bool,
}

pub(crate) struct Consumer {
    pub(crate) connection: u64,
    pub(crate) channel: u16,
    pub(crate) tag: String,
    pub(crate) no_ack: bool,
    pub(crate) socket: TcpStream,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) ready: VecDeque<Message>,
    pub(crate) consumer: Option<Consumer>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) queues: BTreeMap<String, Queue>,
    pub(crate) published: u64,
    pub(crate) swapped: Option<Message>,
    /// Connection, channel and tag of what is not acknowledged, and its queue.
    pub(crate) unacked: BTreeMap<(u64, u16, u64), (String, Message)>,
    pub(crate) next_tag: u64,
}

/// Consumers vanish, and what they did not acknowledge comes back in front.
pub(crate) fn end_connection(state: &Mutex<State>, number: u64) {
    let mut state = state.lock().unwrap();
    for queue in state.queues.values_mut() {
        queue
            .consumer
            .take_if(|consumer| consumer.connection == number);
    }
    let returning = state.unacked.split_off(&(number, 0, 0));
    let mut returning: Vec<_> = returning.into_iter().collect();
    let others = returning
        .iter()
        .position(|((connection, ..), _)| *connection != number);
    let others = returning.split_off(others.unwrap_or(returning.len()));
    state.unacked.extend(others);
    for (_, (name, mut message)) in returning.into_iter().rev() {
        message.redelivered = true;
        if let Some(queue) = state.queues.get_mut(&name) {
            queue.ready.push_front(message);
        }
    }
    deliver_all(&mut state);
}

pub(crate) fn deliver_all(state: &mut State) {
    let State {
        queues,
        unacked,
        next_tag,
        ..
    } = state;
    for (name, queue) in queues {
        let Some(consumer) = &mut queue.consumer else {
            continue;
        };
        let mut out = Vec::new();
        for message in queue.ready.drain(..) {
            *next_tag += 1;
            let deliver = BasicDeliver {
                consumer_tag: consumer.tag.as_str(),
                delivery_tag: *next_tag,
                redelivered: message.redelivered,
                exchange: "",
                routing_key: name.as_str(),
            };
            let content = Content {
                properties: Properties::empty(),
                body: &message.body,
            };
            FrameEncoder::new(FRAME_BYTES_MAX).deliver(
                &mut out,
                consumer.channel,
                &deliver,
                content,
            );
            if !consumer.no_ack {
                let key = (consumer.connection, consumer.channel, *next_tag);
                unacked.insert(key, (name.clone(), message));
            }
        }
        // A consumer that is gone gets its messages back through `end_connection`.
        let _delivered_or_gone = consumer.socket.write_all(&out);
    }
}
