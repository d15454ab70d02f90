//! Tests of stream re-authorization: streams end when their authorization does, and not before. See
//! THREAT_MODEL.md.

mod support;

use http::header::{AUTHORIZATION, HeaderName};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use optik_platform::{ManualClock, UnixMillis};
use optik_serve::{Limits, ServeOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request};
use support::{Port, ScriptedServer, now, options};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// As documented in THREAT_MODEL.md and GUARANTEES.md.
#[test]
fn stream_reauth_period_is_the_documented_one() {
    assert_eq!(
        Limits::default().stream_reauth_period,
        Duration::from_secs(10)
    );
}

fn frequent_reauth(clock: &Arc<ManualClock>) -> ServeOptions {
    ServeOptions {
        clock: clock.clone(),
        limits: Limits {
            stream_reauth_period: Duration::from_millis(5),
            ..Limits::default()
        },
        ..options()
    }
}

/// Only a change of roles triggers a re-authorization.
fn rare_reauth() -> ServeOptions {
    ServeOptions {
        limits: Limits {
            stream_reauth_period: Duration::from_secs(3600),
            ..Limits::default()
        },
        ..options()
    }
}

/// A watch that has begun.
async fn watch(client: &mut Client, headers: &[(HeaderName, &str)]) -> Response<Incoming> {
    let watch = request(Method::GET, "/api/v1/pods?watch=1", headers, "");
    let mut answer = client.begin(watch).await;
    assert_eq!(answer.status(), 200);
    let event = timeout(PATIENCE, answer.body_mut().frame()).await;
    event.expect("an event").expect("no end").expect("no error");
    answer
}

/// Expects a clean end, not one in the middle of an event.
async fn expect_end(mut watch: Response<Incoming>) {
    let rest = async {
        while let Some(frame) = watch.body_mut().frame().await {
            let data = frame.expect("no error").into_data();
            assert_eq!(data.expect("data"), "", "an end may be empty data");
        }
    };
    timeout(PATIENCE, rest).await.expect("an end");
}

async fn expect_open(watch: &mut Response<Incoming>) {
    let rounds = timeout(Duration::from_millis(100), watch.body_mut().frame()).await;
    assert!(rounds.is_err(), "{rounds:?}");
}

const KIM: (HeaderName, &str) = (AUTHORIZATION, "Bearer secret");
const ROBOT: (HeaderName, &str) = (AUTHORIZATION, "Bearer signed");

/// Shows G42.
#[tokio::test]
async fn watch_ends_when_client_certificate_expires() {
    for version in VERSIONS {
        let clock = Arc::new(ManualClock::new(now()));
        let running = ScriptedServer::start_with(Port::Tls, frequent_reauth(&clock)).await;
        let mut certified = Client::certified(&running, version, &running.pki.admin).await;
        let mut tokened = Client::new(&running, version).await;
        let mut by_certificate = watch(&mut certified, &[]).await;
        let mut by_token = watch(&mut tokened, &[KIM]).await;
        expect_open(&mut by_certificate).await;
        clock.set_wall(UnixMillis(now().0 + 731 * DAY_MILLIS));
        expect_end(by_certificate).await;
        expect_open(&mut by_token).await;
    }
}

#[tokio::test]
async fn watch_ends_when_bearer_token_is_revoked() {
    let clock = Arc::new(ManualClock::new(now()));
    let running = ScriptedServer::start_with(Port::Tls, frequent_reauth(&clock)).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let mut robots = watch(&mut client, &[ROBOT]).await;
    let mut kims = watch(&mut client, &[KIM]).await;
    expect_open(&mut robots).await;
    running
        .handler
        .robot_token_valid
        .store(false, Ordering::Release);
    expect_end(robots).await;
    expect_open(&mut kims).await;
}

#[tokio::test]
async fn watch_ends_at_once_when_its_role_is_revoked() {
    let running = ScriptedServer::start_with(Port::Tls, rare_reauth()).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let kims = watch(&mut client, &[KIM]).await;
    let mut robots = watch(&mut client, &[ROBOT]).await;
    running.handler.banned.send_replace(vec!["kim"]);
    expect_end(kims).await;
    expect_open(&mut robots).await;
}

/// An impersonated watch needs the permission to impersonate for as long as it runs.
#[tokio::test]
async fn watch_ends_when_impersonation_is_revoked() {
    let running = ScriptedServer::start_with(Port::Tls, rare_reauth()).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let as_robot = (HeaderName::from_static("impersonate-user"), "robot");
    let acting = watch(&mut client, &[KIM, as_robot]).await;
    let mut robots = watch(&mut client, &[ROBOT]).await;
    running.handler.banned.send_replace(vec!["kim"]);
    expect_end(acting).await;
    expect_open(&mut robots).await;
}

/// All watches with one credential end together, repeatedly.
#[tokio::test]
async fn all_watches_of_a_revoked_token_end() {
    let clock = Arc::new(ManualClock::new(now()));
    let running = ScriptedServer::start_with(Port::Tls, frequent_reauth(&clock)).await;
    for _ in 0..3 {
        let mut client = Client::new(&running, HttpVersion::Http2).await;
        let mut watches = Vec::new();
        for _ in 0..90 {
            watches.push(watch(&mut client, &[ROBOT]).await);
        }
        running
            .handler
            .robot_token_valid
            .store(false, Ordering::Release);
        for watch in watches {
            expect_end(watch).await;
        }
        running
            .handler
            .robot_token_valid
            .store(true, Ordering::Release);
    }
}
