//! Class exchange.

use amqp::Table;
use amqp::protocol::exchange::AMQPMethod as Exchange;
use broker::{BindExchange, DeclareExchange};

use super::{Call, Outcome, exchange_name};
use crate::fault::ProtocolFault;
use crate::reply;

pub(super) async fn exchange(on: &mut Call<'_>, method: Exchange, table: Table) -> Outcome {
    let channel = &mut on.open.channel;
    match method {
        Exchange::Declare(declare) => {
            channel
                .declare_exchange(DeclareExchange {
                    exchange: exchange_name(&declare.exchange),
                    exchange_type: declare.kind.as_str().to_owned(),
                    passive: declare.passive,
                    durable: declare.durable,
                    auto_delete: declare.auto_delete,
                    internal: declare.internal,
                    arguments: table,
                })
                .await?;
            on.reply_unless(declare.nowait, reply::declare_exchange_ok);
        }
        Exchange::Delete(delete) => {
            channel
                .delete_exchange(exchange_name(&delete.exchange), delete.if_unused)
                .await?;
            on.reply_unless(delete.nowait, reply::delete_exchange_ok);
        }
        Exchange::Bind(bind) => {
            channel
                .bind_exchange(BindExchange {
                    destination: exchange_name(&bind.destination),
                    source: exchange_name(&bind.source),
                    binding_key: bind.routing_key.as_str().to_owned(),
                    arguments: table,
                })
                .await?;
            on.reply_unless(bind.nowait, reply::bind_exchange_ok);
        }
        Exchange::Unbind(unbind) => {
            channel
                .unbind_exchange(BindExchange {
                    destination: exchange_name(&unbind.destination),
                    source: exchange_name(&unbind.source),
                    binding_key: unbind.routing_key.as_str().to_owned(),
                    arguments: table,
                })
                .await?;
            on.reply_unless(unbind.nowait, reply::unbind_exchange_ok);
        }
        Exchange::DeclareOk(_)
        | Exchange::DeleteOk(_)
        | Exchange::BindOk(_)
        | Exchange::UnbindOk(_) => return Err(ProtocolFault::UnimplementedMethod.into()),
    }
    Ok(())
}
