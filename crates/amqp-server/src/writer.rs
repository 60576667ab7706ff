//! The task that carries a connection's outbox to its socket.
//!
//! One vectored write a turn: swap the outbox's buffer, write it, look again. Says a heartbeat
//! when it was silent for too long. Knows no methods and no channels.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::heartbeat;
use crate::out_buffer::OutBuffer;
use crate::outbox::FrameOutbox;

/// Silence after which buffers are given back where there are no heartbeats.
const QUIET: Duration = Duration::from_secs(30);

/// Writes until the outbox is ended and empty, or the socket fails. `on_drained` is called when
/// waiting bytes fell under half of the mark, so that deliveries go on.
pub(crate) async fn run<W, F>(
    mut socket: W,
    outbox: Arc<FrameOutbox>,
    heartbeat_s: u16,
    on_drained: F,
) where
    W: AsyncWrite + Unpin,
    F: Fn(),
{
    let silence_max = heartbeat::send_after(heartbeat_s);
    if let Err(error) = write_all(&mut socket, &outbox, silence_max, &on_drained).await {
        outbox.fail(error);
        return;
    }
    // The peer sees the end of the stream after the last frame.
    let _ = socket.shutdown().await;
}

async fn write_all<W, F>(
    socket: &mut W,
    outbox: &FrameOutbox,
    silence_max: Option<Duration>,
    on_drained: &F,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
    F: Fn(),
{
    let silence = silence_max.unwrap_or(QUIET);
    let mut turn = OutBuffer::default();
    let mut last_write = Instant::now();
    loop {
        let Ok(more) = tokio::time::timeout_at(last_write + silence, outbox.filled()).await else {
            // Quiet connections hold no buffers.
            turn.release();
            outbox.rest();
            if silence_max.is_some() {
                outbox.push_heartbeat();
            }
            last_write = Instant::now();
            continue;
        };
        if !more {
            return socket.flush().await;
        }
        outbox.swap(&mut turn);
        while turn.has_remaining() {
            let count = socket.write_buf(&mut turn).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            if outbox.wrote(count) {
                on_drained();
            }
        }
        socket.flush().await?;
        turn.clear();
        last_write = Instant::now();
    }
}
