//! Clients that people use, unmodified, against the broker: pika and amqplib as scripts, lapin here.
//! Knows where `integration-tests/run` puts the scripts' packages.

mod lapin_client;
mod load_tool;
mod scripts;
