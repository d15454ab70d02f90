//! Tests of the health endpoints (WIRE §4.1).

mod support;

use futures::future::join_all;
use http::Method;
use optik_platform::{ManualClock, UnixMillis};
use optik_serve::{ServeOptions, StoreHealth};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::client::{Client, HttpVersion, request};
use support::{Port, ScriptedServer};
use tokio::sync::Notify;
use tokio::time::timeout;

const ALL: &str = "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]etcd-readiness ok\n[+]informer-sync ok\n\
    [+]poststarthook/start-apiextensions-controllers ok\n[+]idle-connections ok\n\
    [+]listener ok\n[+]watch-authorization ok\n[+]shutdown ok\n";

const PATIENCE: Duration = Duration::from_secs(30);

async fn until(client: &mut Client, path: &str, status: u16) {
    let asked = async { while client.get(path, &[]).await.status != status {} };
    let came = timeout(PATIENCE, asked).await;
    assert!(came.is_ok(), "{path} never answers {status}");
}

async fn client(running: &ScriptedServer) -> Client {
    Client::plain(running, HttpVersion::Http1).await
}

/// NODE-80.
#[tokio::test]
async fn health_endpoints_report_all_checks() {
    let running = ScriptedServer::start(Port::Plain).await;
    let mut client = client(&running).await;
    let passed = format!("{ALL}readyz check passed\n");
    let lively = "[+]ping ok\n[+]log ok\n[+]etcd ok\n\
        [+]poststarthook/start-apiextensions-controllers ok\nlivez check passed\n";
    let excluded = passed.replace("[+]etcd ok", "[+]etcd excluded: ok");
    let both_excluded = excluded.replace("[+]ping ok", "[+]ping excluded: ok");
    let warning = "warn: some health checks cannot be excluded: no matches for \"bar\",\"foo\"\n";
    let unknown = format!("{ALL}{warning}readyz check passed\n");
    for (path, status, text) in [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/readyz", 200, "ok"),
        ("/readyz?verbose", 200, passed.as_str()),
        ("/readyz?verbose=0", 200, passed.as_str()),
        ("/livez?verbose", 200, lively),
        ("/readyz?exclude=etcd&verbose", 200, &excluded),
        (
            "/readyz?exclude=etcd&exclude=ping&verbose",
            200,
            &both_excluded,
        ),
        ("/readyz?exclude=foo&exclude=bar&verbose", 200, &unknown),
        ("/readyz/etcd", 200, "ok"),
        (
            "/livez/poststarthook/start-apiextensions-controllers",
            200,
            "ok",
        ),
        ("/readyz/nope", 404, "404 page not found\n"),
        ("/livez/shutdown", 404, "404 page not found\n"),
    ] {
        let answer = client.get(path, &[]).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.text(), text, "{path}");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
    }
    let answer = client.get("/healthz", &[]).await;
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    let posted = client
        .send(request(Method::POST, "/healthz", &[], ""))
        .await;
    assert_eq!(posted.text(), "ok", "any method will do");
}

#[tokio::test]
async fn livez_and_readyz_fail_when_the_store_is_unreadable() {
    let options = ServeOptions {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::Unreadable))),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = client(&running).await;
    let answer = client.get("/livez", &[]).await;
    assert_eq!(answer.status, 500);
    assert_eq!(
        answer.text(),
        "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n\
         [+]poststarthook/start-apiextensions-controllers ok\nlivez check failed\n"
    );
    let excluded = client.get("/livez?exclude=etcd", &[]).await;
    assert_eq!((excluded.status.as_u16(), excluded.text()), (200, "ok"));
    assert_eq!(client.get("/readyz/etcd", &[]).await.status, 500);
}

/// A failed upkeep task is listed, but does not fail `/readyz`.
#[tokio::test]
async fn readyz_names_a_background_task_that_is_down() {
    for (name, ready) in [
        ("idle-connections", 200),
        ("listener", 500),
        ("watch-authorization", 500),
    ] {
        let options = support::options();
        let supervisor = options.supervisor.clone();
        let running = ScriptedServer::start_with(Port::Plain, options).await;
        let mut client = client(&running).await;
        // By now the connection is accepted.
        assert_eq!(client.get("/readyz", &[]).await.status, 200);
        let hold = supervisor.panic_next(name);
        let path = format!("/readyz/{name}");
        until(&mut client, &path, 500).await;
        let answer = client.get("/readyz?verbose", &[]).await;
        let line = format!("[-]{name} failed: reason withheld\n");
        assert!(answer.text().contains(&line), "{}", answer.text());
        assert_eq!(answer.status, ready, "{name}");
        let excluded = format!("/readyz?exclude={name}");
        assert_eq!(client.get(&excluded, &[]).await.status, 200);
        assert_eq!(
            client.get("/livez", &[]).await.status,
            200,
            "it may recover"
        );
        let metrics = client.get("/metrics", &[]).await;
        let line = format!("optik_background_task_panics_total{{task=\"{name}\"}} 1\n");
        assert!(metrics.text().contains(&line), "{}", metrics.text());
        drop(hold);
        until(&mut client, &path, 200).await;
        assert_eq!(client.get("/readyz", &[]).await.status, 200);
        // The port still accepts connections, also if the failed task is its own.
        let mut another = Client::plain(&running, HttpVersion::Http2).await;
        assert_eq!(another.get("/healthz", &[]).await.status, 200);
    }
}

