//! Watches over WebSocket (RFC 6455): each watch event is one frame (WIRE §3.2).
//!
//! An upgrade request is answered like any other; only the events of a watch stream are put into
//! frames. Frames from the client are discarded, except for ping and close.

use crate::response::{BodyContent, BodyStream};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_TYPE, HeaderMap, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE,
};
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use optik_listener::ConnectionSlot;
use ring::digest;
use std::future::poll_fn;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::task::TaskTracker;

/// The GUID that RFC 6455 appends to the client's key.
const HANDSHAKE_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The size limit of a frame from the client; clients of a watch send next to nothing.
const CLIENT_FRAME_BYTES_MAX: u64 = 64 * 1024;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// The FIN bit: a frame that is a whole message.
const FINAL: u8 = 0x80;
const NORMAL_CLOSURE: [u8; 2] = 1000_u16.to_be_bytes();

/// A request to upgrade to WebSocket.
pub(crate) struct UpgradeRequest {
    upgrade: OnUpgrade,
    accept: HeaderValue,
    /// Whether an `Origin` header was sent. Upstream's library rejects requests without one.
    has_origin: bool,
}

/// The upgrade that a request asks for; `None` if it asks for none.
pub(crate) fn upgrade_request(request: &mut http::Request<Incoming>) -> Option<UpgradeRequest> {
    let headers = request.headers();
    let lists = |name, word: &str| header_lists(headers, name, word);
    if !lists(UPGRADE, "websocket") || !lists(CONNECTION, "upgrade") {
        return None;
    }
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    let accept = accept_key(key.as_bytes())?;
    let has_origin = headers.contains_key(ORIGIN);
    Some(UpgradeRequest {
        upgrade: hyper::upgrade::on(request),
        accept,
        has_origin,
    })
}

fn header_lists(headers: &HeaderMap, name: http::HeaderName, word: &str) -> bool {
    headers.get_all(name).iter().any(|value| {
        let text = value.to_str().unwrap_or_default();
        text.split(',')
            .any(|own| own.trim().eq_ignore_ascii_case(word))
    })
}

/// The value of `Sec-WebSocket-Accept`.
fn accept_key(key: &[u8]) -> Option<HeaderValue> {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(HANDSHAKE_GUID);
    HeaderValue::from_str(&STANDARD.encode(hash.finish())).ok()
}

impl UpgradeRequest {
    /// Switches the protocol and sends the events of a watch in frames. Any other response is
    /// returned unchanged.
    pub(crate) fn upgrade_response(
        self,
        response: http::Response<BodyContent>,
        tasks: &TaskTracker,
        slot: ConnectionSlot,
    ) -> http::Response<BodyContent> {
        if response.status() != StatusCode::OK {
            return response;
        }
        if !self.has_origin {
            let mut refused = http::Response::new(BodyContent::Whole(Bytes::new()));
            *refused.status_mut() = StatusCode::FORBIDDEN;
            return refused;
        }
        let framing = Framing::from_content_type(response.headers());
        let (mut head, content) = response.into_parts();
        let BodyContent::Stream(pieces) = content else {
            return http::Response::from_parts(head, content);
        };
        let upgrade = self.upgrade;
        // Spawned here: it belongs to one connection, and ends with it.
        tasks.spawn(async move {
            let outcome = match upgrade.await {
                Ok(io) => relay_events(TokioIo::new(io), pieces, framing).await,
                Err(error) => Err(io::Error::other(error)),
            };
            // The connection continues to exist after the task that accepted it.
            drop(slot);
            if let Err(error) = outcome {
                tracing::debug!(%error, "WebSocket connection failed");
            }
        });
        head.status = StatusCode::SWITCHING_PROTOCOLS;
        head.headers.clear();
        let words = [(UPGRADE, "websocket"), (CONNECTION, "Upgrade")];
        for (name, word) in words {
            head.headers.insert(name, HeaderValue::from_static(word));
        }
        head.headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        http::Response::from_parts(head, BodyContent::Whole(Bytes::new()))
    }
}

/// How events are delimited in a chunk.
#[derive(Clone, Copy)]
enum Framing {
    NewlineDelimited,
    /// Each event is preceded by its length in four bytes.
    LengthDelimited,
}

impl Framing {
    fn from_content_type(headers: &HeaderMap) -> Self {
        let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        match media_type {
            Some(name) if name.starts_with(b"application/json") => Self::NewlineDelimited,
            _ => Self::LengthDelimited,
        }
    }

    /// Splits the next event off a chunk; chunks contain whole events only.
    fn split_event(self, piece: &mut Bytes) -> Option<Bytes> {
        match self {
            _ if piece.is_empty() => None,
            Self::NewlineDelimited => {
                let end = piece.iter().position(|byte| *byte == b'\n');
                let end = end.map_or(piece.len(), |at| at + 1);
                Some(piece.split_to(end))
            }
            Self::LengthDelimited => {
                let length = piece.get(..4)?.try_into().ok()?;
                let end = usize::try_from(u32::from_be_bytes(length))
                    .ok()?
                    .checked_add(4)?;
                if end > piece.len() {
                    return None;
                }
                Some(piece.split_to(end).split_off(4))
            }
        }
    }

    fn opcode(self) -> u8 {
        match self {
            Self::NewlineDelimited => TEXT,
            Self::LengthDelimited => BINARY,
        }
    }
}

