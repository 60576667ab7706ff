//! The running node: what everything else of this crate reaches through.
//!
//! Owns the maps name → handle and the services; decides nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use broker_core::metadata::{
    ConnectionId, MetadataChange, MetadataEvent, Outcome, QueueGone, QueueId, QueueRecord,
};
use broker_core::queue::{ReturnCause, TimedOut, TimeoutAction};
use broker_core::refusal::Tenant;
use broker_core::settings::QueueKind;
use broker_core::{ExchangeName, Refusal, VhostName};
use dashmap::DashMap;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use storage::{Location, Run, Storage, StoreId, Tier};

use crate::ages::Ages;
use crate::content::{Content, LoadedBlob};
use crate::counters::Counters;
use crate::dead_letterer;
use crate::delayed;
use crate::disk_space::DiskSpace;
use crate::files::Files;
use crate::firehose::{self, Firehose};
use crate::flow::Flow;
use crate::flow::memory::QueueMemory;
use crate::groups::Groups;
use crate::histories::Histories;
use crate::holder::Holder;
use crate::leftovers::Leftovers;
use crate::metadata_store::MetadataStore;
use crate::observe::deaths::DeathLog;
use crate::observe::events::Events;
use crate::observe::incidents::{Incident, IncidentKind, Incidents};
use crate::observe::traffic::NodeTraffic;
use crate::options::BrokerOptions;
use crate::pressure::Pressure;
use crate::queue::{After, Lane, Queue};
use crate::recovery;
use crate::replication::Replication;
use crate::replies::Replies;
use crate::session::{SessionOptions, SessionShared};
use crate::signals::Signal;
use crate::tenants::in_hand::InHandLimits;
use crate::tenants::{ConnectionRates, PublishRates};
use crate::timers::Timers;
use crate::warming::Warming;

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
    pub(crate) connection_rates: ConnectionRates,
    pub(crate) publish_rates: PublishRates,
    pub(crate) in_hand: InHandLimits,
    pub(crate) pressure: Pressure,
    pub(crate) flow: Flow,
    pub(crate) timers: Arc<Timers>,
    pub(crate) files: Files,
    pub(crate) replies: Replies,
    pub(crate) histories: Histories,
    pub(crate) firehose: Firehose,
    pub(crate) counters: Counters,
    pub(crate) failure: crate::failure::Failure,
    pub(crate) traffic: NodeTraffic,
    pub(crate) events: Events,
    pub(crate) incidents: Incidents,
    pub(crate) death_log: DeathLog,
    /// Queues whose dead letters are held.
    holding_dead_letters: Mutex<FxHashSet<QueueId>>,
    pub(crate) warming: Warming,
    pub(crate) disk_space: DiskSpace,
    pub(crate) ages: Ages,
    pub(crate) leftovers: Leftovers,
    /// The cluster, if the node is part of one.
    pub(crate) replication: Option<Replication>,
    /// Queues with lower numbers were heard of on this node; they are there or were deleted.
    pub(crate) queues_heard_of: AtomicU64,
    ids: AtomicU64,
}

