//! The running node: what everything else of this crate reaches through.
//!
//! Owns the maps name → handle and the services; decides nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use broker_core::Refusal;
use broker_core::exchange::ExchangeKind;
use broker_core::metadata::{
    ConnectionId, MetadataChange, MetadataEvent, Outcome, QueueGone, QueueId, QueueRecord,
};
use broker_core::queue::{ReturnCause, TimedOut, TimeoutAction};
use dashmap::DashMap;
use storage::{Location, Run, Storage, StoreId};

use crate::content::LoadedBlob;
use crate::counters::Counters;
use crate::dead_letterer;
use crate::files::Files;
use crate::groups::Groups;
use crate::histories::Histories;
use crate::holder::Holder;
use crate::metadata_store::MetadataStore;
use crate::observe::traffic::NodeTraffic;
use crate::options::BrokerOptions;
use crate::pressure::Pressure;
use crate::queue::{After, Lane, Queue};
use crate::replies::Replies;
use crate::session::{SessionOptions, SessionShared};
use crate::signals::Signal;
use crate::timers::Timers;

/// Bytes read around a message that lies in a segment, for those that follow it.
const READ_AHEAD_BYTES: usize = 256 << 10;

pub(crate) struct Node {
    pub(crate) me: Weak<Node>,
    pub(crate) options: BrokerOptions,
    pub(crate) storage: Storage,
    pub(crate) metadata: MetadataStore,
    pub(crate) groups: Groups,
    pub(crate) queues: DashMap<QueueId, Arc<Queue>>,
    pub(crate) sessions: DashMap<ConnectionId, Arc<SessionShared>>,
    pub(crate) pressure: Pressure,
    pub(crate) timers: Arc<Timers>,
    pub(crate) files: Files,
    pub(crate) replies: Replies,
    pub(crate) histories: Histories,
    pub(crate) counters: Counters,
    pub(crate) failure: crate::failure::Failure,
    pub(crate) traffic: NodeTraffic,
    ids: AtomicU64,
}

impl Node {
    pub(crate) fn new(me: Weak<Node>, options: BrokerOptions, storage: Storage) -> Self {
        let metadata = MetadataStore::new(options.fresh_metadata());
        Self {
            me,
            options,
            storage,
            metadata,
            groups: Groups::default(),
            queues: DashMap::new(),
            sessions: DashMap::new(),
            pressure: Pressure::default(),
            timers: Arc::default(),
            files: Files::default(),
            replies: Replies::default(),
            histories: Histories::default(),
            counters: Counters::default(),
            failure: crate::failure::Failure::default(),
            traffic: NodeTraffic::default(),
            ids: AtomicU64::new(1),
        }
    }

