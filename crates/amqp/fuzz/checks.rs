//! What must hold for any bytes whatever. Shared by the fuzz targets and the ordinary tests,
//! which replay the committed corpus and random bytes through the same checks.
#![allow(dead_code)] // Each fuzz target uses one of them.

use amqp::{
    Content, FRAME_ENVELOPE_BYTES, Frame, FrameDecoder, FrameEncoder, Method, Properties,
    PropertiesBuilder, Table, encode_ack, encode_method_with_table, encode_nack, encode_reject,
};

/// The first octet chooses the negotiated size; the rest is the stream.
pub(crate) fn frames(data: &[u8]) {
    let Some((choice, mut stream)) = data.split_first() else {
        return;
    };
    let frame_size_max = [0, 64, 8192, 131_072][usize::from(choice % 4)];
    let decoder = FrameDecoder::new(frame_size_max);
    loop {
        match decoder.next(stream) {
            Ok(Some((frame, consumed))) => {
                check_frame(&decoder, &frame, stream, consumed);
                stream = &stream[consumed..];
            }
            Ok(None) => {
                assert!(stream.len() < decoder.buffer_bytes_max());
                return;
            }
            Err(fault) => {
                assert!(fault.explanation().starts_with("type "));
                assert!(matches!(fault.reply_code().number(), 501 | 505));
                return;
            }
        }
    }
}

fn check_frame(decoder: &FrameDecoder, frame: &Frame<'_>, stream: &[u8], consumed: usize) {
    assert_eq!(frame.payload.len() + FRAME_ENVELOPE_BYTES, consumed);
    assert!(consumed <= decoder.buffer_bytes_max());
    assert_eq!(decoder.frame_bytes(stream), Ok(Some(consumed)));
    for cut in [0, 6, 7, consumed - 1] {
        assert_eq!(decoder.next(&stream[..cut]), Ok(None), "cut at {cut}");
    }
}

/// A method that was decoded says the same after it was encoded and decoded again.
pub(crate) fn method(payload: &[u8]) {
    match Method::decode(payload) {
        Ok(method) => {
            let frames = encode(&method);
            let (frame, _) = FrameDecoder::new(0)
                .next(&frames)
                .expect("no fault")
                .expect("whole");
            assert_eq!(Method::decode(frame.payload), Ok(method));
        }
        Err(fault) => {
            for channel in [0, 1] {
                let silent = fault.reply_code(channel).is_none();
                assert!(!silent || fault.explanation(channel, payload).is_empty());
            }
        }
    }
}

/// The frames of any method; those that carry content get an empty one.
pub(crate) fn encode(method: &Method<'_>) -> Vec<u8> {
    let encoder = FrameEncoder::new(0);
    let content = Content {
        properties: Properties::empty(),
        body: b"",
    };
    let mut out = Vec::new();
    match method {
        Method::BasicPublish(publish) => encoder.publish(&mut out, 1, publish, content),
        Method::BasicDeliver(deliver) => encoder.deliver(&mut out, 1, deliver, content),
        Method::BasicGetOk(get_ok) => encoder.get_ok(&mut out, 1, get_ok, content),
        Method::BasicReturn(returned) => encoder.return_(&mut out, 1, returned, content),
        Method::BasicAck(ack) => encode_ack(&mut out, 1, *ack),
        Method::BasicNack(nack) => encode_nack(&mut out, 1, *nack),
        Method::BasicReject(reject) => encode_reject(&mut out, 1, *reject),
        Method::Other(other) => encode_method_with_table(&mut out, 1, &other.call, &other.table),
    }
    out
}

/// A good block survives being taken apart and put together; a bad one harms nobody.
pub(crate) fn properties(raw: &[u8]) {
    let trusted = Properties::trusted(raw);
    read_all(trusted);
    let Ok((properties, scan)) = Properties::parse_and_scan(raw) else {
        return;
    };
    assert_eq!(properties.scan(), scan);
    assert_eq!(scan.expiration, properties.expiration());
    assert_eq!(scan.delivery_mode, properties.delivery_mode());
    assert_eq!(
        scan.has_headers,
        properties.headers().expect("checked").is_some()
    );
    let rebuilt = PropertiesBuilder::from(properties).build();
    assert_eq!(rebuilt[2..], raw[2..], "fields are copied as they are");
    assert_eq!(
        rebuilt[1],
        raw[1] & !0b10,
        "only the unused flag is dropped"
    );
    let edited = PropertiesBuilder::from(properties)
        .without_expiration()
        .header("x", 1i32);
    let edited = edited.expect("headers were checked").build();
    let edited = Properties::parse(&edited).expect("an edited block is a block");
    assert_eq!(edited.expiration(), None);
    assert_eq!(edited.header("x"), Some(1i32.into()));
    assert_eq!(edited.cluster_id(), properties.cluster_id());
}

fn read_all(properties: Properties<'_>) {
    let _ = (
        properties.content_type(),
        properties.content_encoding(),
        properties.headers(),
    );
    let _ = (
        properties.priority(),
        properties.correlation_id(),
        properties.reply_to(),
    );
    let _ = (
        properties.message_id(),
        properties.timestamp(),
        properties.type_(),
    );
    let _ = (
        properties.user_id(),
        properties.app_id(),
        properties.cluster_id(),
    );
    let _ = (properties.scan(), properties.header("x"));
    let _ = PropertiesBuilder::from(properties).build();
}

/// The two ways of reading a table agree, and a decoded one says the same after encoding.
pub(crate) fn table(block: &[u8]) {
    let decoded = Table::decode(block);
    assert_eq!(
        decoded.as_ref().map(drop).map_err(|e| *e),
        Table::check(block)
    );
    let Ok(table) = decoded else { return };
    let mut encoded = Vec::new();
    table.encode(&mut encoded);
    assert_eq!(encoded.len(), block.len());
    assert_eq!(Table::decode(&encoded).as_ref(), Ok(&table));
    for (key, _) in &table {
        assert_eq!(
            Table::find(block, key).expect("checked").as_ref(),
            table.get(key)
        );
    }
}
