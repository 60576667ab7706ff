//! AMQP 0-9-1 on the wire, sans-io: bytes in, values out, and back.
//!
//! Knows frames, methods, content headers, property blocks and field tables as RabbitMQ speaks
//! them. Must not know sockets, tokio, channels' states or queues: callers bring the bytes and
//! carry out what they mean. Frames and bodies are never copied on the way in; the methods that
//! come with every message neither allocate nor go through `amq-protocol`, which decodes the rest.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing))]

mod basic;
mod content_header;
mod decoder;
mod encoder;
mod frame;
mod layout;
mod method;
mod notation;
mod octets;
mod properties;
mod properties_builder;
mod reply_code;
mod table_codec;
mod value;
mod wire;

pub use octets::{ByteString, SHORT_STRING_BYTES_MAX, ShortString, ShortStringTooLong};
pub use table_codec::{TABLE_DEPTH_MAX, TableError};
pub use value::{Table, Value};

pub use properties::{Properties, PropertyError, PropertyScan};
pub use properties_builder::PropertiesBuilder;

pub use basic::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicPublish, BasicReject, BasicReturn,
};
pub use content_header::{BASIC_CLASS_ID, ContentHeader, ContentHeaderFault};
pub use decoder::FrameDecoder;
pub use encoder::{
    Content, ContentByReference, FrameEncoder, HEARTBEAT_FRAME, Splice, encode_ack, encode_method,
    encode_method_with_table, encode_nack, encode_reject,
};
pub use frame::{
    FRAME_END, FRAME_ENVELOPE_BYTES, Frame, FrameFault, FrameKind, PROTOCOL_HEADER, ProtocolHeader,
    Snippet,
};
pub use method::{Method, MethodFault, OtherMethod};
pub use reply_code::{ReplyCode, ReplyScope, reply_text};

/// The other methods' types, as `amq-protocol` defines them.
pub use amq_protocol::protocol;
/// `amq-protocol`'s strings and tables, of which those types are made.
pub use amq_protocol::types as protocol_types;
