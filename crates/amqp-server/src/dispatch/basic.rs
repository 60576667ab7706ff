//! Class basic without the methods that come with every message.

use amqp::protocol::basic::{self, AMQPMethod as Basic};
use amqp::{BasicGetOk, Table};
use broker::Consume;
use broker_core::{ConsumerTag, Refusal};

use super::{Call, Outcome, queue_name};
use crate::fault::ProtocolFault;
use crate::reply;

pub(super) async fn basic(
    on: &mut Call<'_>,
    method: Basic,
    table: Table,
    payload: &[u8],
) -> Outcome {
    match method {
        // rabbitmq: the global flag is not looked at
        Basic::Qos(qos) => {
            on.open.channel.qos(prefetch_size(payload), qos.prefetch_count)?;
            on.reply(&reply::qos_ok());
            Ok(())
        }
        Basic::Consume(call) => consume(on, call, table).await,
        Basic::Cancel(cancel) => {
            on.open.channel.cancel(cancel.consumer_tag.as_str()).await;
            let ok = || reply::cancel_ok(cancel.consumer_tag.as_str());
            on.reply_unless(cancel.nowait, ok);
            Ok(())
        }
        // rabbitmq: a client that answers our cancel although it must not, cancels
        Basic::CancelOk(cancel) => {
            on.open.channel.cancel(cancel.consumer_tag.as_str()).await;
            Ok(())
        }
        Basic::Get(call) => get(on, &call).await,
        Basic::Recover(recover) => {
            on.open.channel.recover(recover.requeue)?;
            on.reply(&reply::recover_ok());
            Ok(())
        }
        Basic::RecoverAsync(recover) => Ok(on.open.channel.recover(recover.requeue)?),
        Basic::QosOk(_)
        | Basic::ConsumeOk(_)
        | Basic::Return(_)
        | Basic::Deliver(_)
        | Basic::GetOk(_)
        | Basic::GetEmpty(_)
        | Basic::RecoverOk(_)
        // Decoded by hand and carried out before they come here.
        | Basic::Publish(_)
        | Basic::Ack(_)
        | Basic::Reject(_)
        | Basic::Nack(_) => Err(ProtocolFault::UnimplementedMethod.into()),
    }
}

/// The first argument of basic.qos, which `amq-protocol` leaves out.
fn prefetch_size(payload: &[u8]) -> u32 {
    match payload.get(4..8) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

async fn consume(on: &mut Call<'_>, call: basic::Consume, table: Table) -> Outcome {
    let tag = on
        .open
        .channel
        .consume(Consume {
            queue: queue_name(&call.queue),
            consumer_tag: ConsumerTag::new(call.consumer_tag.as_str()),
            no_ack: call.no_ack,
            exclusive: call.exclusive,
            arguments: table,
        })
        .await?;
    // consume-ok comes before the first delivery.
    on.reply_unless(call.nowait, || reply::consume_ok(tag.as_str()));
    on.open.channel.start_consumer(&tag);
    Ok(())
}

async fn get(on: &mut Call<'_>, call: &basic::Get) -> Outcome {
    let Some(message) = on
        .open
        .channel
        .get(queue_name(&call.queue), call.no_ack)
        .await?
    else {
        on.reply(&reply::get_empty());
        return Ok(());
    };
    let answered = message.with_view(|view| {
        let get_ok = BasicGetOk {
            delivery_tag: message.delivery_tag,
            redelivered: message.redelivered,
            exchange: view.exchange,
            routing_key: view.routing_key,
            message_count: message.message_count,
        };
        on.outbox.get_ok(on.number, &get_ok, &view);
    });
    answered.ok_or_else(|| Refusal::Broken {
        what: "a stored message does not read back".into(),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefetch_size_is_read_from_the_payload() {
        assert_eq!(prefetch_size(&[0, 60, 0, 10, 0, 0, 1, 2, 0, 5, 0]), 258);
        assert_eq!(prefetch_size(&[0, 60, 0, 10]), 0);
    }
}
