//! The routes that a channel has found lately. Emptied whenever the metadata changes.

use std::collections::HashMap;
use std::sync::Arc;

use amqp::Properties;
use broker_core::router::{LazyMessage, MessageView as _, RouteRequest, Routed, carbon_copy_keys};
use broker_core::{ExchangeName, Refusal, VhostName};
use smallvec::SmallVec;

use crate::bounds::ROUTES_CACHED_MAX;
use crate::node::Node;
use crate::observe::exchange::ExchangeTraffic;
use crate::route::Route;

/// Exchange and key are chosen by clients: std's hasher withstands floods.
#[derive(Default)]
pub(crate) struct RouteCache {
    version: u64,
    by_exchange: HashMap<Box<str>, HashMap<Box<str>, Arc<Route>>>,
    count: usize,
    /// Most publishers use one exchange and key.
    last: Option<(Box<str>, Box<str>, Arc<Route>)>,
    last_counters: Option<(Box<str>, Arc<ExchangeTraffic>)>,
    routed: Routed,
}

impl RouteCache {
    /// Where a message goes.
    ///
    /// # Errors
    /// The exchange is missing or internal, or a carbon-copy header is no array.
    pub(crate) fn route(
        &mut self,
        node: &Node,
        vhost: &VhostName,
        exchange: &str,
        routing_key: &str,
        properties: Properties<'_>,
    ) -> Result<Arc<Route>, Refusal> {
        self.forget_if_outdated(node);
        let has_headers = properties.has_headers();
        let message = LazyMessage::new(properties);
        let extra_keys = match (has_headers, message.headers()) {
            (true, Some(headers)) => carbon_copy_keys(headers),
            _ => Ok(SmallVec::new()),
        };
        let extra_keys = match extra_keys {
            Ok(keys) => keys,
            Err(fault) => {
                // A fault of the exchange is told first.
                let request = RouteRequest::publish(exchange, routing_key.as_bytes(), &message);
                self.find(node, vhost, &request)?;
                return Err(fault);
            }
        };
        if extra_keys.is_empty()
            && let Some(route) = self.cached(exchange, routing_key)
        {
            self.routed.histories.clear();
            return Ok(route);
        }
        let request = RouteRequest {
            extra_keys: &extra_keys,
            seed: rand::random(),
            ..RouteRequest::publish(exchange, routing_key.as_bytes(), &message)
        };
        let route = self.find(node, vhost, &request)?;
        if self.routed.cacheable && extra_keys.is_empty() {
            self.remember(exchange, routing_key, &route);
        }
        Ok(route)
    }

    /// Exchanges that want to remember the message that was routed last. Allocates nothing when
    /// there are none.
    pub(crate) fn take_histories(&mut self) -> Vec<ExchangeName> {
        self.routed.histories.drain(..).collect()
    }

    fn find(
        &mut self,
        node: &Node,
        vhost: &VhostName,
        request: &RouteRequest<'_>,
    ) -> Result<Arc<Route>, Refusal> {
        let metadata = node.metadata.read();
        metadata.vhost(vhost)?.route(request, &mut self.routed)?;
        drop(metadata);
        let exchange = self.counters(node, vhost, request.exchange);
        let route = Route::routed(node, vhost, &self.routed);
        Ok(Arc::new(route.through_exchange(exchange)))
    }

    /// The counters of an exchange; those of the last one are at hand.
    fn counters(&mut self, node: &Node, vhost: &VhostName, exchange: &str) -> Arc<ExchangeTraffic> {
        if let Some((last, counters)) = &self.last_counters
            && **last == *exchange
        {
            return counters.clone();
        }
        let counters = node.traffic.exchanges.of(vhost, exchange);
        self.last_counters = Some((exchange.into(), counters.clone()));
        counters
    }

    fn forget_if_outdated(&mut self, node: &Node) {
        let version = node.metadata.version();
        if self.version != version {
            self.clear();
            self.version = version;
        }
    }

    fn clear(&mut self) {
        self.by_exchange.clear();
        self.count = 0;
        self.last = None;
        self.last_counters = None;
    }

    fn cached(&mut self, exchange: &str, routing_key: &str) -> Option<Arc<Route>> {
        if let Some((last_exchange, last_key, route)) = &self.last
            && **last_key == *routing_key
            && **last_exchange == *exchange
        {
            return Some(route.clone());
        }
        let route = self.by_exchange.get(exchange)?.get(routing_key)?.clone();
        self.last = Some((exchange.into(), routing_key.into(), route.clone()));
        Some(route)
    }

    fn remember(&mut self, exchange: &str, routing_key: &str, route: &Arc<Route>) {
        if self.count >= ROUTES_CACHED_MAX {
            self.clear();
        }
        self.count += 1;
        let keys = self.by_exchange.entry(exchange.into()).or_default();
        keys.insert(routing_key.into(), route.clone());
        self.last = Some((exchange.into(), routing_key.into(), route.clone()));
    }
}
