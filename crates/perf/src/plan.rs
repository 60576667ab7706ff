//! Who does what: queues shared out among producers and consumers, and these among connections.
//! Pure arithmetic; opens nothing.

use crate::options::LoadOptions;
use crate::verify::Share;

/// The whole load, spelled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) queues: Vec<String>,
    /// Each producer's targets, served in turn.
    pub(crate) producers: Vec<Vec<PublishTarget>>,
    /// The queues of each consumer, by number.
    pub(crate) consumers: Vec<Vec<u32>>,
    /// Which messages each queue gets.
    pub(crate) shares: Vec<Vec<Share>>,
    /// How many queues get each message.
    pub(crate) copies: u64,
}

/// Exchange and routing key.
pub(crate) type PublishTarget = (String, String);

impl Plan {
    pub(crate) fn of(load: &LoadOptions) -> Self {
        let queues = load.queue_names();
        let producers = load.publishing_channels() as usize;
        let consumers = share_out(queues.len(), load.consumers as usize);
        if let Some(exchange) = &load.exchange {
            let target = (exchange.clone(), load.routing_key.clone());
            let whole = |producer| Share {
                producer,
                offset: 0,
                stride: 1,
            };
            let shares: Vec<Share> = (0..producers as u16).map(whole).collect();
            return Self {
                producers: vec![vec![target]; producers],
                consumers,
                shares: vec![shares; queues.len()],
                copies: queues.len() as u64,
                queues,
            };
        }
        let of_producers = share_out(queues.len(), producers);
        let mut shares = vec![Vec::new(); queues.len()];
        for (producer, its_queues) in of_producers.iter().enumerate() {
            for (offset, queue) in its_queues.iter().enumerate() {
                shares[*queue as usize].push(Share {
                    producer: producer as u16,
                    offset: offset as u64,
                    stride: its_queues.len() as u64,
                });
            }
        }
        let target = |queue: &u32| (String::new(), queues[*queue as usize].clone());
        Self {
            producers: of_producers
                .iter()
                .map(|its_queues| its_queues.iter().map(target).collect())
                .collect(),
            consumers,
            shares,
            copies: 1,
            queues,
        }
    }

    /// A total split evenly among the producers; the first ones take what does not divide.
    pub(crate) fn quota(&self, total: u64, producer: usize) -> u64 {
        let producers = self.producers.len().max(1) as u64;
        total / producers + u64::from((producer as u64) < total % producers)
    }
}

/// Every queue has a worker, and every worker has a queue, whichever are more.
fn share_out(queues: usize, workers: usize) -> Vec<Vec<u32>> {
    let queues_of = |worker: usize| {
        if workers >= queues {
            return vec![(worker % queues) as u32];
        }
        let all = 0..queues as u32;
        all.skip(worker).step_by(workers).collect()
    };
    (0..workers).map(queues_of).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn plan(flags: &str) -> Plan {
        let words = std::iter::once("perf").chain(flags.split_whitespace());
        Plan::of(&Flags::try_parse_from(words).unwrap().load)
    }

    #[test]
    fn workers_share_queues_when_there_are_more_of_them() {
        assert_eq!(share_out(2, 5), [[0], [1], [0], [1], [0]]);
    }

    #[test]
    fn a_worker_has_several_queues_when_those_are_more() {
        assert_eq!(share_out(5, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(share_out(3, 0), Vec::<Vec<u32>>::new());
    }

    #[test]
    fn without_an_exchange_each_message_goes_to_one_queue() {
        let plan = plan("--queues 3 --queue q%d --producers 2 --consumers 3");
        assert_eq!(plan.copies, 1);
        assert_eq!(plan.producers[0].len(), 2);
        assert_eq!(plan.producers[0][1], (String::new(), "q3".to_owned()));
        let share = Share {
            producer: 0,
            offset: 1,
            stride: 2,
        };
        assert_eq!(plan.shares[2], [share]);
        assert_eq!(plan.consumers, [[0], [1], [2]]);
    }

    #[test]
    fn with_an_exchange_each_queue_gets_every_message() {
        let plan = plan("--exchange x --queues 2 --producers 3");
        assert_eq!(plan.copies, 2);
        assert_eq!(plan.producers[2], [("x".to_owned(), "perf".to_owned())]);
        assert_eq!(plan.shares[0], plan.shares[1]);
        assert_eq!(plan.shares[0].len(), 3);
    }

    #[test]
    fn a_total_is_split_without_a_remainder_lost() {
        let plan = plan("--producers 3");
        let quotas: Vec<u64> = (0..3).map(|producer| plan.quota(11, producer)).collect();
        assert_eq!(quotas, [4, 4, 3]);
    }
}
