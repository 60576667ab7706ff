//! Class queue.

use amqp::Table;
use amqp::protocol::queue::AMQPMethod as Queue;
use broker::{BindQueue, DeclareQueue};

use super::{Call, Outcome, exchange_name, queue_name};
use crate::fault::ProtocolFault;
use crate::reply;

pub(super) async fn queue(on: &mut Call<'_>, method: Queue, table: Table) -> Outcome {
    let channel = &mut on.open.channel;
    match method {
        Queue::Declare(declare) => {
            let declared = channel
                .declare_queue(DeclareQueue {
                    queue: queue_name(&declare.queue),
                    passive: declare.passive,
                    durable: declare.durable,
                    exclusive: declare.exclusive,
                    auto_delete: declare.auto_delete,
                    arguments: table,
                })
                .await?;
            on.reply_unless(declare.nowait, || {
                let (messages, consumers) = (declared.message_count, declared.consumer_count);
                reply::declare_queue_ok(declared.queue.as_str(), messages, consumers)
            });
        }
        Queue::Bind(bind) => {
            channel
                .bind_queue(BindQueue {
                    queue: queue_name(&bind.queue),
                    exchange: exchange_name(&bind.exchange),
                    binding_key: bind.routing_key.as_str().to_owned(),
                    arguments: table,
                })
                .await?;
            on.reply_unless(bind.nowait, reply::bind_queue_ok);
        }
        Queue::Unbind(unbind) => {
            channel
                .unbind_queue(BindQueue {
                    queue: queue_name(&unbind.queue),
                    exchange: exchange_name(&unbind.exchange),
                    binding_key: unbind.routing_key.as_str().to_owned(),
                    arguments: table,
                })
                .await?;
            on.reply(&reply::unbind_queue_ok());
        }
        Queue::Purge(purge) => {
            let purged = channel.purge_queue(queue_name(&purge.queue)).await?;
            on.reply_unless(purge.nowait, || reply::purge_ok(purged));
        }
        Queue::Delete(delete) => {
            let name = queue_name(&delete.queue);
            let deleted = channel
                .delete_queue(name, delete.if_unused, delete.if_empty)
                .await?;
            on.reply_unless(delete.nowait, || reply::delete_queue_ok(deleted));
        }
        Queue::DeclareOk(_)
        | Queue::BindOk(_)
        | Queue::UnbindOk(_)
        | Queue::PurgeOk(_)
        | Queue::DeleteOk(_) => return Err(ProtocolFault::UnimplementedMethod.into()),
    }
    Ok(())
}
