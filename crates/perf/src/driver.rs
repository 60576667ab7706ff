//! The loop of one connection: pump its roles, move bytes, hand out frames, count.
//!
//! One task does all for its connection, so nothing is shared per message. Between turns it is
//! woken by the socket, by an exact alarm, by the heartbeat, or by a change of orders.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use amqp::protocol::{AMQPClass, connection};
use amqp::{ContentHeader, Frame, FrameKind, Method};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};

use crate::client::{ClientFault, Connection, WRITE_BYTES_MAX, acknowledge_close, closing_fault};
use crate::clock::{Alarm, now_ns};
use crate::figures::{LiveCounts, Tally};
use crate::orders::Orders;
use crate::roles::publisher::PublishRecord;
use crate::roles::{Role, Turn};

pub(crate) struct Driver {
    connection: Connection,
    /// The role at place `i` uses channel `i + 1`.
    roles: Vec<Role>,
    /// Which role may publish first in the next write.
    first: usize,
    write_batch: u32,
    blocked: bool,
    orders: watch::Receiver<Orders>,
    orders_in_force: Orders,
    tally: Tally,
    live: Arc<LiveCounts>,
    alarm: Option<Alarm>,
    heartbeat: Option<Interval>,
}

/// What a connection's loop leaves behind.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) published: Vec<PublishRecord>,
    pub(crate) reordered: u64,
    pub(crate) fault: Option<ClientFault>,
}

impl Outcome {
    /// Of a connection that did not get as far as its loop.
    pub(crate) fn failed(tally: Tally, fault: ClientFault) -> Self {
        Self {
            tally,
            published: Vec::new(),
            reordered: 0,
            fault: Some(fault),
        }
    }
}

/// Why a turn begins.
enum Woken {
    Bytes,
    Alarm,
    Heartbeat,
    Orders,
}

