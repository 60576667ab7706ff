//! The connections of a run: opened, their channels prepared, their loops started.

use std::sync::Arc;

use amqp::protocol::{AMQPClass, basic, confirm, tx};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::body::{Filler, RunMark, SizeDraw};
use crate::client::{ClientFault, ClientOptions, Connection};
use crate::clock::{NS_PER_MS, NS_PER_SECOND, NS_PER_US};
use crate::confirms::ConfirmWindow;
use crate::driver::{Driver, Outcome};
use crate::figures::{Counts, LiveCounts, Tally};
use crate::options::LoadOptions;
use crate::orders::Orders;
use crate::plan::Plan;
use crate::random::Random;
use crate::roles::consumer::{Consumer, ConsumerPlan, Intake};
use crate::roles::publisher::{Answers, Publisher, PublisherPlan};
use crate::roles::{Role, Transaction};
use crate::uri::Endpoint;
use crate::verify::Witness;

/// Connections that are opened at the same time: a broker's accept queue is finite.
const CONNECTS_AT_ONCE: usize = 32;

/// What every connection of a run is made from.
pub(crate) struct Materials {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) client: ClientOptions,
    pub(crate) load: LoadOptions,
    pub(crate) plan: Plan,
    pub(crate) mark: RunMark,
    pub(crate) filler: Filler,
    pub(crate) properties: Vec<u8>,
    pub(crate) witness: Arc<dyn Witness>,
}

/// The running connections.
pub(crate) struct Crew {
    pub(crate) tasks: JoinSet<Outcome>,
    live: Vec<Arc<LiveCounts>>,
}

/// Who works on a connection, by number.
#[derive(Clone, Debug)]
enum Workers {
    Producers(Vec<usize>),
    Consumers(Vec<usize>),
}

impl Crew {
    /// Opens all connections and prepares their channels.
    ///
    /// # Errors
    /// The first fault of any connection; the others are dropped.
    pub(crate) async fn assemble(
        materials: Arc<Materials>,
        orders: &watch::Receiver<Orders>,
    ) -> Result<Self, ClientFault> {
        let connections = connections_of(&materials.load, &materials.plan);
        let count = connections.len();
        let (ready, mut readies) = mpsc::channel(count.max(1));
        let gate = Arc::new(Semaphore::new(CONNECTS_AT_ONCE));
        let mut crew = Self {
            tasks: JoinSet::new(),
            live: Vec::with_capacity(count),
        };
        for (number, workers) in connections.into_iter().enumerate() {
            let live = Arc::new(LiveCounts::default());
            crew.live.push(Arc::clone(&live));
            let place = Place { number, workers };
            let materials = Arc::clone(&materials);
            let (orders, ready, gate) = (orders.clone(), ready.clone(), Arc::clone(&gate));
            crew.tasks.spawn(async move {
                let set_up = {
                    let _turn = gate.acquire().await;
                    set_up(&materials, &place).await
                };
                let tally = Tally::for_connections(count);
                match set_up {
                    Err(fault) => Outcome::failed(tally, fault),
                    Ok((connection, roles)) => {
                        // Nobody waits any more only when another connection failed.
                        let _heard = ready.send(()).await;
                        let batch = materials.load.write_batch;
                        Driver::new(connection, roles, batch, orders, tally, live)
                            .run()
                            .await
                    }
                }
            });
        }
        for _ in 0..count {
            tokio::select! {
                _ = readies.recv() => {}
                Some(ended) = crew.tasks.join_next() => return Err(early_end(ended)),
            }
        }
        Ok(crew)
    }

    /// A crew of tasks that were made elsewhere.
    pub(crate) fn of_tasks(tasks: JoinSet<Outcome>, live: Vec<Arc<LiveCounts>>) -> Self {
        Self { tasks, live }
    }

    pub(crate) fn size(&self) -> usize {
        self.live.len()
    }

    /// The sum over all connections.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for live in &self.live {
            sum.add(&live.read());
        }
        sum
    }
}

fn early_end(ended: Result<Outcome, tokio::task::JoinError>) -> ClientFault {
    match ended {
        Ok(outcome) => outcome.fault.unwrap_or(ClientFault::Dropped),
        Err(_panicked) => ClientFault::Dropped,
    }
}

/// Which connection, and who works on it.
struct Place {
    number: usize,
    workers: Workers,
}

fn connections_of(load: &LoadOptions, plan: &Plan) -> Vec<Workers> {
    let numbers = |count: usize| (0..count).collect::<Vec<_>>();
    let consumers = numbers(plan.consumers.len());
    let producers = numbers(plan.producers.len());
    // Consumers come first, so that they stand when the producers begin.
    let consumers = consumers
        .chunks(load.consumers_per_connection as usize)
        .map(|some| Workers::Consumers(some.to_vec()));
    let producers = producers
        .chunks(load.producers_per_connection as usize)
        .map(|some| Workers::Producers(some.to_vec()));
    consumers.chain(producers).collect()
}

