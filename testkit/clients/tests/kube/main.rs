//! kube-rs against a whole server: its API, its watcher, its reflector; on wires that
//! break, and across compactions.
//!
//! It sends no Accept, and reads JSON (wire 94).

mod beginning;
mod churn;
mod compaction;
mod errors;
mod follower;
mod kinds;
mod ledger;
mod lossy;
mod objects;
mod pages;
mod reflecting;
mod scene;
mod watching;

/// One test for each engine.
macro_rules! on_every_engine {
    ($($scenario:ident),* $(,)?) => {
        $(mod $scenario {
            use optik_server_testkit::Engine;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::super::$scenario(Engine::Memory).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_disk() {
                super::super::$scenario(Engine::Disk).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_an_etcd() {
                super::super::$scenario(Engine::EtcdFace).await;
            }
        })*
    };
}
use on_every_engine;

fn client(url: &str) -> kube::Client {
    let config = kube::Config::new(url.parse().expect("an address"));
    kube::Client::try_from(config).expect("a client needs nothing else")
}