impl Node {
    pub(crate) fn new(me: Weak<Node>, options: BrokerOptions, storage: Storage) -> Self {
        let flow = Flow::new(options.flow, options.levers.clone());
        let replication = options.cluster.clone().map(Replication::new);
        let asker = options.cluster.as_ref().map(|cluster| cluster.node);
        let metadata = MetadataStore::new(options.fresh_metadata(), me.clone(), asker);
        // Numbers are unique in the cluster: the upper bits are the node's.
        let first_id = asker.unwrap_or(0) << 48 | 1;
        Self {
            me,
            options,
            storage,
            metadata,
            groups: Groups::default(),
            queues: DashMap::new(),
            sessions: DashMap::new(),
            connection_rates: ConnectionRates::default(),
            publish_rates: PublishRates::default(),
            in_hand: InHandLimits::default(),
            pressure: Pressure::default(),
            flow,
            timers: Arc::default(),
            files: Files::default(),
            replies: Replies::default(),
            histories: Histories::default(),
            firehose: Firehose::default(),
            counters: Counters::default(),
            failure: crate::failure::Failure::default(),
            traffic: NodeTraffic::default(),
            events: Events::default(),
            incidents: Incidents::default(),
            death_log: DeathLog::default(),
            holding_dead_letters: Mutex::default(),
            warming: Warming::default(),
            disk_space: DiskSpace::default(),
            ages: Ages::default(),
            leftovers: Leftovers::default(),
            replication,
            queues_heard_of: AtomicU64::new(0),
            ids: AtomicU64::new(first_id),
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
        self.metadata
            .propose(change)
            .await
            .unwrap_or_else(|_| Err(self.failure.refusal()))
    }

    /// Acts on what followed from a committed change.
    pub(crate) fn on_events(&self, events: &[MetadataEvent]) {
        for event in events {
            self.traffic.on_event(event);
            self.events.metadata(event);
            match event {
                MetadataEvent::QueueDeclared {
                    record,
                    created: true,
                } => {
                    // Its time without use begins to count.
                    self.declared(self.new_queue(record)).awake(self);
                    self.retry_dead_letters(&record.vhost);
                }
                MetadataEvent::QueueDeleted { record, .. } => self.remove_queue(record.id),
                MetadataEvent::QueueReconfigured { record } => {
                    if let Some(queue) = self.queue(record.id) {
                        queue.reconfigure(self, &record.settings);
                        queue.retry_dead_letters(self);
                    }
                }
                MetadataEvent::Bound {
                    vhost,
                    binding,
                    created: true,
                } => {
                    self.histories.tell(self, vhost, binding);
                    self.retry_dead_letters(vhost);
                }
                MetadataEvent::ExchangeDeclared {
                    record,
                    created: true,
                } => {
                    if let Some(store) = delayed::store(self, record) {
                        self.declared(store).awake(self);
                    }
                    self.retry_dead_letters(&record.vhost);
                }
                MetadataEvent::ExchangeDeleted { record, .. } => {
                    self.histories.forget(&record.vhost, &record.name);
                    if let Some(store) = record.delay_store {
                        self.remove_queue(store);
                    }
                }
                MetadataEvent::UserDeleted { user } => {
                    let refusal = Refusal::UserDeleted { user: user.clone() };
                    self.close_sessions(refusal, |session| session.options.user == *user);
                    self.in_hand_limits_changed(&Tenant::User(user.clone()));
                }
                MetadataEvent::UserLimitsChanged { user } => {
                    self.in_hand_limits_changed(&Tenant::User(user.clone()));
                }
                MetadataEvent::VhostLimitsChanged { vhost } => {
                    self.in_hand_limits_changed(&Tenant::Vhost(vhost.clone()));
                }
                MetadataEvent::VhostTracing { .. } => {
                    self.firehose.adjust(&self.metadata.read());
                }
                MetadataEvent::VhostDeleted { vhost } => {
                    self.firehose.adjust(&self.metadata.read());
                    self.flow.memory.forget_vhost(vhost);
                    let refusal = Refusal::VhostDeleted {
                        vhost: vhost.clone(),
                    };
                    self.close_sessions(refusal, |session| session.options.vhost == *vhost);
                    self.in_hand_limits_changed(&Tenant::Vhost(vhost.clone()));
                }
                _ => {}
            }
        }
    }

    /// A queue is declared. Messages for it may be here already.
    pub(crate) fn declared(&self, queue: Queue) -> Arc<Queue> {
        let queue = Arc::new(queue);
        let Some(replication) = &self.replication else {
            self.publish_queue(queue.clone());
            return queue;
        };
        let checkpoint = replication.claim(queue.store()).unwrap_or_default();
        recovery::restore_queue(self, &queue, checkpoint);
        replication.take_early(queue.id, |batches| {
            for early in batches {
                let kept = recovery::restore_batch(self, &early, &mut |target| {
                    (target == queue.id.0).then(|| queue.clone())
                });
                if let Err(error) = kept {
                    tracing::error!(queue = %queue.name, %error, "a batch cannot be read");
                }
            }
            self.publish_queue(queue.clone());
        });
        queue
    }

    /// Makes the store of a delayed exchange; nobody finds it yet.
    pub(crate) fn new_store(&self, record: &QueueRecord, exchange: ExchangeName) -> Queue {
        let mut store = self.new_queue(record);
        store.holds_for = Some(exchange);
        store
    }

    /// Makes the live queue of a record; nobody finds it yet.
    pub(crate) fn new_queue(&self, record: &QueueRecord) -> Queue {
        let memory = QueueMemory::new(&self.flow.memory, &record.vhost);
        Queue::new(record, self.lane_of(record), memory)
    }

    /// Dead letters of a queue are held, or are not any more.
    pub(crate) fn dead_letters_held(&self, queue: QueueId, held: bool) {
        let mut holding = self.holding_dead_letters.lock();
        match held {
            true => holding.insert(queue),
            false => holding.remove(&queue),
        };
    }

    /// Something was declared or bound in a vhost: dead letters that are held may go now.
    fn retry_dead_letters(&self, vhost: &VhostName) {
        let holding: Vec<QueueId> = self.holding_dead_letters.lock().iter().copied().collect();
        for queue in holding.into_iter().filter_map(|id| self.queue(id)) {
            if queue.vhost == *vhost {
                queue.retry_dead_letters(self);
            }
        }
    }

    fn lane_of(&self, record: &QueueRecord) -> Lane {
        if let Some(away) = self.away_lane(record) {
            return away;
        }
        match (record.kind, record.durable) {
            (QueueKind::Quorum, _) => Lane::Group(record.group % self.options.groups + 1),
            (_, true) => Lane::Group(crate::groups::LOCAL_LANE),
            (_, false) => Lane::Inline,
        }
    }

    /// The lane to the node that a classic queue lives on, if that is another one.
    fn away_lane(&self, record: &QueueRecord) -> Option<Lane> {
        let replication = self.replication.as_ref()?;
        if record.kind == QueueKind::Quorum || record.home == replication.core_node() {
            return None;
        }
        let mut others = self.other_nodes().into_iter();
        let lane = others.position(|node| node.0 == record.home.0)?;
        Some(Lane::Away(self.options.groups + 1 + lane as u32))
    }

    /// Something happened in a queue that an operator may want to look into.
    pub(crate) fn incident(&self, queue: &Queue, kind: IncidentKind) {
        let incident = Incident::new(queue, kind);
        self.events.incident(&incident);
        self.incidents.happened(incident);
    }

    /// The queue is there for everybody.
    pub(crate) fn publish_queue(&self, queue: Arc<Queue>) {
        self.heard_of_queues_below(queue.id.0 + 1);
        self.queues.insert(queue.id, queue);
    }

    pub(crate) fn heard_of_queues_below(&self, number: u64) {
        self.queues_heard_of.fetch_max(number, Ordering::AcqRel);
    }

    pub(crate) fn remove_queue(&self, id: QueueId) {
        let Some((_, queue)) = self.queues.remove(&id) else {
            return;
        };
        self.dead_letters_held(id, false);
        if queue.holds_for.is_none() {
            let traffic = queue.with_state(|state| state.traffic);
            self.traffic.queue_deleted(queue.kind, traffic);
        }
        queue.close();
        queue.gate.close(self, &queue);
        match queue.lane {
            Lane::Inline => self.storage.paged().drop_store(queue.store()),
            Lane::Group(_) => self.storage.drop_store(queue.store()),
            Lane::Away(_) => {}
        }
    }

    /// Storage has failed, or cannot be read: the node takes no more work.
    pub(crate) fn fail(&self, why: &str) {
        self.failure.fail(why);
        self.close_sessions(self.failure.refusal(), |_| true);
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
        holder.end_hold(self);
        let queues = {
            let mut deliveries = holder.deliveries.lock();
            deliveries.open = false;
            std::mem::take(&mut deliveries.queues)
        };
        let queues = queues.into_iter().filter_map(|id| self.queue(id));
        let gone = queues
            .filter_map(|queue| {
                let mut after = After::default();
                queue.detach(self, holder.id, cause, &mut after);
                self.carry_out(&queue, after)
            })
            .collect();
        self.empty_hands(holder);
        gone
    }

    /// What a queue wanted done once its lock was free. Answers the deletion that was started, for
    /// those who want to wait for it.
    pub(crate) fn carry_out(&self, queue: &Arc<Queue>, after: After) -> Option<Deletion> {
        if !after.trace_copies.is_empty() {
            firehose::publish(self, &queue.vhost, after.trace_copies);
        }
        dead_letterer::dead_letter(self, queue, after.dead_letters);
        if after.room {
            queue.let_in(self);
        }
        for (holder, timed_out, told) in after.timed_out {
            self.incident(queue, told);
            self.on_timeout(&holder, &timed_out);
            self.room_in_hand(&holder);
        }
        self.wake_waiting(&after.full_hands);
        after.gone.map(|why| self.delete_by_broker(queue.id, why))
    }

    fn delete_by_broker(&self, queue: QueueId, why: QueueGone) -> Deletion {
        self.metadata
            .propose(&MetadataChange::RemoveQueue { queue, why })
    }

    /// A consumer kept deliveries for too long.
    fn on_timeout(&self, holder: &Arc<Holder>, timed_out: &TimedOut) {
        let channel = holder.number;
        if holder.session.is_guest() {
            self.guest_timed_out(holder, timed_out.timeout_ms);
        }
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
            self.traffic.connection_closed(session);
            self.events.connection(session, false);
        }
    }

