//! The servers under test.

use optik_etcd_facade::{Facade, FacadeOptions};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{Options, Store};
use tokio::net::TcpListener;

pub(crate) async fn one(engine: TestEngine) -> Vec<TestServer> {
    vec![TestServer::start_bare(engine).await]
}

/// Two servers that share an etcd: a write acknowledged by one must be visible on the other.
pub(crate) async fn two_on_an_etcd() -> Vec<TestServer> {
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a free port can be had");
    let address = listener.local_addr().expect("it is bound");
    let store = Store::open(Options::ephemeral()).expect("memory can be had");
    let facade = Facade::new(store, FacadeOptions::default());
    tokio::spawn(async move {
        facade.serve(listener, std::future::pending()).await;
    });
    let url = format!("http://{address}");
    let mut servers = Vec::new();
    for _ in 0..2 {
        let url = url.clone();
        servers.push(TestServer::start_bare(TestEngine::Etcd { url }).await);
    }
    servers
}
