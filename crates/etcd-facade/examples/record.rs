//! Prints the responses of a server to the script of the tests.
//!
//! `cargo xtask record etcd` starts an empty etcd and records its responses:
//! ```text
//! cargo run -p optik-etcd-facade --example record -- http://127.0.0.1:2379 \
//!     > recordings/etcd/etcd-3.6.8.txt
//! ```

#[path = "../tests/support/mod.rs"]
mod support;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "its output is its purpose")]
async fn main() {
    let url = std::env::args().nth(1);
    let url = url.unwrap_or_else(|| "http://127.0.0.1:2379".into());
    let channel = support::connect(&url).await;
    print!("{}", support::script::run(channel).await);
}
