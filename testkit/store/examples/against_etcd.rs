//! The behaviour suite on a real etcd cluster: `against_etcd URL[,URL…]`.
//!
//! `cargo xtask compat` starts the clusters; nothing here installs anything.
#![expect(
    clippy::print_stdout,
    reason = "a person or a script reads the verdict"
)]

use optik_store::{EtcdOptions, Store};
use optik_store_testkit::suite::{all, run_all};

#[tokio::main]
async fn main() {
    let endpoints = std::env::args()
        .nth(1)
        .expect("usage: against_etcd URL[,URL…]");
    let endpoints: Vec<_> = endpoints.split(',').map(str::to_owned).collect();
    // One connection per check, as after a restart; the cluster keeps what was before.
    let connect = async || {
        let options = EtcdOptions::new(endpoints.clone());
        Store::connect(options).await.expect("the cluster is up")
    };
    run_all(connect).await;
    println!("{} passed, 0 failed", all().len());
}
