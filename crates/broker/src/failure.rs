//! The end of a node whose storage failed: it takes no more work and says why.

use std::sync::OnceLock;

use broker_core::Refusal;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Failure {
    why: OnceLock<String>,
    failed: Notify,
}

impl Failure {
    /// The first reason stays.
    pub(crate) fn fail(&self, why: &str) {
        if self.why.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the node stops taking work");
        }
        self.failed.notify_waiters();
    }

    /// Returns when the node has failed, with the reason.
    pub(crate) async fn failed(&self) -> String {
        loop {
            let failed = self.failed.notified();
            if let Some(why) = self.why.get() {
                return why.clone();
            }
            failed.await;
        }
    }

    /// What a client is told.
    pub(crate) fn refusal(&self) -> Refusal {
        let why = self
            .why
            .get()
            .map_or("the node is stopping", String::as_str);
        Refusal::Broken { what: why.into() }
    }
}
