//! The user's Ctrl-C, as many times as it comes.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interrupts and termination requests; without signals in a process that cannot have any.
pub(crate) struct Interrupt {
    interrupts: Option<Signal>,
    terminations: Option<Signal>,
    came: bool,
}

impl Interrupt {
    pub(crate) fn listen() -> Self {
        Self {
            interrupts: signal(SignalKind::interrupt()).ok(),
            terminations: signal(SignalKind::terminate()).ok(),
            came: false,
        }
    }

    /// Returns once per signal.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            () = next(&mut self.interrupts) => {}
            () = next(&mut self.terminations) => {}
        }
        self.came = true;
    }

    /// Whether any came so far.
    pub(crate) fn came(&self) -> bool {
        self.came
    }
}

async fn next(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => {
            if signals.recv().await.is_none() {
                std::future::pending().await
            }
        }
        None => std::future::pending().await,
    }
}
