//! Both directions against `amq-protocol`, wherever it can represent what we say.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, WriteContext, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, BasicProperties, basic};
use amq_protocol::types::{
    AMQPValue, DecimalValue, FieldArray, FieldTable, ShortString as TheirShortString,
};
use amqp::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicPublish, BasicReject, BasicReturn,
    ContentHeader, FrameDecoder, Method, PropertiesBuilder, Table, Value,
};
use proptest::prelude::*;

use crate::checks;
use crate::strategies::plain_table;

fn short(text: &str) -> TheirShortString {
    TheirShortString::try_new(text).expect("a short text")
}

fn their_value(value: &Value) -> AMQPValue {
    match value {
        Value::Bool(truth) => AMQPValue::Boolean(*truth),
        Value::I8(n) => AMQPValue::ShortShortInt(*n),
        Value::U8(n) => AMQPValue::ShortShortUInt(*n),
        Value::I16(n) => AMQPValue::ShortInt(*n),
        Value::U16(n) => AMQPValue::ShortUInt(*n),
        Value::I32(n) => AMQPValue::LongInt(*n),
        Value::U32(n) => AMQPValue::LongUInt(*n),
        Value::I64(n) => AMQPValue::LongLongInt(*n),
        Value::F32(n) => AMQPValue::Float(*n),
        Value::F64(n) => AMQPValue::Double(*n),
        Value::Decimal { scale, value } => AMQPValue::DecimalValue(DecimalValue {
            scale: *scale,
            value: *value,
        }),
        Value::Timestamp(seconds) => AMQPValue::Timestamp(*seconds),
        Value::LongString(bytes) => AMQPValue::LongString(bytes.as_bytes().to_vec().into()),
        Value::ByteArray(bytes) => AMQPValue::ByteArray(bytes.as_bytes().to_vec().into()),
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(their_value).collect();
            AMQPValue::FieldArray(FieldArray::from(elements))
        }
        Value::Table(table) => AMQPValue::FieldTable(their_table(table)),
        Value::Void => AMQPValue::Void,
    }
}

fn their_table(table: &Table) -> FieldTable {
    let mut theirs = FieldTable::default();
    for (key, value) in table {
        theirs.insert(short(key.as_str().expect("text")), their_value(value));
    }
    theirs
}

fn their_bytes(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(WriteContext::from(Vec::new()))
        .expect("encodes")
        .into_inner()
        .0
}

/// What we encode they read as `theirs`; what they encode from it we read as `ours`.
fn check_method(ours: &Method<'_>, theirs: basic::AMQPMethod) {
    let encoded = checks::encode(ours);
    let theirs = AMQPFrame::Method(1, AMQPClass::Basic(theirs));
    let (_, read_by_them) = parse_frame(encoded.as_slice()).expect("they read it");
    assert_eq!(read_by_them, theirs);
    let bytes = their_bytes(&theirs);
    let (frame, _) = FrameDecoder::new(0)
        .next(&bytes)
        .expect("no fault")
        .expect("whole");
    assert_eq!(Method::decode(frame.payload).as_ref(), Ok(ours));
}

