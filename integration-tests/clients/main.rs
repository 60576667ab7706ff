//! Clients that people use, unmodified, against the broker: those of Python and Node as scripts, lapin here.
//! Knows where `integration-tests/run` puts the scripts' packages.

mod alarms;
mod amqprs_flow;
mod flow_stories;
mod lapin_client;
mod lapin_flow;
mod lapin_scene;
mod load_tool;
mod more_clients;
mod quorum_consumers;
mod quorum_policies;
mod quorum_rules;
mod reload;
mod scripts;
