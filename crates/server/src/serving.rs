//! What serves: one task for each open listener, told to stop together.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Where the listeners are; `None` is off. Prints as the line that scripts wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) amqp: Option<SocketAddr>,
    pub(crate) amqps: Option<SocketAddr>,
    pub(crate) management: Option<SocketAddr>,
    pub(crate) management_tls: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let told = |address: Option<SocketAddr>| {
            address.map_or_else(|| "off".to_owned(), |address| address.to_string())
        };
        let [amqp, management, metrics] = [self.amqp, self.management, self.metrics].map(told);
        write!(
            f,
            "ready amqp={amqp} management={management} metrics={metrics}"
        )?;
        // At the end and only where there is one, since scripts read the line by its first words.
        let encrypted = [
            ("amqps", self.amqps),
            ("management_tls", self.management_tls),
        ];
        for (name, address) in encrypted {
            if let Some(address) = address {
                write!(f, " {name}={address}")?;
            }
        }
        Ok(())
    }
}

/// The tasks of the open listeners.
#[derive(Default)]
pub(crate) struct Serving {
    tasks: JoinSet<(&'static str, io::Result<()>)>,
    shutdown: CancellationToken,
}

impl Serving {
    /// Serves the listener of this key with a future that ends when its token is cancelled.
    pub(crate) fn add<F>(&mut self, key: &'static str, serve: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let serving = serve(self.shutdown.clone());
        self.tasks.spawn(async move { (key, serving.await) });
    }

    /// Waits for a listener that ends by itself, which none should; for ever if none does.
    pub(crate) async fn ended(&mut self) -> Failure {
        let Some(ended) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        match ended {
            Ok((key, Ok(()))) => Failure::Served {
                key,
                why: "it returned".to_owned(),
            },
            Ok((key, Err(error))) => Failure::Served {
                key,
                why: error.to_string(),
            },
            Err(error) => Failure::Served {
                key: "listeners",
                why: error.to_string(),
            },
        }
    }

    /// Tells all listeners to stop and waits until their connections have ended.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok((_, Ok(()))) => {}
                Ok((key, Err(error))) => {
                    tracing::warn!(key, %error, "a listener did not end well");
                }
                Err(error) => tracing::warn!(%error, "a listener did not end well"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_names_every_listener() {
        let none = Addresses::default();
        assert_eq!(
            none.to_string(),
            "ready amqp=off management=off metrics=off"
        );
        let some = Addresses {
            amqp: "[::]:5672".parse().ok(),
            management: "127.0.0.1:15672".parse().ok(),
            ..none
        };
        assert_eq!(
            some.to_string(),
            "ready amqp=[::]:5672 management=127.0.0.1:15672 metrics=off"
        );
        let encrypted = Addresses {
            amqps: "[::]:5671".parse().ok(),
            ..some
        };
        assert_eq!(
            encrypted.to_string(),
            "ready amqp=[::]:5672 management=127.0.0.1:15672 metrics=off amqps=[::]:5671"
        );
    }

    #[tokio::test]
    async fn all_listeners_are_told_to_stop_and_waited_for() {
        let ended = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut serving = Serving::default();
        for key in ["listeners.amqp", "listeners.management"] {
            let ended = ended.clone();
            serving.add(key, |shutdown| async move {
                shutdown.cancelled().await;
                tokio::task::yield_now().await;
                ended.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                Ok(())
            });
        }
        serving.stop().await;
        assert_eq!(ended.load(std::sync::atomic::Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_listener_that_ends_by_itself_is_named() {
        let mut serving = Serving::default();
        serving.add("listeners.amqp", |shutdown| async move {
            shutdown.cancelled().await;
            Ok(())
        });
        serving.add("listeners.management", |_| async {
            Err(io::Error::other("torn"))
        });
        let failure = serving.ended().await;
        assert_eq!(failure.to_string(), "`listeners.management` ended: torn");
        assert_eq!(failure.exit_code(), 70);
    }
}