async fn set_up(
    materials: &Materials,
    place: &Place,
) -> Result<(Connection, Vec<Role>), ClientFault> {
    let endpoint = &materials.endpoints[place.number % materials.endpoints.len()];
    let mut connection = Connection::open(endpoint, &materials.client).await?;
    let (Workers::Producers(numbers) | Workers::Consumers(numbers)) = &place.workers;
    if numbers.len() > usize::from(connection.channels_max()) {
        let got = format!("a limit of {} channels", connection.channels_max());
        let expected = format!("{} channels on a connection", numbers.len());
        return Err(ClientFault::unexpected(got, expected));
    }
    let mut roles = Vec::with_capacity(numbers.len());
    for (channel, number) in (1..).zip(numbers) {
        connection.open_channel(channel).await?;
        let role = match &place.workers {
            Workers::Producers(_) => {
                prepare_publishing(&mut connection, channel, &materials.load).await?;
                publisher(materials, channel, *number, connection.frame_bytes_max)
            }
            Workers::Consumers(_) => {
                prepare_consuming(&mut connection, channel, &materials.load).await?;
                consumer(materials, channel, *number)
            }
        };
        roles.push(role);
    }
    Ok((connection, roles))
}

async fn prepare_publishing(
    connection: &mut Connection,
    channel: u16,
    load: &LoadOptions,
) -> Result<(), ClientFault> {
    if load.window() > 0 {
        select_confirms(connection, channel).await?;
    }
    if load.tx > 0 {
        let select = AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {}));
        connection.call(channel, &select).await?;
    }
    Ok(())
}

pub(crate) async fn select_confirms(
    connection: &mut Connection,
    channel: u16,
) -> Result<(), ClientFault> {
    let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
    connection
        .call(channel, &AMQPClass::Confirm(select))
        .await?;
    Ok(())
}

async fn prepare_consuming(
    connection: &mut Connection,
    channel: u16,
    load: &LoadOptions,
) -> Result<(), ClientFault> {
    if load.poll || load.ack_every == 0 || load.prefetch == 0 {
        return Ok(());
    }
    // The prefetch flag's range fits sixteen bits.
    set_prefetch(connection, channel, load.prefetch as u16).await
}

pub(crate) async fn set_prefetch(
    connection: &mut Connection,
    channel: u16,
    prefetch_count: u16,
) -> Result<(), ClientFault> {
    let qos = basic::Qos {
        prefetch_count,
        global: false,
    };
    let qos = AMQPClass::Basic(basic::AMQPMethod::Qos(qos));
    connection.call(channel, &qos).await?;
    Ok(())
}

fn publisher(materials: &Materials, channel: u16, number: usize, frame_bytes_max: usize) -> Role {
    let load = &materials.load;
    let answers = match (load.window(), load.tx) {
        (0, 0) => Answers::None,
        (0, size) => Answers::Transactions(Transaction::new(size)),
        (window, _) => Answers::Confirms(ConfirmWindow::new(window)),
    };
    let producers = materials.plan.producers.len() as u64;
    let rate_offset_ns = load.rate.map_or(0, |rate| {
        let interval_ns = NS_PER_SECOND as f64 / rate;
        (interval_ns * number as f64 / producers as f64) as u64
    });
    let quota = load
        .messages
        .map(|total| materials.plan.quota(total, number));
    Role::Publisher(Box::new(Publisher::new(PublisherPlan {
        channel,
        // Options allow no more producers than a stamp can tell apart.
        producer: number as u16,
        mark: materials.mark,
        first_sequence: 0,
        quota,
        answers,
        rate: load.rate,
        rate_offset_ns,
        sizes: SizeDraw::new(load.size.clone(), Random::seeded(number as u64)),
        filler: materials.filler.clone(),
        targets: materials.plan.producers[number].clone(),
        mandatory: load.mandatory,
        properties: materials.properties.clone(),
        frame_bytes_max,
    })))
}

fn consumer(materials: &Materials, channel: u16, number: usize) -> Role {
    let (load, plan) = (&materials.load, &materials.plan);
    let queues = plan.consumers[number]
        .iter()
        .map(|queue| (*queue, plan.queues[*queue as usize].clone()));
    let intake = if load.poll {
        Intake::Poll {
            pause_ns: (load.poll_pause.max(0.0) * NS_PER_MS as f64) as u64,
        }
    } else {
        Intake::Push
    };
    let rate_ns = load
        .consume_rate
        .map_or(0, |rate| (NS_PER_SECOND as f64 / rate) as u64);
    let service_ns = rate_ns.max(load.think.saturating_mul(NS_PER_US));
    let from_the_end = plan.consumers.len() - number;
    let is_slow = (load.slow_consumers).is_none_or(|slow| from_the_end <= slow as usize);
    Role::Consumer(Box::new(Consumer::new(ConsumerPlan {
        channel,
        mark: materials.mark,
        queues: queues.collect(),
        intake,
        ack_every: load.ack_every,
        requeue_every: load.requeue_every,
        requeue_again: load.requeue_again,
        stuck_every: load.stuck_every,
        lag: load.lag as usize,
        service_ns: if is_slow { service_ns } else { 0 },
        filler: load.verify.then(|| materials.filler.clone()),
        witness: Arc::clone(&materials.witness),
    })))
}
