//! The pages that watchdogs read (wire.md §4.1).

mod support;

use futures::future::join_all;
use http::Method;
use optik_platform::{ManualClock, UnixMillis};
use optik_serve::{Options, StoreHealth};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::client::{Client, Version, request};
use support::{Port, Running};
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

async fn client(running: &Running) -> Client {
    Client::plain(running, Version::Http1).await
}

#[tokio::test]
async fn healthy() {
    let running = Running::start(Port::Plain).await;
    let mut client = client(&running).await;
    let passed = format!("{ALL}readyz check passed\n");
    let lively = "[+]ping ok\n[+]log ok\n[+]etcd ok\n\
        [+]poststarthook/start-apiextensions-controllers ok\nlivez check passed\n";
    let excluded = passed.replace("[+]etcd ok", "[+]etcd excluded: ok");
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
async fn an_unreadable_store_is_neither_alive_nor_ready() {
    let options = Options {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::Unreadable))),
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
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

/// What is only upkeep is shown, but others can be served meanwhile.
#[tokio::test]
async fn a_task_that_is_down_is_shown_under_its_name() {
    for (name, ready) in [
        ("idle-connections", 200),
        ("listener", 500),
        ("watch-authorization", 500),
    ] {
        let options = support::options();
        let supervisor = options.supervisor.clone();
        let running = Running::with(Port::Plain, options).await;
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
        // The port still lets clients in, also if its own task was the one.
        let mut another = Client::plain(&running, Version::Http2).await;
        assert_eq!(another.get("/healthz", &[]).await.status, 200);
    }
}

#[tokio::test]
async fn a_store_that_refuses_writes_is_alive_but_not_ready() {
    let options = Options {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::ReadOnly))),
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
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
async fn a_disk_that_is_nearly_full_is_no_failure_but_is_told() {
    let options = Options {
        store: Arc::new(|| Box::pin(std::future::ready(StoreHealth::NearlyFull))),
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
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

/// Anybody may ask; the store is asked once a second all the same.
#[tokio::test]
async fn the_store_is_asked_once_for_all() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let clock = Arc::new(ManualClock::new(UnixMillis(1)));
    let options = Options {
        clock: clock.clone(),
        store: Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                tokio::task::yield_now().await;
                StoreHealth::Well
            })
        }),
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
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

/// Also if whoever asked has gone before there was an answer.
#[tokio::test]
async fn a_question_outlives_those_who_asked() {
    let asked = Arc::new(AtomicU32::new(0));
    let gate = Arc::new(Notify::new());
    let (counter, answers) = (Arc::clone(&asked), Arc::clone(&gate));
    let options = Options {
        store: Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            let answers = Arc::clone(&answers);
            Box::pin(async move {
                answers.notified().await;
                StoreHealth::Well
            })
        }),
        clock: Arc::new(ManualClock::new(UnixMillis(1))),
        ..support::options()
    };
    let running = Running::with(Port::Plain, options).await;
    let mut client = Client::plain(&running, Version::Http2).await;
    let mut other = client.share();
    for _ in 0..3 {
        let mut probe = Box::pin(other.get("/readyz", &[]));
        assert!(futures::poll!(&mut probe).is_pending());
        // What was sent before this has come by now, first the probe, then its reset.
        assert_eq!(client.get("/livez/ping", &[]).await.status, 200);
        drop(probe);
        assert_eq!(client.get("/livez/ping", &[]).await.status, 200);
    }
    gate.notify_one();
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Nobody's requests wait while a thread writes down what the server counts.
#[tokio::test]
async fn metrics_are_written_beside_requests() {
    let running = Running::start(Port::Plain).await;
    let (done, waiting) = mpsc::channel();
    *running.handler.counting.lock().unwrap() = Some(waiting);
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
async fn a_server_is_alive_before_it_is_ready() {
    let running = Running::starting().await;
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
    running.server.ready();
    assert_eq!(client.get("/readyz", &[]).await.status, 200);
}

#[tokio::test]
async fn version() {
    let running = Running::start(Port::Plain).await;
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
