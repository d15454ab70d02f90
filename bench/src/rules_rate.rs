//! `optik-bench rules-rate`: the rate at which a server creates custom resources whose schema has
//! fifty CEL rules.

use crate::error::BenchError;
use clap::Args;
use optik_api_testkit::{Client, Target};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct RulesRateBench {
    /// For example https://127.0.0.1:6443; any certificate will do.
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// How many rules the kind has.
    #[arg(long, default_value_t = 50)]
    rules: usize,
}

const NAME: &str = "ruled.bench.optik.test";
const OBJECTS: &str = "/apis/bench.optik.test/v1/namespaces/default/ruled";

/// CEL rules that are typical of CRDs: presence, bounds, strings, lists and maps.
fn rules(count: usize) -> Vec<Value> {
    let some = [
        "self.min <= self.max",
        "!has(self.none) || self.none == ''",
        "self.name.startsWith('n') && self.name.size() < 40",
        "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "self.list.all(x, x.size() > 0)",
        "self.list.exists(x, x == 'b')",
        "self.map.all(k, self.map[k] > 0)",
        "self.items.all(i, i.port > 0 && i.port < 65536)",
        "self.items.exists_one(i, i.name == 'http')",
        "self.mode in ['a', 'b', 'c'] ? self.max > 1 : self.max == 0",
    ];
    let rules = some.iter().cycle().take(count).enumerate();
    rules
        .map(|(index, rule)| json!({"rule": format!("{rule} || self.min > {}", 1000 + index)}))
        .collect()
}

fn definition(count: usize) -> Value {
    let text = json!({"type": "string", "maxLength": 64});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME}, "spec": {
            "group": "bench.optik.test", "scope": "Namespaced",
            "names": {"plural": "ruled", "kind": "Ruled"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "x-kubernetes-validations": rules(count), "properties": {
                        "min": {"type": "integer"}, "max": {"type": "integer"},
                        "none": text, "name": text, "mode": text,
                        "list": {"type": "array", "maxItems": 20, "items": text},
                        "map": {"type": "object", "maxProperties": 20,
                            "additionalProperties": {"type": "integer"}},
                        "items": {"type": "array", "maxItems": 20, "items": {"type": "object",
                            "properties": {"name": text, "port": {"type": "integer"}}}},
                    }}}}}}],
        },
    })
}

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "bench.optik.test/v1", "kind": "Ruled", "metadata": {"name": name},
        "spec": {
            "min": 1, "max": 5, "name": "name-of-it", "mode": "b", "list": ["a", "b", "c"],
            "map": {"x": 1, "y": 2},
            "items": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
        },
    })
}

#[expect(clippy::print_stdout, reason = "the result is data")]
pub(crate) async fn run(options: RulesRateBench) -> Result<(), BenchError> {
    let measured = measure(&options).await;
    println!("{}", measured.map_err(BenchError::from_message)?);
    Ok(())
}

async fn measure(options: &RulesRateBench) -> Result<String, String> {
    let target = Target::parse(&options.server, options.token.clone())?;
    let client = Client::new(target);
    let failed = |failure: optik_api_testkit::Failure| failure.to_string();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client
        .post(definitions, &definition(options.rules))
        .await
        .map_err(failed)?;
    if made.status != 201 {
        return Err(format!("{}: {}", made.status, made.text()));
    }
    let mut pause = tokio::time::interval(Duration::from_millis(100));
    while client.get(OBJECTS).await.map_err(failed)?.status != 200 {
        pause.tick().await;
    }
    // A kube-apiserver delays the first create after the CRD is established.
    client
        .post(OBJECTS, &object("first"))
        .await
        .map_err(failed)?;
    let (count, time) = (
        Arc::new(AtomicU64::new(0)),
        Duration::from_secs(options.seconds),
    );
    let workers = (0..options.connections).map(|worker| {
        let (client, count) = (client.with_new_connections(), Arc::clone(&count));
        tokio::spawn(tokio::time::timeout(time, async move {
            for number in 0_u64.. {
                let body = object(&format!("o-{worker}-{number}"));
                let answer = client.post(OBJECTS, &body).await;
                if answer.is_ok_and(|answer| answer.status == 201) {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }))
    });
    for worker in workers.collect::<Vec<_>>() {
        let _ = worker.await;
    }
    let count = count.load(Ordering::Relaxed);
    client
        .delete(&format!("{definitions}/{NAME}"))
        .await
        .map_err(failed)?;
    Ok(format!(
        "{count} creates with {} rules in {} s: {} in a second",
        options.rules,
        options.seconds,
        count / options.seconds.max(1)
    ))
}
