//! Put throughput of a real etcd.

use super::StoreBench;
use super::commit::closed_loop;
use super::store_report::StoreBenchReport;
use crate::error::BenchError;
use crate::settle::settle;
use bytes::Bytes;
use optik_etcd_api::etcdserverpb::PutRequest;
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams share connections, as they do in etcd's own client.
const CONNECTIONS_MAX: usize = 8;

pub(crate) async fn measure(
    options: &StoreBench,
    url: &str,
    report: &mut StoreBenchReport,
) -> Result<(), BenchError> {
    for writers in &options.writers {
        settle();
        let mut clients = Vec::new();
        for _ in 0..(*writers).min(CONNECTIONS_MAX) {
            let client = KvClient::connect(url.to_owned()).await;
            clients.push(client.map_err(|cause| BenchError::new("cannot reach etcd", cause))?);
        }
        let clients = Arc::new(clients);
        let turn = Arc::new(AtomicUsize::new(0));
        let put = move |key: String, value: Bytes| {
            let number = turn.fetch_add(1, Ordering::Relaxed) % clients.len();
            let mut client = clients[number].clone();
            async move {
                let request = PutRequest {
                    key: key.into(),
                    value,
                    ..PutRequest::default()
                };
                client.put(request).await.is_ok()
            }
        };
        let what = format!("etcd put, {writers} writers");
        report.add(closed_loop(what, options, *writers, put).await?);
    }
    Ok(())
}
