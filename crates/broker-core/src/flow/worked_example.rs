//! The worked example of the flow-control design, step by step and number by number: a queue with a
//! capacity, a memory limit and messages of 100 KiB, from the first publish to its release.

use super::{
    Admit, CapacityLimits, ChannelHold, Fullness, HoldBounds, HoldEffect, Meter, Overfull, Paging,
    Place, Stage, Turn, Underfull, allowance,
};
use crate::settings::QueueSettings;
use crate::time::Timestamp;

const MESSAGE: u64 = 102_400;
const MIB: u64 = 1 << 20;

struct Scene {
    producers: std::sync::Arc<Meter>,
    consumers: std::sync::Arc<Meter>,
    leaf: std::sync::Arc<Meter>,
    paging: Paging,
    fullness: Fullness,
    logical_bytes: u64,
    messages: u64,
}

impl Scene {
    fn new() -> Self {
        let main = Meter::root(1_024 * MIB);
        let producers = main.child(1_024 * MIB * 60 / 100);
        let consumers = main.child(1_024 * MIB * 40 / 100);
        let settings = QueueSettings {
            capacity_bytes: Some(10_485_760),
            flow_resume_capacity_bytes: Some(8_388_608),
            memory_limit_bytes: Some(5 * MIB),
            ..QueueSettings::default()
        };
        Self {
            leaf: producers.child(5 * MIB),
            producers,
            consumers,
            paging: Paging::new(settings.memory_limit_bytes),
            fullness: Fullness::new(CapacityLimits::of(&settings)),
            logical_bytes: 0,
            messages: 0,
        }
    }

    fn publish(&mut self, count: u64) -> Option<Turn> {
        let mut told = None;
        for _ in 0..count {
            self.logical_bytes += MESSAGE;
            self.messages += 1;
            if self.paging.arrives(MESSAGE) {
                self.leaf.add(MESSAGE);
            }
            told = told.or(self.note());
        }
        told
    }

    fn note(&mut self) -> Option<Turn> {
        self.fullness
            .note(Timestamp(0), self.logical_bytes, self.messages)
    }

    /// Delivers: what was resident moves to the consumers, and what is next is read ahead.
    fn deliver(&mut self, count: u64) {
        for _ in 0..count {
            self.paging.left(MESSAGE);
            self.leaf.move_to(&self.consumers, MESSAGE);
        }
        while self.paging.read_ahead(MESSAGE) {
            self.leaf.add(MESSAGE);
        }
    }

    fn ack(&mut self) -> Option<Turn> {
        self.logical_bytes -= MESSAGE;
        self.messages -= 1;
        self.consumers.sub(MESSAGE);
        self.note()
    }
}

#[test]
fn the_worked_example_holds_number_by_number() {
    let mut scene = Scene::new();
    assert_eq!(scene.producers.limit(), Some(644_245_094), "614.4 MiB");
    assert_eq!(scene.consumers.limit(), Some(429_496_729), "409.6 MiB");

    // Step 1: 35 messages are resident.
    assert_eq!(scene.publish(35), None);
    assert_eq!(scene.logical_bytes, 3_584_000);
    assert_eq!(scene.paging.resident_bytes(), 3_584_000);
    assert_eq!(scene.producers.used(), 3_584_000);

    // Step 2: the 36th would pass 70 %, 3,670,016 bytes, and is paged.
    assert_eq!(scene.publish(1), None);
    assert_eq!(scene.logical_bytes, 3_686_400);
    assert_eq!(scene.paging.resident_bytes(), 3_584_000);
    assert_eq!(scene.paging.paged_messages(), 1);
    assert_eq!(scene.producers.used(), 3_584_000);

    // Step 3: the 102nd is below the capacity.
    assert_eq!(scene.publish(66), None);
    assert_eq!(scene.logical_bytes, 10_444_800);
    assert_eq!(scene.paging.paged_messages(), 67);

    // Step 4: the 103rd is accepted and tips the queue.
    assert_eq!(scene.publish(1), Some(Turn::Overfull));
    assert_eq!(scene.logical_bytes, 10_547_200);
    let limits = scene.fullness.limits().unwrap();
    let line = Overfull {
        bytes: scene.logical_bytes,
        messages: scene.messages,
        limits,
    };
    assert_eq!(
        line.to_string(),
        "QUE-1003 : Overfull : Size : 10,547,200 bytes, Capacity : 10,485,760"
    );

    // Step 6: a consumer with a prefetch of 20 attaches.
    scene.deliver(20);
    assert_eq!(
        scene.paging.resident_bytes(),
        3_584_000,
        "15 stay, 20 are read"
    );
    assert_eq!(scene.consumers.used(), 2_048_000);
    assert_eq!(
        scene.producers.used(),
        3_584_000,
        "less 2,048,000, plus as much"
    );
    assert_eq!(scene.logical_bytes, 10_547_200, "unacked messages count");

    // Step 7: 21 acks do not yet reach the resume capacity.
    for _ in 0..20 {
        assert_eq!(scene.ack(), None);
        scene.deliver(1);
    }
    assert_eq!(scene.ack(), None);
    assert_eq!(scene.logical_bytes, 8_396_800);
    assert!(scene.fullness.is_overfull());

    // Step 8: the 22nd does.
    scene.deliver(1);
    assert_eq!(scene.ack(), Some(Turn::Underfull));
    assert_eq!(scene.logical_bytes, 8_294_400);
    let line = Underfull {
        bytes: scene.logical_bytes,
        messages: scene.messages,
        limits: Some(limits),
    };
    assert_eq!(
        line.to_string(),
        "QUE-1004 : Underfull : Size : 8,294,400 bytes, Resume Capacity : 8,388,608"
    );
    let mut let_in = 0;
    while allowance(
        Some(limits),
        &scene.fullness,
        Admit {
            bytes: scene.logical_bytes,
            messages: scene.messages,
            next_bytes: MESSAGE,
        },
    ) {
        assert_eq!(
            scene.publish(1),
            None,
            "what is let in does not tip the queue"
        );
        let_in += MESSAGE;
    }
    assert_eq!(let_in, 2_150_400);
    assert!(let_in <= 2_191_360);
}