    /// Whether memory has room for a publisher's message to a queue that keeps so many bytes.
    pub(crate) fn has_memory_for(&self, queue: &Queue, resident_bytes: u64, bytes: u64) -> bool {
        let memory = &self.flow.memory;
        let coming_bytes = bytes + self.pressure.staged_bytes();
        !memory.must_look(bytes) || memory.takes(&queue.vhost, resident_bytes, coming_bytes)
    }

    /// Asks for all messages of a queue but the first `keep_bytes` of them to leave memory. Returns
    /// at once, and may be called under the queue's lock; deliveries read them back a stretch at a
    /// time.
    pub(crate) fn page_out(&self, queue: &Queue, keep_bytes: u64) {
        self.storage.page_out(queue.store(), keep_bytes);
    }

    /// Reads an item from its segment, with its neighbours for next time.
    pub(crate) fn read_ahead(
        &self,
        store: StoreId,
        tier: Tier,
        location: &Location,
        ahead: &mut Option<Run>,
    ) -> Option<LoadedBlob> {
        if let Some(bytes) = ahead.as_ref().and_then(|run| run.get(location)) {
            return Some(LoadedBlob::read(bytes));
        }
        match self
            .storage
            .tier(tier)
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
    pub(crate) fn load(&self, store: StoreId, content: &Content) -> Option<LoadedBlob> {
        if let Content::Resident { batch, at, len } = content {
            return Some(LoadedBlob::resident(batch, *at, *len));
        }
        let (tier, location) = content.place()?;
        match self.storage.tier(tier).read(store, location) {
            Ok(bytes) => Some(LoadedBlob::read(bytes)),
            Err(error) => {
                tracing::error!(%store, %error, "a message cannot be read from its segment");
                None
            }
        }
    }
}

/// A deletion under way.
pub(crate) type Deletion = tokio::sync::oneshot::Receiver<Result<Outcome, Refusal>>;
