//! What the system asks of the process: stop (TERM, INT), reload (HUP).

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The process's signals, caught from the moment this exists.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// A wish of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// End in good order.
    Stop,
    /// Read the configuration again.
    Reload,
}

impl Signals {
    /// Starts to catch them. Must be called within a tokio runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next wish. Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.terminate.recv() => Wish::Stop,
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.hang_up.recv() => Wish::Reload,
        }
    }

    /// A wish to stop; reloads are passed over.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != Wish::Stop {}
    }
}

/// How a stop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained<T> {
    /// In good order, with this result.
    Wholly(T),
    /// Cut short because the time was up.
    OutOfTime,
    /// Cut short because the operator asked a second time.
    Impatient,
}

/// Waits for `work` to end, for at most `patience`, or until `again` is ready.
pub(crate) async fn drain<T>(
    work: impl Future<Output = T>,
    again: impl Future<Output = ()>,
    patience: Duration,
) -> Drained<T> {
    tokio::select! {
        // What is done is done, even if the time is up in the same moment.
        biased;
        result = work => Drained::Wholly(result),
        () = again => Drained::Impatient,
        () = tokio::time::sleep(patience) => Drained::OutOfTime,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn work_that_ends_is_drained_wholly() {
        let work = async {
            tokio::time::sleep(PATIENCE - Duration::from_millis(1)).await;
            7
        };
        assert_eq!(drain(work, pending(), PATIENCE).await, Drained::Wholly(7));
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_cut_short_when_the_time_is_up() {
        let began = tokio::time::Instant::now();
        assert_eq!(
            drain(pending::<()>(), pending(), PATIENCE).await,
            Drained::OutOfTime
        );
        assert_eq!(began.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_wish_cuts_work_short_at_once() {
        let began = tokio::time::Instant::now();
        assert_eq!(
            drain(pending::<()>(), ready(()), PATIENCE).await,
            Drained::Impatient
        );
        assert!(began.elapsed().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn no_patience_still_lets_finished_work_count() {
        assert_eq!(
            drain(ready(1), ready(()), Duration::ZERO).await,
            Drained::Wholly(1)
        );
    }
}
