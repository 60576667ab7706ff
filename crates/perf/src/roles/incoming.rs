//! Putting a delivery together: its method, its header, the pieces of its body. Keeps no body: its
//! stamp is read and its filler compared as the pieces come.

use crate::body::{Filler, STAMP_BYTES, Stamp};
use crate::verify::Sighting;

/// The delivery that is coming, if any.
#[derive(Debug, Default)]
pub(super) struct Incoming(Option<Partial>);

#[derive(Debug)]
struct Partial {
    arrived: Arrived,
    got_bytes: usize,
}

/// A whole delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) delivery: Delivery,
    pub(super) body_bytes: usize,
    pub(super) stamp: Option<Stamp>,
    /// The body is filler behind its stamp, as far as it was compared.
    pub(super) intact: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) tag: u64,
    pub(super) redelivered: bool,
    pub(super) queue: u32,
    /// Which message of this run it is.
    pub(super) sighting: Option<Sighting>,
}

impl Incoming {
    /// The method came.
    pub(super) fn begin(&mut self, tag: u64, redelivered: bool, queue: u32) {
        let delivery = Delivery {
            tag,
            redelivered,
            queue,
            sighting: None,
        };
        let arrived = Arrived {
            delivery,
            body_bytes: 0,
            stamp: None,
            intact: true,
        };
        self.0 = Some(Partial {
            arrived,
            got_bytes: 0,
        });
    }

    /// The header came; an empty body makes the delivery whole.
    pub(super) fn header(&mut self, body_bytes: u64) -> Option<Arrived> {
        let partial = self.0.as_mut()?;
        partial.arrived.body_bytes = usize::try_from(body_bytes).unwrap_or(usize::MAX);
        self.whole()
    }

    /// A piece of the body came; compared with `filler` if there is one.
    pub(super) fn piece(&mut self, piece: &[u8], filler: Option<&Filler>) -> Option<Arrived> {
        let Partial { arrived, got_bytes } = self.0.as_mut()?;
        if *got_bytes == 0 {
            // The first piece holds the stamp: no frame is smaller than 4 KiB.
            arrived.stamp = Stamp::read(&piece[..piece.len().min(STAMP_BYTES)]);
        }
        if let Some(filler) = filler {
            arrived.intact &= filler.matches(*got_bytes, piece, arrived.body_bytes);
        }
        *got_bytes += piece.len();
        self.whole()
    }

    fn whole(&mut self) -> Option<Arrived> {
        let whole = |partial: &mut Partial| partial.got_bytes >= partial.arrived.body_bytes;
        self.0.take_if(whole).map(|partial| partial.arrived)
    }
}
