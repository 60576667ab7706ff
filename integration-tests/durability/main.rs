//! Durability: what was confirmed is there after kill -9, TERM and a long run of messages.
//! Looks at a broker of its own through sockets, processes and the size of its data directory.

mod crash;
mod flood;
mod interrupted;
mod load;
mod oracle;
mod restart;
mod stop;
mod storm;

use std::env;
use std::str::FromStr;

/// A number from the environment, for longer runs than the usual ones.
fn from_environment<T: FromStr>(name: &str, usual: T) -> T {
    let Ok(text) = env::var(name) else {
        return usual;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text} is not a number"))
}