proptest! {
    #[test]
    fn publish_agrees(exchange in ".{0,60}", key in ".{0,60}", mandatory: bool, immediate: bool) {
        let (exchange, routing_key) = (exchange.as_str(), key.as_str());
        let ours = BasicPublish { exchange, routing_key, mandatory, immediate };
        let (exchange, routing_key) = (short(exchange), short(routing_key));
        let theirs = basic::Publish { exchange, routing_key, mandatory, immediate };
        check_method(&Method::BasicPublish(ours), basic::AMQPMethod::Publish(theirs));
    }

    #[test]
    fn deliver_agrees(
        tag in ".{0,60}", delivery_tag: u64, redelivered: bool, exchange in ".{0,60}",
        key in ".{0,60}",
    ) {
        let ours = BasicDeliver {
            consumer_tag: tag.as_str(),
            delivery_tag,
            redelivered,
            exchange: exchange.as_str(),
            routing_key: key.as_str(),
        };
        let theirs = basic::Deliver {
            consumer_tag: short(&tag),
            delivery_tag,
            redelivered,
            exchange: short(&exchange),
            routing_key: short(&key),
        };
        check_method(&Method::BasicDeliver(ours), basic::AMQPMethod::Deliver(theirs));
    }

    #[test]
    fn get_ok_agrees(
        delivery_tag: u64, redelivered: bool, exchange in ".{0,60}", key in ".{0,60}",
        message_count: u32,
    ) {
        let ours = BasicGetOk {
            delivery_tag,
            redelivered,
            exchange: exchange.as_str(),
            routing_key: key.as_str(),
            message_count,
        };
        let theirs = basic::GetOk {
            delivery_tag,
            redelivered,
            exchange: short(&exchange),
            routing_key: short(&key),
            message_count,
        };
        check_method(&Method::BasicGetOk(ours), basic::AMQPMethod::GetOk(theirs));
    }

    #[test]
    fn return_agrees(
        reply_code: u16, text in ".{0,60}", exchange in ".{0,60}", key in ".{0,60}",
    ) {
        let ours = BasicReturn {
            reply_code,
            reply_text: text.as_str(),
            exchange: exchange.as_str(),
            routing_key: key.as_str(),
        };
        let theirs = basic::Return {
            reply_code,
            reply_text: short(&text),
            exchange: short(&exchange),
            routing_key: short(&key),
        };
        check_method(&Method::BasicReturn(ours), basic::AMQPMethod::Return(theirs));
    }

    #[test]
    fn settlements_agree(delivery_tag: u64, multiple: bool, requeue: bool) {
        check_method(
            &Method::BasicAck(BasicAck { delivery_tag, multiple }),
            basic::AMQPMethod::Ack(basic::Ack { delivery_tag, multiple }),
        );
        check_method(
            &Method::BasicNack(BasicNack { delivery_tag, multiple, requeue }),
            basic::AMQPMethod::Nack(basic::Nack { delivery_tag, multiple, requeue }),
        );
        check_method(
            &Method::BasicReject(BasicReject { delivery_tag, requeue }),
            basic::AMQPMethod::Reject(basic::Reject { delivery_tag, requeue }),
        );
    }

    #[test]
    fn content_headers_agree(
        body_size: u64,
        headers in proptest::option::of(plain_table()),
        numbers in (any::<Option<u8>>(), any::<Option<u8>>(), any::<Option<u64>>()),
        texts in proptest::collection::vec(proptest::option::of(".{0,30}"), 10),
    ) {
        let (mode, priority, timestamp) = numbers;
        let theirs = their_properties(headers.as_ref(), (mode, priority, timestamp), &texts);
        let ours = our_properties(headers.as_ref(), (mode, priority, timestamp), &texts);
        let frame = AMQPFrame::Header(
            1,
            AMQPContentHeader { class_id: 60, body_size, properties: theirs },
        );
        let bytes = their_bytes(&frame);
        let (cut, _) = FrameDecoder::new(0).next(&bytes).expect("no fault").expect("whole");
        let header = ContentHeader::decode(cut.payload).expect("a content header");
        prop_assert_eq!(header.body_size, body_size);
        // One encoding each way: equal bytes mean that each reads what the other wrote.
        prop_assert_eq!(header.properties.raw(), ours.as_slice());
        prop_assert_eq!(header.properties.headers(), Ok(headers));
        prop_assert_eq!(header.scan.delivery_mode, mode);
        prop_assert_eq!(header.properties.priority(), priority);
        prop_assert_eq!(header.properties.timestamp(), timestamp);
        prop_assert_eq!(header.properties.cluster_id(), texts[9].as_ref().map(|t| t.as_bytes()));
    }
}

type Numbers = (Option<u8>, Option<u8>, Option<u64>);

fn their_properties(
    headers: Option<&Table>,
    (mode, priority, timestamp): Numbers,
    texts: &[Option<String>],
) -> BasicProperties {
    let mut properties = BasicProperties::default();
    if let Some(headers) = headers {
        properties = properties.with_headers(their_table(headers));
    }
    if let Some(mode) = mode {
        properties = properties.with_delivery_mode(mode);
    }
    if let Some(priority) = priority {
        properties = properties.with_priority(priority);
    }
    if let Some(timestamp) = timestamp {
        properties = properties.with_timestamp(timestamp);
    }
    type Setter = fn(BasicProperties, TheirShortString) -> BasicProperties;
    const SETTERS: [Setter; 10] = [
        BasicProperties::with_content_type,
        BasicProperties::with_content_encoding,
        BasicProperties::with_correlation_id,
        BasicProperties::with_reply_to,
        BasicProperties::with_expiration,
        BasicProperties::with_message_id,
        BasicProperties::with_type,
        BasicProperties::with_user_id,
        BasicProperties::with_app_id,
        BasicProperties::with_cluster_id,
    ];
    for (set, text) in SETTERS.iter().zip(texts) {
        if let Some(text) = text {
            properties = set(properties, short(text));
        }
    }
    properties
}

fn our_properties(
    headers: Option<&Table>,
    (mode, priority, timestamp): Numbers,
    texts: &[Option<String>],
) -> Vec<u8> {
    let mut properties = PropertiesBuilder::new();
    if let Some(headers) = headers {
        properties = properties.headers(headers);
    }
    if let Some(mode) = mode {
        properties = properties.delivery_mode(mode);
    }
    if let Some(priority) = priority {
        properties = properties.priority(priority);
    }
    if let Some(timestamp) = timestamp {
        properties = properties.timestamp(timestamp);
    }
    type Setter = fn(PropertiesBuilder<'static>, String) -> PropertiesBuilder<'static>;
    const SETTERS: [Setter; 10] = [
        PropertiesBuilder::content_type,
        PropertiesBuilder::content_encoding,
        PropertiesBuilder::correlation_id,
        PropertiesBuilder::reply_to,
        PropertiesBuilder::expiration,
        PropertiesBuilder::message_id,
        PropertiesBuilder::type_,
        PropertiesBuilder::user_id,
        PropertiesBuilder::app_id,
        PropertiesBuilder::cluster_id,
    ];
    for (set, text) in SETTERS.iter().zip(texts) {
        if let Some(text) = text {
            properties = set(properties, text.clone());
        }
    }
    properties.build()
}
