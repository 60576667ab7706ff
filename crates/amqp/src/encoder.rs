//! Appending whole frames, envelope included, to a buffer.
//!
//! Everything that goes out with a message is written by hand and without allocation (the buffer
//! itself may grow). A body can also stay where it is: the `…_spliced` forms write all octets
//! round it and tell where its pieces belong, for a vectored write. Nothing is ever cleared or
//! overwritten, and nothing is known of sockets.

use std::ops::Range;

use amq_protocol::protocol::{AMQPClass, gen_class};

use crate::basic::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicPublish, BasicReject, BasicReturn,
};
use crate::content_header::BASIC_CLASS_ID;
use crate::frame::{FRAME_END, FRAME_ENVELOPE_BYTES, FRAME_HEADER_BYTES, FrameKind};
use crate::layout::Layout;
use crate::method::METHOD_IDS_BYTES;
use crate::properties::Properties;
use crate::value::Table;
use crate::wire::{put_length_prefixed, put_short_string};

/// A whole heartbeat frame.
pub const HEARTBEAT_FRAME: [u8; FRAME_ENVELOPE_BYTES] =
    [FrameKind::Heartbeat as u8, 0, 0, 0, 0, 0, 0, FRAME_END];

/// Octets of a content that are the same for every one: envelope of the header frame, its fixed
/// fields, envelope of one body frame.
const CONTENT_FIXED_BYTES: usize = 2 * FRAME_ENVELOPE_BYTES + 12;

/// Writes frames of at most the negotiated size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEncoder {
    /// Body bytes of a full frame, at least one.
    body_bytes_max: usize,
}

/// A message's property block and body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// The property block, written as it is.
    pub properties: Properties<'a>,
    /// The body.
    pub body: &'a [u8],
}

/// A message's property block and the size of a body that stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentByReference<'a> {
    /// The property block, written as it is.
    pub properties: Properties<'a>,
    /// Bytes of the body.
    pub body_bytes: usize,
}

/// A piece of a body that belongs between written octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Where in the output buffer: in front of the octet at this place.
    pub at: usize,
    /// Which bytes of the body.
    pub body: Range<usize>,
}

impl FrameEncoder {
    /// Takes the negotiated frame size in bytes, envelope included; 0 sets no limit.
    #[must_use]
    pub fn new(frame_size_max: u32) -> Self {
        let frame_bytes_max = if frame_size_max == 0 {
            u32::MAX
        } else {
            frame_size_max
        };
        let body_bytes_max = usize::try_from(frame_bytes_max)
            .unwrap_or(usize::MAX)
            .saturating_sub(FRAME_ENVELOPE_BYTES)
            .max(1);
        Self { body_bytes_max }
    }

