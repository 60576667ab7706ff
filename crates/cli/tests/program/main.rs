//! The built program against a broker in this process: one story a test.

mod classic;
mod contexts;
mod native;
mod policies;
mod stage;
