//! Generates Rust from `proto/` with a compiler written in Rust, so that building Optik needs no
//! `protoc`.

use std::error::Error;

const INCLUDE_DIR: &str = "proto";

const FILES: [&str; 6] = [
    "etcdserverpb/kv.proto",
    "etcdserverpb/watch.proto",
    "etcdserverpb/lease.proto",
    "etcdserverpb/cluster.proto",
    "etcdserverpb/maintenance.proto",
    "etcdserverpb/auth.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={INCLUDE_DIR}");

    let descriptors = protox::compile(FILES, [INCLUDE_DIR])?;
    tonic_prost_build::configure()
        // Keys and values share the received buffer instead of being copied.
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