    /// `basic.deliver` with its content.
    #[inline]
    pub fn deliver<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        deliver: &BasicDeliver<S>,
        content: Content<'_>,
    ) {
        reserve(out, deliver.frame_bytes(), content);
        deliver.put(out, channel);
        self.put_content(out, channel, content);
    }

    /// `basic.get-ok` with its content.
    pub fn get_ok<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        get_ok: &BasicGetOk<S>,
        content: Content<'_>,
    ) {
        reserve(out, get_ok.frame_bytes(), content);
        get_ok.put(out, channel);
        self.put_content(out, channel, content);
    }

    /// `basic.return` with its content.
    pub fn return_<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        returned: &BasicReturn<S>,
        content: Content<'_>,
    ) {
        reserve(out, returned.frame_bytes(), content);
        returned.put(out, channel);
        self.put_content(out, channel, content);
    }

    /// `basic.publish` with its content.
    #[inline]
    pub fn publish<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        publish: &BasicPublish<S>,
        content: Content<'_>,
    ) {
        reserve(out, publish.frame_bytes(), content);
        publish.put(out, channel);
        self.put_content(out, channel, content);
    }

    /// [`FrameEncoder::deliver`] without copying the body: `place` is called for each piece of
    /// it, in order.
    pub fn deliver_spliced<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        deliver: &BasicDeliver<S>,
        content: ContentByReference<'_>,
        place: impl FnMut(Splice),
    ) {
        deliver.put(out, channel);
        self.splice_content(out, channel, content, place);
    }

    /// [`FrameEncoder::get_ok`] without copying the body.
    pub fn get_ok_spliced<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        get_ok: &BasicGetOk<S>,
        content: ContentByReference<'_>,
        place: impl FnMut(Splice),
    ) {
        get_ok.put(out, channel);
        self.splice_content(out, channel, content, place);
    }

    /// [`FrameEncoder::return_`] without copying the body.
    pub fn return_spliced<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        returned: &BasicReturn<S>,
        content: ContentByReference<'_>,
        place: impl FnMut(Splice),
    ) {
        returned.put(out, channel);
        self.splice_content(out, channel, content, place);
    }

    /// [`FrameEncoder::publish`] without copying the body.
    pub fn publish_spliced<S: AsRef<[u8]>>(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        publish: &BasicPublish<S>,
        content: ContentByReference<'_>,
        place: impl FnMut(Splice),
    ) {
        publish.put(out, channel);
        self.splice_content(out, channel, content, place);
    }

    // rabbitmq: a header frame may be larger than the negotiated size; it is never split. An
    // empty body has no frame.
    #[inline]
    fn put_content(&self, out: &mut Vec<u8>, channel: u16, content: Content<'_>) {
        put_content_header(out, channel, content.properties, content.body.len());
        for piece in content.body.chunks(self.body_bytes_max) {
            put_frame_header(out, FrameKind::Body, channel, piece.len());
            out.extend_from_slice(piece);
            out.push(FRAME_END);
        }
    }

    fn splice_content(
        &self,
        out: &mut Vec<u8>,
        channel: u16,
        content: ContentByReference<'_>,
        mut place: impl FnMut(Splice),
    ) {
        put_content_header(out, channel, content.properties, content.body_bytes);
        let mut start = 0;
        while start < content.body_bytes {
            let end = start
                .saturating_add(self.body_bytes_max)
                .min(content.body_bytes);
            put_frame_header(out, FrameKind::Body, channel, end - start);
            place(Splice {
                at: out.len(),
                body: start..end,
            });
            out.push(FRAME_END);
            start = end;
        }
    }
}

/// `basic.ack`: of a delivery, or a confirm.
#[inline]
pub fn encode_ack(out: &mut Vec<u8>, channel: u16, ack: BasicAck) {
    put_settlement(out, channel, 80, ack.delivery_tag, u8::from(ack.multiple));
}

/// `basic.nack`: of a delivery, or a refused publish.
#[inline]
pub fn encode_nack(out: &mut Vec<u8>, channel: u16, nack: BasicNack) {
    let bits = u8::from(nack.multiple) | u8::from(nack.requeue) << 1;
    put_settlement(out, channel, 120, nack.delivery_tag, bits);
}

/// `basic.reject`
#[inline]
pub fn encode_reject(out: &mut Vec<u8>, channel: u16, reject: BasicReject) {
    put_settlement(
        out,
        channel,
        90,
        reject.delivery_tag,
        u8::from(reject.requeue),
    );
}

/// Any method whose table, if it has one, is the empty one or that of `amq-protocol`.
pub fn encode_method(out: &mut Vec<u8>, channel: u16, call: &AMQPClass) {
    put_method_frame(out, channel, &payload_of(call));
}

/// A method with a table of ours in the place of its own, which must be left empty. A method
/// that has no table goes out without one.
pub fn encode_method_with_table(out: &mut Vec<u8>, channel: u16, call: &AMQPClass, table: &Table) {
    let bare = payload_of(call);
    match table_place(&bare) {
        Some(place) => {
            let (before, rest) = bare.split_at(METHOD_IDS_BYTES + place.start);
            let behind = rest.get(place.len()..).unwrap_or_default();
            let mut payload = before.to_vec();
            table.encode_prefixed(&mut payload);
            payload.extend_from_slice(behind);
            put_method_frame(out, channel, &payload);
        }
        None => put_method_frame(out, channel, &bare),
    }
}

