//! A partial WebSocket client, sufficient to read a watch: unmasked frames of a server.

use crate::client::REQUEST_TIMEOUT;
use crate::failure::ensure;
use crate::{Client, Failure, Outcome, Request};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;

/// One frame.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const TEXT: u8 = 1;
pub(crate) const CLOSE: u8 = 8;

/// A connection after the 101.
pub(crate) struct Socket(TokioIo<hyper::upgrade::Upgraded>);

/// A request to upgrade.
pub(crate) fn request(path: &str) -> Request {
    Request::get(path)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "AAECAwQFBgcICQoLDA0ODw==")
}

impl Socket {
    pub(crate) async fn open(client: &Client, path: &str) -> Outcome<Self> {
        // The origin of the server itself, which is always allowed.
        let origin = format!("http://{}", client.authority());
        let request = request(path).header("origin", origin);
        let response = client.open(request).await?;
        ensure!(
            response.status() == http::StatusCode::SWITCHING_PROTOCOLS,
            "{path}: expected 101, got {}",
            response.status()
        );
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.map_err(|cause| Failure::new(format!("{path}: {cause}")))?;
        Ok(Self(TokioIo::new(upgraded)))
    }

    pub(crate) async fn frame(&mut self) -> Outcome<Frame> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.read()).await {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(cause)) => Err(Failure::new(format!("no frame: {cause}"))),
            Err(_) => Err(Failure::new(format!("no frame in {REQUEST_TIMEOUT:?}"))),
        }
    }

    async fn read(&mut self) -> std::io::Result<Frame> {
        let opcode = self.0.read_u8().await? & 0x0f;
        let length = match self.0.read_u8().await? & 0x7f {
            126 => u64::from(self.0.read_u16().await?),
            127 => self.0.read_u64().await?,
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.0.read_exact(&mut payload).await?;
        Ok(Frame { opcode, payload })
    }
}
