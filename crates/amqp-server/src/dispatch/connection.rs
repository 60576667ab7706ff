//! Class connection on channel 0 of an open connection.

use amqp::protocol::connection::AMQPMethod as Connection;

use super::Outcome;
use crate::ending::Cause;
use crate::fault::ProtocolFault;
use crate::reply;
use crate::serving::Serving;

impl Serving {
    pub(super) async fn connection(&mut self, method: Connection) -> Outcome {
        match method {
            Connection::Close(_) => Err(Cause::ClosedByClient),
            Connection::UpdateSecret(_) => self.update_secret().await,
            Connection::StartOk(_)
            | Connection::SecureOk(_)
            | Connection::TuneOk(_)
            | Connection::Open(_)
            | Connection::CloseOk(_) => Err(ProtocolFault::UnexpectedInRunning.into()),
            Connection::Start(_)
            | Connection::Secure(_)
            | Connection::Tune(_)
            | Connection::OpenOk(_)
            | Connection::Blocked(_)
            | Connection::Unblocked(_)
            | Connection::UpdateSecretOk(_) => Err(ProtocolFault::UnexpectedInRunning.into()),
        }
    }

    /// Passwords are looked at when a connection opens, so that the new one needs no look; what
    /// the user may do is looked at anew.
    // rabbitmq: update-secret
    async fn update_secret(&mut self) -> Outcome {
        self.session.check_vhost_access()?;
        for open in self.channels.all_open() {
            open.channel.drop_unreadable().await;
        }
        self.outbox.reply(0, &reply::update_secret_ok());
        Ok(())
    }
}