fn payload_of(call: &AMQPClass) -> Vec<u8> {
    gen_class(call)(Vec::new().into())
        .expect("writing to memory cannot fail")
        .into_inner()
        .0
}

fn table_place(payload: &[u8]) -> Option<Range<usize>> {
    let (class, method) = crate::method::Method::ids(payload)?;
    let Layout::Known(slots) = Layout::of(class, method) else {
        return None;
    };
    Layout::walk(slots, payload.get(METHOD_IDS_BYTES..)?).ok()?
}

fn put_method_frame(out: &mut Vec<u8>, channel: u16, payload: &[u8]) {
    let [c1, c0] = channel.to_be_bytes();
    out.extend_from_slice(&[FrameKind::Method as u8, c1, c0]);
    put_length_prefixed(out, |out| out.extend_from_slice(payload));
    out.push(FRAME_END);
}

/// The methods that carry content. `frame_bytes` counts the frame's envelope.
trait ContentMethod {
    fn frame_bytes(&self) -> usize;
    fn put(&self, out: &mut Vec<u8>, channel: u16);
}

impl<S: AsRef<[u8]>> ContentMethod for BasicPublish<S> {
    #[inline]
    fn frame_bytes(&self) -> usize {
        method_frame_bytes(2 + 1, &[self.exchange.as_ref(), self.routing_key.as_ref()])
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, channel: u16) {
        put_method_ids(out, channel, 40, self.frame_bytes());
        out.extend_from_slice(&[0; 2]); // reserved: the access ticket
        put_short_string(out, self.exchange.as_ref());
        put_short_string(out, self.routing_key.as_ref());
        let bits = u8::from(self.mandatory) | u8::from(self.immediate) << 1;
        out.extend_from_slice(&[bits, FRAME_END]);
    }
}

impl<S: AsRef<[u8]>> ContentMethod for BasicDeliver<S> {
    #[inline]
    fn frame_bytes(&self) -> usize {
        let strings = [
            self.consumer_tag.as_ref(),
            self.exchange.as_ref(),
            self.routing_key.as_ref(),
        ];
        method_frame_bytes(8 + 1, &strings)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, channel: u16) {
        put_method_ids(out, channel, 60, self.frame_bytes());
        put_short_string(out, self.consumer_tag.as_ref());
        put_tag_and_bit(out, self.delivery_tag, self.redelivered);
        put_short_string(out, self.exchange.as_ref());
        put_short_string(out, self.routing_key.as_ref());
        out.push(FRAME_END);
    }
}

impl<S: AsRef<[u8]>> ContentMethod for BasicGetOk<S> {
    #[inline]
    fn frame_bytes(&self) -> usize {
        method_frame_bytes(
            8 + 1 + 4,
            &[self.exchange.as_ref(), self.routing_key.as_ref()],
        )
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, channel: u16) {
        put_method_ids(out, channel, 71, self.frame_bytes());
        put_tag_and_bit(out, self.delivery_tag, self.redelivered);
        put_short_string(out, self.exchange.as_ref());
        put_short_string(out, self.routing_key.as_ref());
        out.extend_from_slice(&self.message_count.to_be_bytes());
        out.push(FRAME_END);
    }
}

impl<S: AsRef<[u8]>> ContentMethod for BasicReturn<S> {
    #[inline]
    fn frame_bytes(&self) -> usize {
        let strings = [
            self.reply_text.as_ref(),
            self.exchange.as_ref(),
            self.routing_key.as_ref(),
        ];
        method_frame_bytes(2, &strings)
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, channel: u16) {
        put_method_ids(out, channel, 50, self.frame_bytes());
        out.extend_from_slice(&self.reply_code.to_be_bytes());
        put_short_string(out, self.reply_text.as_ref());
        put_short_string(out, self.exchange.as_ref());
        put_short_string(out, self.routing_key.as_ref());
        out.push(FRAME_END);
    }
}