#[test]
fn the_worked_example_of_each_kind_of_client() {
    // 5a: Java is asked to pause; the three messages in its socket are parked.
    let mut java = ChannelHold::new(HoldBounds::default(), true);
    let effects = java.hold(Timestamp(0), 1);
    assert_eq!(
        effects[..],
        [HoldEffect::Enforced(1), HoldEffect::Flow(false)]
    );
    for _ in 0..3 {
        assert_eq!(java.park(MESSAGE, true, true).0, Place::Memory);
        assert!(java.published(Timestamp(1)).is_empty());
    }
    assert_eq!(java.memory_bytes(), 307_200);

    // 5b: Go with confirms and a window of 20 stops by itself.
    let mut go = ChannelHold::new(HoldBounds::default(), false);
    assert_eq!(go.hold(Timestamp(0), 1)[..], [HoldEffect::Enforced(1)]);
    for _ in 0..20 {
        assert_eq!(go.park(MESSAGE, true, true).0, Place::Memory);
    }
    assert_eq!(go.memory_bytes(), 2_048_000);
    assert_eq!(go.stage(), Stage::Held);

    // 5c and 5d: without confirms 40 messages fill the memory part; the next presses the
    // channel, and after 64 MiB on disk nothing more is taken.
    let mut plain = ChannelHold::new(HoldBounds::default(), false);
    plain.hold(Timestamp(0), 1);
    for _ in 0..40 {
        assert_eq!(plain.park(MESSAGE, true, true).0, Place::Memory);
    }
    let (place, effects) = plain.park(MESSAGE, true, true);
    assert_eq!(
        (place, &effects[..]),
        (Place::Disk, &[HoldEffect::Press][..])
    );
    let mut spilled = 1;
    while plain.park(MESSAGE, true, true).0 == Place::Disk {
        spilled += 1;
    }
    assert_eq!(spilled, 64 * MIB / MESSAGE);
    assert!(plain.rejects(1));

    // 9: nobody consumes.
    assert_eq!(
        go.tick(Timestamp(5_000))[..],
        [HoldEffect::Delayed { seconds: 5 }]
    );
    assert_eq!(
        go.tick(Timestamp(10_000))[..],
        [HoldEffect::Delayed { seconds: 10 }]
    );
    assert!(go.time_out(1).is_empty());
    assert_eq!(go.stage(), Stage::Rejecting);
}

#[test]
fn a_shared_body_counts_once_above_the_queues() {
    let main = Meter::root(0);
    let vhost = main.child(0);
    // Leaves of the queues stand beside the tree: each shows what it keeps in full.
    let leaves: Vec<_> = (0..3).map(|_| Meter::root(0)).collect();
    vhost.add(MESSAGE);
    for leaf in &leaves {
        leaf.add(MESSAGE);
    }
    assert_eq!((main.used(), vhost.used()), (MESSAGE, MESSAGE));
    leaves[0].sub(MESSAGE);
    assert_eq!((main.used(), leaves[1].used()), (MESSAGE, MESSAGE));
    leaves[1].sub(MESSAGE);
    leaves[2].sub(MESSAGE);
    vhost.sub(MESSAGE);
    assert_eq!(main.used(), 0);
}
