//! The frame envelope: type, channel, size, payload, end octet.
//! Builds right frames and, for the tests of bad input, wrong ones.

/// Frame type of a method.
pub const METHOD: u8 = 1;
/// Frame type of a content header.
pub const HEADER: u8 = 2;
/// Frame type of a content body.
pub const BODY: u8 = 3;
/// Frame type of a heartbeat.
pub const HEARTBEAT: u8 = 8;
/// The octet that ends every frame.
pub const END: u8 = 0xCE;
/// Octets of type, channel and size.
pub const HEAD_BYTES: usize = 7;
/// Octets of a frame around its payload.
pub const ENVELOPE_BYTES: usize = HEAD_BYTES + 1;

/// A frame as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Frame type.
    pub kind: u8,
    /// Channel number.
    pub channel: u16,
    /// What is between head and end octet.
    pub payload: Vec<u8>,
}

/// A whole frame.
pub fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).expect("A test sends less than 4 GiB.");
    frame_with(kind, channel, size, payload, END)
}

/// A frame whose announced size and end octet are the caller's, right or wrong.
pub fn frame_with(kind: u8, channel: u16, size: u32, payload: &[u8], end: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + ENVELOPE_BYTES);
    out.push(kind);
    out.extend(channel.to_be_bytes());
    out.extend(size.to_be_bytes());
    out.extend(payload);
    out.push(end);
    out
}

/// Cuts the first whole frame off `buffer`: the frame and its length on the wire.
///
/// # Panics
/// When the end octet is wrong: a broker that sends such a frame fails every test.
pub fn cut(buffer: &[u8]) -> Option<(Frame, usize)> {
    let head: &[u8; HEAD_BYTES] = buffer.get(..HEAD_BYTES)?.try_into().ok()?;
    let [kind, c0, c1, s0, s1, s2, s3] = *head;
    let size = u32::from_be_bytes([s0, s1, s2, s3]) as usize;
    let whole = buffer.get(..size + ENVELOPE_BYTES)?;
    assert_eq!(
        whole[size + HEAD_BYTES],
        END,
        "end octet of a frame of type {kind} from the broker"
    );
    let payload = whole[HEAD_BYTES..HEAD_BYTES + size].to_vec();
    Some((
        Frame {
            kind,
            channel: u16::from_be_bytes([c0, c1]),
            payload,
        },
        whole.len(),
    ))
}
