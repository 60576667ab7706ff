//! Classes confirm and tx.

use amqp::protocol::confirm::AMQPMethod as Confirm;
use amqp::protocol::tx::AMQPMethod as Tx;

use super::{Call, Outcome};
use crate::fault::ProtocolFault;
use crate::reply;

pub(super) fn confirm(on: &mut Call<'_>, method: &Confirm) -> Outcome {
    match method {
        Confirm::Select(select) => {
            on.open.channel.confirm_select()?;
            on.reply_unless(select.nowait, reply::confirm_ok);
            Ok(())
        }
        Confirm::SelectOk(_) => Err(ProtocolFault::UnimplementedMethod.into()),
    }
}

pub(super) async fn tx(on: &mut Call<'_>, method: &Tx) -> Outcome {
    match method {
        Tx::Select(_) => {
            on.open.channel.tx_select()?;
            on.reply(&reply::tx_select_ok());
        }
        Tx::Commit(_) => {
            if on.open.channel.tx_commit().await? {
                on.reply(&reply::tx_commit_ok());
            }
        }
        Tx::Rollback(_) => {
            on.open.channel.tx_rollback()?;
            on.reply(&reply::tx_rollback_ok());
        }
        Tx::SelectOk(_) | Tx::CommitOk(_) | Tx::RollbackOk(_) => {
            return Err(ProtocolFault::UnimplementedMethod.into());
        }
    }
    Ok(())
}
