//! HTTP connections, and a pool of idle ones.

use crate::{Failure, Outcome, Target};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

pub(crate) type Connection = SendRequest<Full<Bytes>>;

/// Idle connections.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    /// Whether the receive buffer of the kernel is small.
    narrow: bool,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(target: Target, narrow: bool) -> Arc<Self> {
        Arc::new(Self {
            target,
            narrow,
            idle: Mutex::default(),
        })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().expect("no holder of this lock panics");
        while let Some(connection) = idle.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn give_back(&self, connection: Connection) {
        if !connection.is_closed() {
            let mut idle = self.idle.lock().expect("no holder of this lock panics");
            idle.push(connection);
        }
    }

    /// Sends on an idle connection or on a new one. The server may have closed an idle connection
    /// meanwhile: a request that was not sent is sent again.
    pub(crate) async fn send(
        &self,
        mut request: http::Request<Full<Bytes>>,
    ) -> Outcome<(http::Response<Incoming>, Connection)> {
        while let Some(mut connection) = self.idle() {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Failure::new(format!("broken: {}", error.error()))),
                },
            }
        }
        let mut connection = connect(&self.target, self.narrow).await?;
        match connection.send_request(request).await {
            Ok(response) => Ok((response, connection)),
            Err(error) => Err(Failure::new(format!("connection failed: {error}"))),
        }
    }
}

async fn connect(target: &Target, narrow: bool) -> Outcome<Connection> {
    let cannot =
        |cause: &dyn std::fmt::Display| Failure::new(format!("{}: {cause}", target.authority));
    let tcp = dial(&target.authority, narrow).await;
    let tcp = tcp.map_err(|cause| cannot(&cause))?;
    tcp.set_nodelay(true).map_err(|cause| cannot(&cause))?;
    let Some(tls) = &target.tls else {
        return handshake(TokioIo::new(tcp)).await;
    };
    let name = ServerName::try_from(target.host().to_owned()).map_err(|cause| cannot(&cause))?;
    let stream = TlsConnector::from(Arc::clone(tls))
        .connect(name, tcp)
        .await
        .map_err(|cause| cannot(&cause))?;
    handshake(TokioIo::new(stream)).await
}

async fn dial(authority: &str, narrow: bool) -> std::io::Result<TcpStream> {
    const BUFFER_BYTES: u32 = 8 * 1024;
    let mut addresses = tokio::net::lookup_host(authority).await?;
    let Some(address) = addresses.next().filter(|_| narrow) else {
        return TcpStream::connect(authority).await;
    };
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    socket.connect(address).await
}

async fn handshake<T>(io: T) -> Outcome<Connection>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(io)
        .await
        .map_err(|cause| Failure::new(cause.to_string()))?;
    // The task ends with the connection; the sender of the request gets the error.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}
