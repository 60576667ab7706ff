//! Loads without messages: opening connections, or declaring queues, over and over.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{ClientFault, ClientOptions, Connection};
use crate::clock::now_ns;
use crate::crew::Crew;
use crate::driver::Outcome;
use crate::figures::{LiveCounts, Tally};
use crate::options::{Churn, LoadOptions};
use crate::orders::{Order, Orders};
use crate::topology::{QueueDeclaration, declare_queue, delete_queue};
use crate::uri::Endpoint;

const CHANNEL: u16 = 1;

/// What all workers of a churn share.
pub(crate) struct ChurnPlan {
    pub(crate) kind: Churn,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) client: ClientOptions,
    pub(crate) declaration: QueueDeclaration,
    /// Beginning of the queues' names.
    pub(crate) prefix: String,
    /// Rounds of each worker.
    pub(crate) quotas: Vec<Option<u64>>,
}

impl ChurnPlan {
    pub(crate) fn of(
        kind: Churn,
        load: &LoadOptions,
        endpoints: &[Endpoint],
        client: &ClientOptions,
    ) -> Self {
        let workers = u64::from(load.producers);
        let quota = |worker| {
            load.messages
                .map(|total| total / workers + u64::from(worker < total % workers))
        };
        Self {
            kind,
            endpoints: endpoints.to_vec(),
            client: client.clone(),
            declaration: QueueDeclaration::of(load),
            prefix: load.queue.replace("%d", ""),
            quotas: (0..workers).map(quota).collect(),
        }
    }

    /// Starts one task for each worker.
    pub(crate) fn start(self, orders: &watch::Receiver<Orders>) -> Crew {
        let plan = Arc::new(self);
        let mut tasks = JoinSet::new();
        let mut lives = Vec::new();
        for worker in 0..plan.quotas.len() {
            let live = Arc::new(LiveCounts::default());
            lives.push(Arc::clone(&live));
            let (plan, orders) = (Arc::clone(&plan), orders.clone());
            tasks.spawn(async move {
                let mut worker = Worker {
                    tally: Tally::for_connections(plan.quotas.len()),
                    plan,
                    number: worker,
                    orders,
                    live,
                };
                let fault = worker.run().await.err();
                worker.tally.counts.producers_done = 1;
                worker.live.publish(&worker.tally.counts);
                Outcome {
                    tally: worker.tally,
                    published: Vec::new(),
                    reordered: 0,
                    fault,
                }
            });
        }
        Crew::of_tasks(tasks, lives)
    }
}

struct Worker {
    plan: Arc<ChurnPlan>,
    number: usize,
    orders: watch::Receiver<Orders>,
    tally: Tally,
    live: Arc<LiveCounts>,
}

impl Worker {
    async fn run(&mut self) -> Result<(), ClientFault> {
        let begun = self.orders.wait_for(|orders| orders.publish != Order::Wait);
        if begun.await.is_err() {
            return Ok(());
        }
        match self.plan.kind {
            Churn::Connect => self.connect_rounds().await,
            Churn::Declare => self.declare_rounds().await,
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.plan.endpoints[self.number % self.plan.endpoints.len()]
    }

    fn goes_on(&self) -> bool {
        let orders = *self.orders.borrow();
        let rounds_left = self.plan.quotas[self.number] != Some(self.tally.counts.churned);
        rounds_left && !orders.abandon && orders.publish != Order::Stop
    }

    async fn connect_rounds(&mut self) -> Result<(), ClientFault> {
        while self.goes_on() {
            let began_ns = now_ns();
            let mut connection = Connection::open(self.endpoint(), &self.plan.client).await?;
            connection.open_channel(CHANNEL).await?;
            connection.close().await?;
            self.round_done(began_ns);
        }
        Ok(())
    }

    async fn declare_rounds(&mut self) -> Result<(), ClientFault> {
        let mut connection = Connection::open(self.endpoint(), &self.plan.client).await?;
        connection.open_channel(CHANNEL).await?;
        while self.goes_on() {
            let (prefix, number) = (&self.plan.prefix, self.number);
            let name = format!("{prefix}-{number}-{}", self.tally.counts.churned);
            let began_ns = now_ns();
            declare_queue(&mut connection, CHANNEL, &name, &self.plan.declaration).await?;
            delete_queue(&mut connection, CHANNEL, &name).await?;
            self.round_done(began_ns);
        }
        connection.close().await
    }

    fn round_done(&mut self, began_ns: u64) {
        let now_ns = now_ns();
        self.tally
            .churn_latency
            .record(now_ns.saturating_sub(began_ns));
        self.tally.counts.churned += 1;
        self.tally.last.churned_ns = now_ns;
        self.live.publish(&self.tally.counts);
    }
}
