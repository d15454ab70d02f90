//! The behaviour suite on the etcd engine over a real socket, against the etcd façade with an
//! embedded store. So the engine and the façade are both covered without an installed etcd; `cargo
//! xtask compat` runs the suite on a real etcd.

use optik_etcd_facade::Facade;
use optik_store::{EtcdOptions, Options, Store};
use optik_store_testkit::suite::run_all;
use tokio::net::TcpListener;

/// A façade over a new store; returns where it listens.
async fn facade() -> String {
    let store = Store::open(Options::ephemeral()).expect("opens");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let facade = Facade::new(store, optik_etcd_facade::FacadeOptions::default());
    tokio::spawn(facade.serve(listener, std::future::pending()));
    format!("http://{address}")
}

async fn connect(url: String) -> Store {
    let options = EtcdOptions::new(vec![url]);
    Store::connect(options).await.expect("the façade is up")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_suite_passes_through_etcd_facade() {
    run_all(async || connect(facade().await).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_suite_passes_through_etcd_facade_on_one_store() {
    let url = facade().await;
    let store = connect(url).await;
    run_all(async || store.clone()).await;
}
