//! The topology told in stories: see `script` for the words.

mod bindings;
mod exchanges;
mod policies;
mod queues;
mod replicas;
mod routing;
mod script;
mod stored;
mod users;

use script::check;