impl Driver {
    pub(crate) fn new(
        connection: Connection,
        roles: Vec<Role>,
        write_batch: u32,
        orders: watch::Receiver<Orders>,
        tally: Tally,
        live: Arc<LiveCounts>,
    ) -> Self {
        let heartbeat = connection.beat_every().map(|period| {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        let orders_in_force = *orders.borrow();
        Self {
            connection,
            roles,
            first: 0,
            write_batch: write_batch.max(1),
            blocked: false,
            orders,
            orders_in_force,
            tally,
            live,
            alarm: None,
            heartbeat,
        }
    }

    /// Runs until every role is done, the orders say to leave, or something breaks.
    pub(crate) async fn run(mut self) -> Outcome {
        let fault = self.turns().await.err();
        self.live.publish(&self.tally.counts);
        let abandoned = self.orders_in_force.abandon;
        if fault.is_none() && !abandoned {
            // Every role closed its channel in peace; how the connection ends changes no figure.
            let _courtesy = self.connection.close().await;
        }
        let mut published = Vec::new();
        let mut reordered = 0;
        for role in self.roles {
            match role {
                Role::Publisher(publisher) => published.push(publisher.into_record()),
                Role::Consumer(consumer) => reordered += consumer.reordered(),
            }
        }
        Outcome {
            tally: self.tally,
            published,
            reordered,
            fault,
        }
    }

    async fn turns(&mut self) -> Result<(), ClientFault> {
        loop {
            let wake_ns = self.pump(now_ns());
            self.live.publish(&self.tally.counts);
            if self.orders_in_force.abandon || self.roles.iter().all(Role::is_done) {
                return Ok(());
            }
            match self.wait(wake_ns).await? {
                Woken::Bytes => self.dispatch()?,
                Woken::Heartbeat => self.connection.beat()?,
                Woken::Alarm | Woken::Orders => {}
            }
        }
    }

    fn pump(&mut self, now_ns: u64) -> Option<u64> {
        if self.orders.has_changed().unwrap_or(false) {
            self.orders_in_force = *self.orders.borrow_and_update();
        }
        // A write in flight must be out before the next publishes are gathered: else one write
        // would carry more of them than was asked for.
        let may_publish = self.connection.is_flushed();
        let mut wake_ns: Option<u64> = None;
        let mut turn = Turn {
            now_ns,
            orders: self.orders_in_force,
            blocked: self.blocked,
            publishes_left: if may_publish { self.write_batch } else { 0 },
            out: &mut self.connection.out,
            tally: &mut self.tally,
        };
        let (later, earlier) = self.roles.split_at_mut(self.first);
        for role in earlier.iter_mut().chain(later) {
            let at_ns = role.pump(&mut turn);
            wake_ns = [wake_ns, at_ns].into_iter().flatten().min();
            if turn.out.len() >= WRITE_BYTES_MAX {
                break;
            }
        }
        self.first = (self.first + 1) % self.roles.len().max(1);
        wake_ns
    }

    /// Waits for the first reason to begin a turn. Moves bytes at once if it can.
    async fn wait(&mut self, wake_ns: Option<u64>) -> Result<Woken, ClientFault> {
        let may_read = !self.roles.iter().any(Role::is_full);
        let connection = &mut self.connection;
        let at_once = poll_fn(|cx| Poll::Ready(connection.poll_io(cx, may_read))).await;
        if let Poll::Ready(moved) = at_once {
            return moved.map(|()| Woken::Bytes);
        }
        if let Some(wake_ns) = wake_ns {
            let alarm = match &mut self.alarm {
                Some(alarm) => alarm,
                none => none.insert(Alarm::new()?),
            };
            alarm.set(wake_ns)?;
        }
        let Self {
            connection,
            alarm,
            heartbeat,
            orders,
            orders_in_force,
            ..
        } = self;
        let alarm = alarm.as_mut().filter(|_| wake_ns.is_some());
        tokio::select! {
            biased;
            woken = poll_fn(wake_up(connection, may_read, alarm, heartbeat.as_mut())) => woken,
            changed = orders.changed() => {
                *orders_in_force = *orders.borrow_and_update();
                // Without anybody to give orders there is nobody to work for.
                orders_in_force.abandon |= changed.is_err();
                Ok(Woken::Orders)
            }
        }
    }

    fn dispatch(&mut self) -> Result<(), ClientFault> {
        let now_ns = now_ns();
        let Self {
            connection,
            roles,
            tally,
            ..
        } = self;
        connection.heard(now_ns);
        let mut turn = Turn {
            now_ns,
            orders: self.orders_in_force,
            blocked: self.blocked,
            publishes_left: 0,
            out: &mut connection.out,
            tally,
        };
        while let Some(frame) = connection.input.next_frame()? {
            if let Some(closed) = closing_fault(&frame) {
                acknowledge_close(turn.out, &closed);
                return Err(closed);
            }
            match roles.get_mut(usize::from(frame.channel).wrapping_sub(1)) {
                Some(role) => hand_over(&frame, role, &mut turn)?,
                None => on_connection_frame(&frame, &mut turn)?,
            }
        }
        self.blocked = turn.blocked;
        for role in roles {
            role.end_turn(&mut turn);
        }
        Ok(())
    }
}

/// Polls everything that can wake a connection but the orders.
fn wake_up<'a>(
    connection: &'a mut Connection,
    may_read: bool,
    mut alarm: Option<&'a mut Alarm>,
    mut heartbeat: Option<&'a mut Interval>,
) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Woken, ClientFault>> + 'a {
    move |cx| {
        if let Poll::Ready(moved) = connection.poll_io(cx, may_read) {
            return Poll::Ready(moved.map(|()| Woken::Bytes));
        }
        if let Some(alarm) = &mut alarm
            && let Poll::Ready(rung) = alarm.poll_ring(cx)
        {
            return Poll::Ready(rung.map(|()| Woken::Alarm).map_err(ClientFault::from));
        }
        if let Some(heartbeat) = &mut heartbeat
            && heartbeat.poll_tick(cx).is_ready()
        {
            return Poll::Ready(Ok(Woken::Heartbeat));
        }
        Poll::Pending
    }
}

fn hand_over(frame: &Frame<'_>, role: &mut Role, turn: &mut Turn<'_>) -> Result<(), ClientFault> {
    match frame.kind {
        FrameKind::Method => role.on_method(Method::decode(frame.payload)?, turn),
        FrameKind::Header => {
            let header = ContentHeader::decode(frame.payload)?;
            role.on_header(header.body_size, turn);
            Ok(())
        }
        FrameKind::Body => {
            role.on_body(frame.payload, turn);
            Ok(())
        }
        FrameKind::Heartbeat => Ok(()),
    }
}

fn on_connection_frame(frame: &Frame<'_>, turn: &mut Turn<'_>) -> Result<(), ClientFault> {
    if frame.kind != FrameKind::Method {
        return Ok(());
    }
    if let Method::Other(other) = Method::decode(frame.payload)? {
        match other.call {
            AMQPClass::Connection(connection::AMQPMethod::Blocked(_)) => {
                turn.blocked = true;
                turn.tally.counts.holds += 1;
            }
            AMQPClass::Connection(connection::AMQPMethod::Unblocked(_)) => turn.blocked = false,
            _ => {}
        }
    }
    Ok(())
}