/// Sends events until the stream ends or the client closes.
async fn relay_events(
    io: impl AsyncRead + AsyncWrite,
    mut pieces: Box<BodyStream>,
    framing: Framing,
) -> io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut incoming = ClientFrameReader::default();
    loop {
        tokio::select! {
            piece = poll_fn(|cx| pieces.poll_next(cx)) => {
                let Some(piece) = piece else { break };
                let mut piece = piece.into_bytes();
                while let Some(event) = framing.split_event(&mut piece) {
                    write_frame(&mut writer, framing.opcode(), &event).await?;
                }
                writer.flush().await?;
            }
            read = incoming.fill(&mut reader) => {
                read?;
                while let Some((opcode, payload)) = incoming.next_frame()? {
                    match opcode {
                        PING => write_frame(&mut writer, PONG, &payload).await?,
                        CLOSE => {
                            write_frame(&mut writer, CLOSE, &payload).await?;
                            return writer.shutdown().await;
                        }
                        _ => {}
                    }
                }
                writer.flush().await?;
            }
        }
    }
    write_frame(&mut writer, CLOSE, &NORMAL_CLOSURE).await?;
    writer.shutdown().await
}

async fn write_frame(
    out: &mut (impl AsyncWrite + Unpin),
    opcode: u8,
    payload: &[u8],
) -> io::Result<()> {
    let mut head = vec![FINAL | opcode];
    match payload.len() {
        short @ ..126 => head.push(short as u8),
        middle @ ..0x1_0000 => {
            head.push(126);
            head.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            head.push(127);
            head.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.write_all(&head).await?;
    out.write_all(payload).await
}

/// Bytes from the client that have not been parsed. [`Self::fill`] is cancellation-safe.
#[derive(Default)]
struct ClientFrameReader {
    bytes: Vec<u8>,
}

impl ClientFrameReader {
    async fn fill(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        match reader.read_buf(&mut self.bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The next frame, unmasked; `None` if it is incomplete.
    fn next_frame(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let bytes = &self.bytes;
        let Some([first, second]) = bytes.get(..2) else {
            return Ok(None);
        };
        let (opcode, masked) = (first & 0x0f, second & 0x80 != 0);
        let (length, mut at) = match second & 0x7f {
            126 => (extended_length(bytes, 2), 4),
            127 => (extended_length(bytes, 8), 10),
            short => (Some(u64::from(short)), 2),
        };
        let Some(length) = length else {
            return Ok(None);
        };
        if length > CLIENT_FRAME_BYTES_MAX {
            return Err(io::Error::other(
                "WebSocket frame from client exceeds the size limit",
            ));
        }
        let mask = masked.then(|| bytes.get(at..at + 4).map(<[u8]>::to_vec));
        at += if masked { 4 } else { 0 };
        let end = at + usize::try_from(length).unwrap_or(usize::MAX);
        let (Some(payload), false) = (bytes.get(at..end), mask == Some(None)) else {
            return Ok(None);
        };
        let mask = mask.flatten().unwrap_or_else(|| vec![0; 4]);
        let payload = payload.iter().zip(mask.iter().cycle());
        let payload = payload.map(|(byte, mask)| byte ^ mask).collect();
        self.bytes.drain(..end);
        Ok(Some((opcode, payload)))
    }
}

/// The extended length: a big-endian number of `size` bytes after the first two.
fn extended_length(bytes: &[u8], size: usize) -> Option<u64> {
    let digits = bytes.get(2..2 + size)?;
    Some(
        digits
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455.
    #[test]
    fn websocket_accept_key_matches_rfc_6455() {
        let proof = accept_key(b"dGhlIHNhbXBsZSBub25jZQ==").unwrap();
        assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn websocket_client_frames_are_unmasked_and_bounded() {
        let mut incoming = ClientFrameReader::default();
        assert_eq!(incoming.next_frame().unwrap(), None);
        // "Hello", masked, as in the example of the RFC; then an empty ping.
        let hello = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        for (at, byte) in hello.iter().enumerate() {
            incoming.bytes.push(*byte);
            let next = incoming.next_frame().unwrap();
            assert_eq!(next.is_some(), at + 1 == hello.len());
            if let Some((opcode, payload)) = next {
                assert_eq!((opcode, &payload[..]), (TEXT, &b"Hello"[..]));
            }
        }
        incoming.bytes.extend([0x89, 0x80, 1, 2, 3, 4]);
        assert_eq!(incoming.next_frame().unwrap(), Some((PING, Vec::new())));
        incoming.bytes.extend([0x81, 127, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(incoming.next_frame().is_err());
    }

    #[test]
    fn websocket_splits_watch_chunks_into_events() {
        let mut lines = Bytes::from_static(b"{}\n{\"a\":1}\n");
        assert_eq!(
            Framing::NewlineDelimited.split_event(&mut lines).unwrap(),
            "{}\n"
        );
        assert_eq!(
            Framing::NewlineDelimited.split_event(&mut lines).unwrap(),
            "{\"a\":1}\n"
        );
        assert!(Framing::NewlineDelimited.split_event(&mut lines).is_none());
        let mut frames = Bytes::from_static(&[0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9]);
        assert_eq!(
            Framing::LengthDelimited.split_event(&mut frames).unwrap()[..],
            [7, 8]
        );
        assert_eq!(
            Framing::LengthDelimited.split_event(&mut frames).unwrap()[..],
            [9]
        );
        assert!(Framing::LengthDelimited.split_event(&mut frames).is_none());
    }
}
