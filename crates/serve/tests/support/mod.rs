//! A server on a free port, and clients for it.
#![allow(dead_code, reason = "no test file uses all of it")]

pub(crate) mod client;
pub(crate) mod handler;

use handler::Scripted;
use optik_platform::{SystemEntropy, UnixMillis};
use optik_serve::pki::{Circumstances, Pki, server_names};
use optik_serve::{Options, Server, TlsMaterial, Tokens};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const TOKENS: &str = "secret,kim,7,\"writers,readers\"\n";

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) pki: Pki,
    pub(crate) server: Server<Scripted>,
    pub(crate) handler: Scripted,
    pub(crate) tls: Option<TlsMaterial>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub(crate) enum Port {
    Tls,
    Plain,
}

pub(crate) fn pki() -> Pki {
    let at = Circumstances {
        now: now(),
        entropy: &SystemEntropy,
    };
    Pki::in_memory(server_names(LOCALHOST, None), at).expect("certificates")
}

pub(crate) fn now() -> UnixMillis {
    use optik_platform::{Clock, SystemClock};
    SystemClock::default().wall()
}

pub(crate) fn options() -> Options {
    Options {
        tokens: Tokens::parse(TOKENS.as_bytes()).expect("tokens"),
        ..Options::default()
    }
}

impl Running {
    pub(crate) async fn start(port: Port) -> Self {
        Self::with(port, options()).await
    }

    pub(crate) async fn with(port: Port, options: Options) -> Self {
        let running = Self::unready(port, options).await;
        running.server.ready();
        running
    }

    /// Nobody has said yet that it is ready.
    pub(crate) async fn starting() -> Self {
        Self::unready(Port::Plain, options()).await
    }

    /// With these certificates.
    pub(crate) async fn known_by(pki: Pki) -> Self {
        let running = Self::unready_with(Port::Tls, options(), pki).await;
        running.server.ready();
        running
    }

    async fn unready(port: Port, options: Options) -> Self {
        Self::unready_with(port, options, pki()).await
    }

    async fn unready_with(port: Port, options: Options, pki: Pki) -> Self {
        let tls = match port {
            Port::Plain => None,
            Port::Tls => Some(material(&pki)),
        };
        let handler = Scripted::default();
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

    /// Tells the server to stop; the task ends when it has.
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
