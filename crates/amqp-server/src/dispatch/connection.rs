//! Class connection on channel 0 of an open connection.

use amqp::protocol::connection::AMQPMethod as Connection;

use super::Outcome;
use crate::ending::Cause;
use crate::fault::ProtocolFault;
use crate::reply;
use crate::serving::Serving;

impl Serving {
    pub(super) fn connection(&mut self, method: Connection) -> Outcome {
        match method {
            Connection::Close(_) => Err(Cause::ClosedByClient),
            // Passwords are looked at when a connection opens; a fresh one needs no answer but
            // this.
            Connection::UpdateSecret(_) => {
                self.outbox.reply(0, &reply::update_secret_ok());
                Ok(())
            }
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
}
