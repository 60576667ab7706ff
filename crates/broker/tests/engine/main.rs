//! The engine without a socket: sessions and channels called directly, what leaves collected.

mod client;
mod durability;
mod messages;
