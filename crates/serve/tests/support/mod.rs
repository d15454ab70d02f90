//! A server on a free port, and clients for it.
#![allow(dead_code, reason = "no test file uses all of it")]

pub(crate) mod client;
pub(crate) mod handler;

use handler::ScriptedHandler;
use optik_platform::{SystemEntropy, UnixMillis};
use optik_serve::pki::{IssuanceContext, Pki, server_names};
use optik_serve::{ServeOptions, Server, TlsMaterial, TokenFile};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const TOKENS: &str = "secret,kim,7,\"writers,readers\"\n";

pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    pub(crate) pki: Pki,
    pub(crate) server: Server<ScriptedHandler>,
    pub(crate) handler: ScriptedHandler,
    pub(crate) tls: Option<TlsMaterial>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub(crate) enum Port {
    Tls,
    Plain,
}

pub(crate) fn pki() -> Pki {
    let at = IssuanceContext {
        now: now(),
        entropy: &SystemEntropy,
    };
    Pki::in_memory(server_names(LOCALHOST, None), at).expect("certificates")
}

pub(crate) fn now() -> UnixMillis {
    use optik_platform::{Clock, SystemClock};
    SystemClock::default().wall()
}

pub(crate) fn options() -> ServeOptions {
    ServeOptions {
        tokens: TokenFile::parse(TOKENS.as_bytes()).expect("tokens"),
        ..ServeOptions::default()
    }
}

impl ScriptedServer {
    pub(crate) async fn start(port: Port) -> Self {
        Self::start_with(port, options()).await
    }

    pub(crate) async fn start_with(port: Port, options: ServeOptions) -> Self {
        let running = Self::start_unready(port, options).await;
        running.server.set_ready();
        running
    }

    /// A server that is not ready yet.
    pub(crate) async fn starting() -> Self {
        Self::start_unready(Port::Plain, options()).await
    }

    /// A server with these certificates.
    pub(crate) async fn start_with_pki(pki: Pki) -> Self {
        let running = Self::start_unready_with(Port::Tls, options(), pki).await;
        running.server.set_ready();
        running
    }

    async fn start_unready(port: Port, options: ServeOptions) -> Self {
        Self::start_unready_with(port, options, pki()).await
    }

    async fn start_unready_with(port: Port, options: ServeOptions, pki: Pki) -> Self {
        let tls = match port {
            Port::Plain => None,
            Port::Tls => Some(material(&pki)),
        };
        let handler = ScriptedHandler::default();
        let server = Server::new(handler.clone(), options);
        let listener = TcpListener::bind((LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server.clone();
        let given = tls.clone();
        let task = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            serving.serve(listener, given, stopped).await;
        });
        Self {
            address,
            pki,
            server,
            handler,
            tls,
            stop,
            task,
        }
    }

    /// Requests a shutdown; the task ends when the server has stopped.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).expect("it is running");
        self.task
    }
}

pub(crate) fn material(pki: &Pki) -> TlsMaterial {
    let authorities = pki.authority.as_bytes();
    let (certificate, key) = (&pki.server.certificate, &pki.server.key);
    TlsMaterial::new(certificate.as_bytes(), key.as_bytes(), authorities).expect("fits")
}
