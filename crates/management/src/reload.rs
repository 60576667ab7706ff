//! The way to whoever reads the operator's files, and what became of them.
//!
//! The shell owns the files and does the work; here is only asked for it and told of it.

use std::sync::Arc;

use management_api::ReloadStatus;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait; more are answered with what is known.
const REQUESTS_MAX: usize = 16;

/// Asks for a reload and knows what became of the last one. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReloadDoor {
    requests: mpsc::Sender<oneshot::Sender<()>>,
    status: Arc<Mutex<ReloadStatus>>,
}

/// The other end: what is asked for, and where it is told what became of it.
#[derive(Debug)]
pub struct ReloadRequests {
    requests: mpsc::Receiver<oneshot::Sender<()>>,
    status: Arc<Mutex<ReloadStatus>>,
}

/// Both ends.
pub fn reload_door() -> (ReloadDoor, ReloadRequests) {
    let (sender, requests) = mpsc::channel(REQUESTS_MAX);
    let status = Arc::<Mutex<ReloadStatus>>::default();
    let door = ReloadDoor {
        requests: sender,
        status: status.clone(),
    };
    (door, ReloadRequests { requests, status })
}

impl ReloadDoor {
    /// What became of the files.
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().clone()
    }

    /// Has the files read again and tells what became of them.
    pub(crate) async fn reload(&self) -> ReloadStatus {
        let (done, waiting) = oneshot::channel();
        if self.requests.try_send(done).is_ok() {
            // Whoever should answer may be gone: the broker stops.
            let _ = waiting.await;
        }
        self.status()
    }
}

impl ReloadRequests {
    /// The next request; for ever if none comes. Whoever asked is told when the sender is used or
    /// dropped. Cancelling the wait loses nothing.
    pub async fn next(&mut self) -> oneshot::Sender<()> {
        match self.requests.recv().await {
            Some(request) => request,
            None => std::future::pending().await,
        }
    }

    /// Changes what is told.
    pub fn tell(&self, change: impl FnOnce(&mut ReloadStatus)) {
        change(&mut self.status.lock());
    }
}
