//! Work that may take long, done apart from the threads that serve connections.

use crate::error::{ApiError, Result};

/// Runs the work on a thread of its own kind and waits for it.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ApiError::Broken(format!(
            "a request was not worked on: {error}"
        ))),
    }
}
