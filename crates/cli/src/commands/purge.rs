//! Emptying queues.

use clap::Args;
use management_api::{Client, api_path};

use crate::arguments::Named;
use crate::failure::{Failure, Result};
use crate::progress;
use crate::shell::Shell;

/// Removes all ready messages of a queue.
#[derive(Args, Debug)]
pub(crate) struct Purge {
    #[command(flatten)]
    named: Named,
}

impl Purge {
    pub(crate) fn run(&self, shell: &Shell) -> Result<()> {
        let name = self.named.get();
        let client = shell.client()?;
        let path = api_path(["queues", shell.vhost(), name]);
        let failed = |error| Failure::from(error).while_doing(&format!("purge queue '{name}'"));
        let before = ready(client, &path).map_err(failed)?;
        // One request, which the broker works on in slices; long ones show that they go on.
        let bar = progress::waiting(&format!("purging {before} messages"), shell.quiet());
        let purged = client.delete(&format!("{path}/contents"));
        bar.finish_and_clear();
        purged.map_err(failed)?;
        shell.say(format!("queue '{name}': purged of {before} messages"));
        Ok(())
    }
}

fn ready(client: &Client, path: &str) -> Result<u64, management_api::ClientError> {
    let queue = client.get(path)?;
    Ok(queue["messages_ready"].as_u64().unwrap_or_default())
}
