//! A publish made beforehand: everything but stamp, size and filler of the body.

use amqp::{BasicPublish, Content, FRAME_END, FrameEncoder, FrameKind, Properties};

use crate::body::{Filler, STAMP_BYTES, stamped_bytes};

/// Octets that an envelope adds to a payload, and where its size stands.
const ENVELOPE_BYTES: usize = amqp::FRAME_ENVELOPE_BYTES;
const ENVELOPE_SIZE_AT: usize = 3;
/// Octets in front of the body size in a header frame: envelope, class, weight.
const BODY_SIZE_AT: usize = 7 + 2 + 2;

/// Where and how to publish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) mandatory: bool,
}

#[derive(Debug)]
pub(crate) struct Template {
    channel: u16,
    /// Method frame and header frame.
    prefix: Vec<u8>,
    body_size_at: usize,
    piece_bytes_max: usize,
}

impl Template {
    pub(crate) fn new(
        channel: u16,
        frame_bytes_max: usize,
        address: Address<'_>,
        properties: &[u8],
    ) -> Self {
        let publish = BasicPublish {
            exchange: address.exchange,
            routing_key: address.routing_key,
            mandatory: address.mandatory,
            immediate: false,
        };
        let content = Content {
            properties: Properties::trusted(properties),
            body: &[],
        };
        let mut prefix = Vec::new();
        FrameEncoder::new(0).publish(&mut prefix, channel, &publish, content);
        let body_size_at = method_frame_bytes(&prefix) + BODY_SIZE_AT;
        Self {
            channel,
            prefix,
            body_size_at,
            piece_bytes_max: frame_bytes_max - ENVELOPE_BYTES,
        }
    }

    /// Appends one publish with a body of so many bytes.
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        stamp: &[u8; STAMP_BYTES],
        filler: &Filler,
        body_bytes: usize,
    ) {
        let size_at = out.len() + self.body_size_at;
        out.extend_from_slice(&self.prefix);
        out[size_at..size_at + 8].copy_from_slice(&(body_bytes as u64).to_be_bytes());
        let mut stamp = &stamp[..stamped_bytes(body_bytes)];
        let mut at = 0;
        while at < body_bytes {
            let end = body_bytes.min(at + self.piece_bytes_max);
            self.append_frame_head(out, end - at);
            out.extend_from_slice(stamp);
            out.extend_from_slice(&filler.bytes()[at + stamp.len()..end]);
            out.push(FRAME_END);
            // The stamp is in the first piece: no frame is smaller than 4 KiB.
            stamp = &[];
            at = end;
        }
    }

    fn append_frame_head(&self, out: &mut Vec<u8>, payload_bytes: usize) {
        let [c1, c0] = self.channel.to_be_bytes();
        let [s3, s2, s1, s0] = (payload_bytes as u32).to_be_bytes();
        out.extend_from_slice(&[FrameKind::Body as u8, c1, c0, s3, s2, s1, s0]);
    }
}

fn method_frame_bytes(frames: &[u8]) -> usize {
    let size = frames[ENVELOPE_SIZE_AT..]
        .first_chunk()
        .map_or(0, |size| u32::from_be_bytes(*size));
    size as usize + ENVELOPE_BYTES
}

#[cfg(test)]
mod tests {
    use amqp::{ContentHeader, FrameDecoder, Method, PropertiesBuilder};

    use super::*;

    /// Sends one body through the real decoder.
    fn round_trip(body_bytes: usize, frame_bytes_max: usize) -> Vec<u8> {
        let properties = PropertiesBuilder::new().delivery_mode(2).build();
        let address = Address {
            exchange: "x",
            routing_key: "key",
            mandatory: true,
        };
        let template = Template::new(7, frame_bytes_max, address, &properties);
        let mut out = Vec::new();
        let filler = Filler::new(body_bytes, None);
        template.append(&mut out, b"0123456789ABCDEF", &filler, body_bytes);

        let decoder = FrameDecoder::new(frame_bytes_max as u32);
        let mut rest = out.as_slice();
        let mut frames = Vec::new();
        while let Some((frame, consumed)) = decoder.next(rest).unwrap() {
            assert_eq!(frame.channel, 7);
            frames.push((frame.kind, frame.payload));
            rest = &rest[consumed..];
        }
        assert!(rest.is_empty());
        let Ok(Method::BasicPublish(publish)) = Method::decode(frames[0].1) else {
            panic!("the first frame is no publish");
        };
        assert_eq!((publish.exchange, publish.routing_key), ("x", "key"));
        assert!(publish.mandatory);
        let header = ContentHeader::decode(frames[1].1).unwrap();
        assert_eq!(header.body_size, body_bytes as u64);
        assert_eq!(header.scan.delivery_mode, Some(2));
        assert!(frames[2..].iter().all(|(kind, _)| *kind == FrameKind::Body));
        frames[2..]
            .iter()
            .flat_map(|(_, piece)| *piece)
            .copied()
            .collect()
    }

    #[test]
    fn a_body_is_stamp_and_filler() {
        let body = round_trip(20, 4_096);
        assert_eq!(body, b"0123456789ABCDEFqrst");
        assert_eq!(round_trip(10, 4_096), b"01234567ij");
        assert_eq!(round_trip(3, 4_096), b"abc");
        assert_eq!(round_trip(0, 4_096), b"");
    }

    #[test]
    fn a_large_body_is_split_at_the_frame_size() {
        let body = round_trip(10_000, 4_096);
        assert_eq!(body.len(), 10_000);
        assert_eq!(&body[16..], &Filler::new(10_000, None).bytes()[16..]);
    }
}