/// The size of a method frame with so many fixed argument octets and these short strings.
#[inline]
fn method_frame_bytes(fixed_bytes: usize, strings: &[&[u8]]) -> usize {
    const SHORT_STRING_BYTES_MAX: usize = crate::octets::SHORT_STRING_BYTES_MAX;
    // The same cut as `put_short_string` makes, so the announced size is always true.
    let strings_bytes: usize = strings
        .iter()
        .map(|bytes| 1 + bytes.len().min(SHORT_STRING_BYTES_MAX))
        .sum();
    FRAME_ENVELOPE_BYTES + METHOD_IDS_BYTES + fixed_bytes + strings_bytes
}

#[inline]
fn reserve(out: &mut Vec<u8>, method_frame_bytes: usize, content: Content<'_>) {
    let content_bytes = content
        .properties
        .raw()
        .len()
        .saturating_add(content.body.len());
    out.reserve(
        method_frame_bytes
            .saturating_add(CONTENT_FIXED_BYTES)
            .saturating_add(content_bytes),
    );
}

#[inline]
fn put_frame_header(out: &mut Vec<u8>, kind: FrameKind, channel: u16, payload_bytes: usize) {
    out.extend_from_slice(&frame_header(kind, channel, payload_bytes));
}

#[inline]
fn frame_header(kind: FrameKind, channel: u16, payload_bytes: usize) -> [u8; FRAME_HEADER_BYTES] {
    let [c1, c0] = channel.to_be_bytes();
    let [s3, s2, s1, s0] = u32::try_from(payload_bytes)
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [kind as u8, c1, c0, s3, s2, s1, s0]
}

/// Frame header and ids of a method of class basic.
#[inline]
fn put_method_ids(out: &mut Vec<u8>, channel: u16, method: u8, frame_bytes: usize) {
    const CLASS: u8 = BASIC_CLASS_ID as u8;
    let payload_bytes = frame_bytes - FRAME_ENVELOPE_BYTES;
    let [t, c1, c0, s3, s2, s1, s0] = frame_header(FrameKind::Method, channel, payload_bytes);
    out.extend_from_slice(&[t, c1, c0, s3, s2, s1, s0, 0, CLASS, 0, method]);
}

#[inline]
fn put_tag_and_bit(out: &mut Vec<u8>, delivery_tag: u64, bit: bool) {
    let [a, b, c, d, e, f, g, h] = delivery_tag.to_be_bytes();
    out.extend_from_slice(&[a, b, c, d, e, f, g, h, u8::from(bit)]);
}

#[inline]
fn put_settlement(out: &mut Vec<u8>, channel: u16, method: u8, delivery_tag: u64, bits: u8) {
    const CLASS: u8 = BASIC_CLASS_ID as u8;
    const PAYLOAD_BYTES: u8 = 13;
    let [c1, c0] = channel.to_be_bytes();
    let [a, b, c, d, e, f, g, h] = delivery_tag.to_be_bytes();
    out.extend_from_slice(&[
        FrameKind::Method as u8,
        c1,
        c0,
        0,
        0,
        0,
        PAYLOAD_BYTES,
        0,
        CLASS,
        0,
        method,
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        bits,
        FRAME_END,
    ]);
}

#[inline]
fn put_content_header(
    out: &mut Vec<u8>,
    channel: u16,
    properties: Properties<'_>,
    body_bytes: usize,
) {
    const CLASS: u8 = BASIC_CLASS_ID as u8;
    let raw = properties.raw();
    let [t, c1, c0, s3, s2, s1, s0] = frame_header(FrameKind::Header, channel, 12 + raw.len());
    let [b7, b6, b5, b4, b3, b2, b1, b0] = (body_bytes as u64).to_be_bytes();
    out.extend_from_slice(&[
        t, c1, c0, s3, s2, s1, s0, 0, CLASS, 0, 0, b7, b6, b5, b4, b3, b2, b1, b0,
    ]);
    out.extend_from_slice(raw);
    out.push(FRAME_END);
}