#[tokio::test]
async fn readyz_fails_and_livez_passes_when_the_store_is_read_only() {
    let options = ServeOptions {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::ReadOnly))),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = client(&running).await;
    for (path, status) in [
        ("/livez", 200),
        ("/healthz", 200),
        ("/readyz/etcd", 200),
        ("/readyz/etcd-readiness", 500),
        ("/readyz?exclude=etcd-readiness", 200),
    ] {
        assert_eq!(client.get(path, &[]).await.status, status, "{path}");
    }
    let answer = client.get("/readyz", &[]).await;
    assert_eq!(answer.status, 500);
    let failed = "[+]etcd ok\n[-]etcd-readiness failed: reason withheld\n";
    assert!(answer.text().contains(failed), "{}", answer.text());
}

#[tokio::test]
async fn readyz_warns_when_the_store_disk_is_nearly_full() {
    let options = ServeOptions {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::NearlyFull))),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = client(&running).await;
    for path in [
        "/livez",
        "/readyz",
        "/readyz/etcd",
        "/readyz/etcd-readiness",
    ] {
        assert_eq!(client.get(path, &[]).await.status, 200, "{path}");
    }
    let warning = "warn: the disk of the store is nearly full\n";
    for (path, told) in [
        ("/readyz?verbose", true),
        ("/livez?verbose", false),
        ("/readyz", false),
    ] {
        let answer = client.get(path, &[]).await;
        assert_eq!(
            answer.text().contains(warning),
            told,
            "{path}: {}",
            answer.text()
        );
    }
}

/// The endpoints need no authorization; the store is probed at most once a second.
#[tokio::test]
async fn health_checks_probe_the_store_once_a_second() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let clock = Arc::new(ManualClock::new(UnixMillis(1)));
    let options = ServeOptions {
        clock: clock.clone(),
        store: Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                tokio::task::yield_now().await;
                StoreHealth::Healthy
            })
        }),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    for times in 1..=2 {
        let crowd = (0..20).map(|_| async {
            let mut client = client(&running).await;
            client.get("/readyz", &[]).await.status
        });
        assert!(join_all(crowd).await.iter().all(|status| *status == 200));
        assert_eq!(asked.load(Ordering::Relaxed), times);
        clock.advance(Duration::from_secs(1));
    }
}

/// Also if the clients disconnected before the probe completed.
#[tokio::test]
async fn store_health_probe_outlives_its_requests() {
    let asked = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(Notify::new());
    let (counter, answers) = (Arc::clone(&asked), Arc::clone(&gate));
    let options = ServeOptions {
        store: Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            let answers = Arc::clone(&answers);
            Box::pin(async move {
                answers.notified().await;
                StoreHealth::Healthy
            })
        }),
        clock: Arc::new(ManualClock::new(UnixMillis(1))),
        ..support::options()
    };
    let running = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = Client::plain(&running, HttpVersion::Http2).await;
    let mut other = client.share();
    for _ in 0..3 {
        let mut probe = Box::pin(other.get("/readyz", &[]));
        assert!(futures::poll!(&mut probe).is_pending());
        // Everything sent before has arrived by now: first the probe, then its reset.
        assert_eq!(client.get("/livez/ping", &[]).await.status, 200);
        drop(probe);
        assert_eq!(client.get("/livez/ping", &[]).await.status, 200);
    }
    gate.notify_one();
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Requests do not wait while a thread renders metrics.
#[tokio::test]
async fn metrics_rendering_does_not_block_requests() {
    let running = ScriptedServer::start(Port::Plain).await;
    let (done, waiting) = mpsc::channel();
    *running.handler.metrics_gate.lock().unwrap() = Some(waiting);
    let mut scraper = client(&running).await;
    let mut other = client(&running).await;
    let meanwhile = async {
        assert_eq!(other.get("/who", &[]).await.status, 200);
        done.send(()).expect("it waits");
    };
    let (page, ()) = tokio::join!(scraper.get("/metrics", &[]), meanwhile);
    assert_eq!(page.status, 200);
    assert!(page.text().ends_with("counted 1\n"), "{}", page.text());
}

#[tokio::test]
async fn livez_passes_before_readyz() {
    let running = ScriptedServer::starting().await;
    let mut client = client(&running).await;
    let answer = client.get("/readyz", &[]).await;
    assert_eq!(answer.status, 500);
    assert!(
        answer
            .text()
            .contains("[-]informer-sync failed: reason withheld\n")
    );
    assert!(answer.text().ends_with("readyz check failed\n"));
    assert_eq!(client.get("/livez", &[]).await.status, 200);
    running.server.set_ready();
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
}

#[tokio::test]
async fn version_endpoint_reports_kubernetes_version() {
    let running = ScriptedServer::start(Port::Plain).await;
    let answer = client(&running).await.get("/version", &[]).await;
    let version = answer.json();
    assert_eq!(
        (&version["major"], &version["minor"]),
        (&"1".into(), &"36".into())
    );
    let git = version["gitVersion"].as_str().unwrap();
    assert!(git.starts_with("v1.36.4"), "{git}");
    assert!(answer.text().starts_with("{\n  \"major\": \"1\",\n"));
    assert_eq!(version["compiler"], "rustc");
}
