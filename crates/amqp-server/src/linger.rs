//! The end of a connection: waiting, for a bounded time, until the peer has heard our last words.
//!
//! A socket that is closed while unread bytes lie in it is reset by the system, and the reset can
//! overtake a close frame. So the peer's bytes are read and thrown away. Knows frames and the two
//! methods of the close handshake.

use std::time::Duration;

use amqp::{FrameDecoder, FrameKind};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::fault::MethodId;
use crate::input::Input;

/// Longest wait for the peer's end of the stream after ours.
pub(crate) const AFTER_END: Duration = Duration::from_secs(1);

/// Longest wait for close-ok, whatever the heartbeat is.
const CLOSE_OK_SECONDS_MAX: u16 = 30;

const CONNECTION_CLOSE: MethodId = MethodId {
    class: 10,
    method: 50,
};
const CONNECTION_CLOSE_OK: MethodId = MethodId {
    class: 10,
    method: 51,
};

/// How a peer ended after it was told that the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastWord {
    /// It agreed.
    CloseOk,
    /// It wants to close as well, and waits for close-ok.
    Close,
    /// It left, said nothing in time, or talks nonsense.
    Nothing,
}

/// How long a peer may take to answer connection.close.
// rabbitmq: the smaller of heartbeat and 30 s
pub(crate) fn close_ok_limit(heartbeat_s: u16) -> Duration {
    let seconds = match heartbeat_s {
        0 => CLOSE_OK_SECONDS_MAX,
        heartbeat_s => heartbeat_s.min(CLOSE_OK_SECONDS_MAX),
    };
    Duration::from_secs(seconds.into())
}

/// Reads on, discarding everything, until the peer answers connection.close or `limit` is over.
pub(crate) async fn until_close_ok<R: AsyncRead + Unpin>(
    reader: &mut R,
    input: &mut Input,
    decoder: &FrameDecoder,
    limit: Duration,
) -> LastWord {
    let listen = async {
        loop {
            while let Ok(Some((frame, used))) = decoder.next(input.bytes()) {
                let is_method = frame.kind == FrameKind::Method && frame.channel == 0;
                let said = is_method.then(|| MethodId::of(frame.payload));
                input.consume(used);
                match said {
                    Some(CONNECTION_CLOSE_OK) => return LastWord::CloseOk,
                    Some(CONNECTION_CLOSE) => return LastWord::Close,
                    _ => {}
                }
            }
            if decoder.next(input.bytes()).is_err() {
                return LastWord::Nothing;
            }
            match input.fill(reader).await {
                Ok(0) | Err(_) => return LastWord::Nothing,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(limit, listen)
        .await
        .unwrap_or(LastWord::Nothing)
}

/// Throws bytes away until the peer ends the stream or `limit` is over.
pub(crate) async fn until_eof<R: AsyncRead + Unpin>(reader: &mut R, limit: Duration) {
    let discard = async {
        let mut sink = [0; 4096];
        while let Ok(1..) = reader.read(&mut sink).await {}
    };
    let _ = tokio::time::timeout(limit, discard).await;
}
