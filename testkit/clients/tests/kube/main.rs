//! kube-rs against a whole server: its API, its watcher, its reflector; with cut connections, and
//! across compactions.
//!
//! It sends no Accept, and reads JSON (WIRE-94).

mod churn;
mod compaction;
mod errors;
mod fixture;
mod interrupted_initial_list;
mod lost_lines;
mod object_lifecycle;
mod observed_watch;
mod pagination;
mod reflector;
mod sample_objects;
mod store_change_log;
mod watcher_events;

/// One test for each engine.
macro_rules! on_every_engine {
    ($($scenario:ident),* $(,)?) => {
        $(mod $scenario {
            use optik_server_testkit::TestEngine;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::super::$scenario(TestEngine::Memory).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_disk() {
                super::super::$scenario(TestEngine::Disk).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_an_etcd() {
                super::super::$scenario(TestEngine::EtcdFacade).await;
            }
        })*
    };
}
use on_every_engine;

fn client(url: &str) -> kube::Client {
    let config = kube::Config::new(url.parse().expect("an address"));
    kube::Client::try_from(config).expect("a client needs nothing else")
}
