//! Conformance: what AMQP 0-9-1 and RabbitMQ's documentation promise, one behaviour a test.
//! The same suite can be pointed at a RabbitMQ by SLUICEMQ_TEST_AMQP and SLUICEMQ_TEST_HTTP; where
//! this broker wants to differ, `differences.yaml` names the test and the reason.

mod basic;
mod channel;
mod confirm;
mod connection;
mod exchange;
mod management;
mod nowait;
mod own;
mod queue;
mod rights;
mod tx;
