//! Both directions of a socket while the handshake owns them: one method in, one method out.

use std::io;

use amqp::protocol::{AMQPClass, connection};
use amqp::{FrameDecoder, FrameFault, FrameKind, Method, ProtocolHeader, Table};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::HandshakeFault;
use crate::input::Input;

/// A socket before its connection is open.
pub(super) struct Wire<R, W> {
    pub(super) reader: R,
    pub(super) writer: W,
    pub(super) input: Input,
    pub(super) decoder: FrameDecoder,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Wire<R, W> {
    pub(super) fn new(reader: R, writer: W, decoder: FrameDecoder) -> Self {
        Self {
            reader,
            writer,
            input: Input::default(),
            decoder,
        }
    }

    /// The first eight octets.
    pub(super) async fn protocol_header(&mut self) -> Result<ProtocolHeader, HandshakeFault> {
        loop {
            if let Some(header) = ProtocolHeader::parse(self.input.bytes()) {
                self.input.consume(amqp::PROTOCOL_HEADER.len());
                return Ok(header);
            }
            self.fill().await?;
        }
    }

    /// The next method on channel 0 and its table. Heartbeats are passed over.
    pub(super) async fn method(
        &mut self,
    ) -> Result<(connection::AMQPMethod, Table), HandshakeFault> {
        loop {
            let cut = self.decoder.next(self.input.bytes());
            let cut = cut.map_err(|fault| HandshakeFault::Protocol(fault.explanation()))?;
            let Some((frame, used)) = cut else {
                self.fill().await?;
                continue;
            };
            if frame.kind == FrameKind::Heartbeat {
                self.input.consume(used);
                continue;
            }
            if frame.kind != FrameKind::Method || frame.channel != 0 {
                return Err(HandshakeFault::OtherFrame(FrameFault::unexpected(&frame)));
            }
            let method = connection_method(frame.payload)?;
            self.input.consume(used);
            return Ok(method);
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.input.fill(&mut self.reader).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Sends a method.
    pub(super) async fn say(&mut self, method: &AMQPClass) -> io::Result<()> {
        self.send(&super::frame(method)).await
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes).await?;
        self.writer.flush().await
    }

    /// Ends our side of the stream.
    pub(super) async fn end(&mut self) {
        let _ = self.writer.shutdown().await;
    }
}

fn connection_method(payload: &[u8]) -> Result<(connection::AMQPMethod, Table), HandshakeFault> {
    let method = Method::decode(payload);
    let method = method.map_err(|fault| HandshakeFault::Protocol(fault.to_string()))?;
    if let Method::Other(other) = method
        && let AMQPClass::Connection(method) = other.call
    {
        return Ok((method, other.table));
    }
    Err(HandshakeFault::Protocol(
        "method of another class before the connection is open".into(),
    ))
}
