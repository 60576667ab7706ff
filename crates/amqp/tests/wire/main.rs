//! The codec against real clients' frames, against `amq-protocol`, and against rubbish.

#[path = "../../fuzz/checks.rs"]
mod checks;
mod corpus;
mod frames;
mod oracle;
mod robustness;
mod strategies;
mod values;