    /// A number that was not given out since the node started.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn queue(&self, id: QueueId) -> Option<Arc<Queue>> {
        self.queues.get(&id).map(|queue| queue.value().clone())
    }

    /// The live queues, taken out of the map so that no shard stays locked.
    pub(crate) fn all_queues(&self) -> Vec<Arc<Queue>> {
        self.queues
            .iter()
            .map(|queue| queue.value().clone())
            .collect()
    }

    /// The one door for change.
    pub(crate) async fn apply(&self, change: &MetadataChange) -> Result<Outcome, Refusal> {
        // The rules know delayed exchanges, but nothing durable holds their messages: a broker
        // that would lose confirmed ones does not offer the type.
        if let MetadataChange::DeclareExchange { exchange_type, .. } = change
            && **exchange_type == *ExchangeKind::DelayedMessage.name()
        {
            return Err(Refusal::UnknownExchangeType {
                exchange_type: exchange_type.clone(),
            });
        }
        self.metadata
            .propose(change)
            .await
            .unwrap_or_else(|_| Err(self.failure.refusal()))
    }

    /// Acts on what followed from a committed change.
    pub(crate) fn on_events(&self, events: &[MetadataEvent]) {
        for event in events {
            self.traffic.on_event(event);
            match event {
                MetadataEvent::QueueDeclared {
                    record,
                    created: true,
                } => {
                    self.add_queue(record);
                }
                MetadataEvent::QueueDeleted { record, .. } => self.remove_queue(record.id),
                MetadataEvent::QueueReconfigured { record } => {
                    if let Some(queue) = self.queue(record.id) {
                        queue.reconfigure(self, &record.settings);
                    }
                }
                MetadataEvent::Bound {
                    vhost,
                    binding,
                    created: true,
                } => {
                    self.histories.tell(self, vhost, binding);
                }
                MetadataEvent::ExchangeDeleted { record, .. } => {
                    self.histories.forget(&record.vhost, &record.name);
                }
                MetadataEvent::UserDeleted { user } => {
                    let refusal = Refusal::UserDeleted { user: user.clone() };
                    self.close_sessions(refusal, |session| session.options.user == *user);
                }
                MetadataEvent::VhostDeleted { vhost } => {
                    let refusal = Refusal::VhostDeleted {
                        vhost: vhost.clone(),
                    };
                    self.close_sessions(refusal, |session| session.options.vhost == *vhost);
                }
                _ => {}
            }
        }
    }

    /// Makes the live queue of a record.
    pub(crate) fn add_queue(&self, record: &QueueRecord) -> Arc<Queue> {
        let lane = match (record.kind, record.durable) {
            (broker_core::settings::QueueKind::Quorum, _) => {
                Lane::Group(record.group % self.options.groups + 1)
            }
            (_, true) => Lane::Group(crate::groups::LOCAL_LANE),
            (_, false) => Lane::Inline,
        };
        let queue = Arc::new(Queue::new(record, lane));
        self.queues.insert(record.id, queue.clone());
        queue
    }

    fn remove_queue(&self, id: QueueId) {
        let Some((_, queue)) = self.queues.remove(&id) else {
            return;
        };
        let traffic = queue.with_state(|state| state.traffic);
        self.traffic.queue_deleted(queue.kind, traffic);
        queue.close();
        if queue.lane != Lane::Inline {
            self.storage.drop_store(queue.store());
        }
    }

    /// Asks these connections to close.
    pub(crate) fn close_sessions(&self, refusal: Refusal, which: impl Fn(&SessionShared) -> bool) {
        for session in &self.sessions {
            if which(session.value()) {
                session.signals.send(Signal::CloseConnection {
                    refusal: refusal.clone(),
                });
            }
        }
    }

    /// Ends the consumers and deliveries of a channel in all its queues. Queues that lose their
    /// last consumer by it are deleted when this returns.
    pub(crate) async fn detach(&self, holder: &Arc<Holder>, cause: ReturnCause) {
        for gone in self.detach_now(holder, cause) {
            let _ = gone.await;
        }
    }

    fn detach_now(&self, holder: &Arc<Holder>, cause: ReturnCause) -> Vec<Deletion> {
        let queues = {
            let mut deliveries = holder.deliveries.lock();
            deliveries.open = false;
            std::mem::take(&mut deliveries.queues)
        };
        let queues = queues.into_iter().filter_map(|id| self.queue(id));
        queues
            .filter_map(|queue| {
                let mut after = After::default();
                queue.detach(self, holder.id, cause, &mut after);
                self.carry_out(&queue, after)
            })
            .collect()
    }

    /// What a queue wanted done once its lock was free. Answers the deletion that was started, for
    /// those who want to wait for it.
    pub(crate) fn carry_out(&self, queue: &Arc<Queue>, after: After) -> Option<Deletion> {
        dead_letterer::dead_letter(self, queue, after.dead_letters);
        for (holder, timed_out) in after.timed_out {
            self.on_timeout(queue, &holder, &timed_out);
        }
        after.gone.map(|why| self.delete_by_broker(queue.id, why))
    }

    fn delete_by_broker(&self, queue: QueueId, why: QueueGone) -> Deletion {
        self.metadata
            .propose(&MetadataChange::RemoveQueue { queue, why })
    }

    /// A consumer kept deliveries for too long.
    fn on_timeout(&self, queue: &Arc<Queue>, holder: &Arc<Holder>, timed_out: &TimedOut) {
        let channel = holder.number;
        tracing::error!(
            queue = %queue.name, vhost = %queue.vhost, channel, entry = timed_out.entry.0,
            consumer = timed_out.consumer.map(|id| id.0), overdue = timed_out.overdue,
            timeout_ms = timed_out.timeout_ms, action = ?timed_out.action,
            "a delivery was not acknowledged in time"
        );
        if timed_out.action == TimeoutAction::CloseChannel {
            let refusal = Refusal::DeliveryTimedOut {
                channel,
                timeout_ms: timed_out.timeout_ms,
            };
            holder.session.signals.send(Signal::CloseChannel {
                number: channel,
                refusal,
            });
            self.detach_now(holder, ReturnCause::Timeout);
        }
    }

    /// Open connections of the vhost, and of the user.
    pub(crate) fn connection_counts(&self, options: &SessionOptions) -> (u64, u64) {
        let (mut in_vhost, mut by_user) = (0, 0);
        for session in &self.sessions {
            in_vhost += u64::from(session.options.vhost == options.vhost);
            by_user += u64::from(session.options.user == options.user);
        }
        (in_vhost, by_user)
    }

    /// Whether the session may open one more channel.
    pub(crate) fn check_channel_limit(&self, session: &SessionShared) -> Result<(), Refusal> {
        let user = &session.options.user;
        let metadata = self.metadata.read();
        if metadata
            .user_limits(user)
            .is_none_or(|limits| limits.is_empty())
        {
            return Ok(());
        }
        let of_user = self
            .sessions
            .iter()
            .filter(|other| other.options.user == *user);
        let open: usize = of_user.map(|other| other.channels.lock().len()).sum();
        metadata.check_channel(user, open as u64)
    }

    /// Deletes the exclusive queues of a connection that ends.
    pub(crate) async fn end_connection(&self, connection: ConnectionId) {
        if let Err(refusal) = self
            .apply(&MetadataChange::EndConnection { connection })
            .await
        {
            tracing::warn!(connection = connection.0, %refusal,
                "exclusive queues of a closed connection stay");
        }
    }

    pub(crate) fn forget_session(&self, session: &SessionShared) {
        let removed = self.sessions.remove(&session.id).is_some();
        if removed && !session.is_internal() {
            self.traffic.connection_closed();
        }
    }

    /// The place of an item in a segment is free.
    pub(crate) fn release(&self, store: StoreId, places: &[Location]) {
        self.storage.segments().release(store, places);
    }

    /// Reads an item from its segment, with its neighbours for next time.
    pub(crate) fn read_ahead(
        &self,
        store: StoreId,
        location: &Location,
        ahead: &mut Option<Run>,
    ) -> Option<LoadedBlob> {
        if let Some(bytes) = ahead.as_ref().and_then(|run| run.get(location)) {
            return Some(LoadedBlob::read(bytes));
        }
        match self
            .storage
            .segments()
            .read_run(store, location, READ_AHEAD_BYTES)
        {
            Ok(run) => {
                let bytes = run.get(location);
                *ahead = Some(run);
                bytes.map(LoadedBlob::read)
            }
            Err(error) => {
                tracing::error!(%store, %error, "a message cannot be read from its segment");
                None
            }
        }
    }

    /// Finds the bytes of a message outside of a dispatch.
    pub(crate) fn load(
        &self,
        store: StoreId,
        content: &crate::content::Content,
    ) -> Option<LoadedBlob> {
        match content {
            crate::content::Content::Resident { batch, at, len } => {
                Some(LoadedBlob::resident(batch, *at, *len))
            }
            crate::content::Content::Stored(location) => {
                match self.storage.segments().read(store, location) {
                    Ok(bytes) => Some(LoadedBlob::read(bytes)),
                    Err(error) => {
                        tracing::error!(%store, %error, "a message cannot be read from its segment");
                        None
                    }
                }
            }
        }
    }
}

/// A deletion under way.
pub(crate) type Deletion = tokio::sync::oneshot::Receiver<Result<Outcome, Refusal>>;
