//! Tests of in-flight limits, CORS and the audit log.

mod support;

use http::Method;
use http::header::{AUTHORIZATION, HeaderName, ORIGIN, USER_AGENT};
use optik_auth::audit_policy::AuditPolicy;
use optik_platform::SystemClock;
use optik_serve::{AllowedOrigins, Audit, AuditFile, Limits, Rotation, ServeOptions, TokenFile};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::client::{Client, HttpVersion, VERSIONS, request};
use support::handler::reaches;
use support::{Port, ScriptedServer, options};

const TWO: &str = "a,flood,1\nb,kim,2\nc,root,3,system:masters\n";

/// Two writes at a time, without queues.
fn tight_limits() -> ServeOptions {
    ServeOptions {
        tokens: TokenFile::parse(TWO.as_bytes()).unwrap(),
        limits: Limits {
            writes_max: 2,
            reads_max: 2,
            requests_waiting_per_user_max: 0,
            ..Limits::default()
        },
        ..ServeOptions::default()
    }
}

/// WIRE-85, EXT-106. The unit tests of the limiter cover the fairness.
#[tokio::test]
async fn max_in_flight_gives_429_with_retry_after() {
    let running = ScriptedServer::start_with(Port::Tls, tight_limits()).await;
    let post = |token: &str| request(Method::POST, "/gate", &[(AUTHORIZATION, token)], "");
    let mut waiting = Vec::new();
    for (count, token) in [(1, "Bearer a"), (2, "Bearer a"), (3, "Bearer c")] {
        let mut client = Client::new(&running, HttpVersion::Http2).await;
        let request = post(token);
        waiting.push(tokio::spawn(
            async move { client.send(request).await.status },
        ));
        // Administrators, whose requests came last, need no permit.
        reaches(&running.handler.begun, count).await;
    }
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let refused = client.send(post("Bearer a")).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
    assert_eq!(
        refused.text(),
        "Too many requests, please try again later.\n"
    );
    // Reads have permits of their own, and health probes need none.
    for (path, token) in [
        ("/who", "Bearer a"),
        ("/who", "Bearer b"),
        ("/healthz", "Bearer a"),
    ] {
        let answer = client.get(path, &[(AUTHORIZATION, token)]).await;
        assert_eq!(answer.status, 200, "{path} {token}");
    }
    for count in 1..=3 {
        running.handler.gate.notify_one();
        reaches(&running.handler.finished, count).await;
    }
    for write in waiting {
        assert_eq!(write.await.unwrap(), 201);
    }
    // A permit is free again.
    let mut again = Client::new(&running, HttpVersion::Http2).await;
    let request = post("Bearer a");
    let last = tokio::spawn(async move { again.send(request).await.status });
    running.handler.gate.notify_one();
    assert_eq!(last.await.unwrap(), 201);
}

/// The number of writes in flight, from the server's metrics.
async fn writes_in_flight(client: &mut Client) -> usize {
    let page = client.get("/metrics", &[(AUTHORIZATION, "Bearer c")]).await;
    let line = "apiserver_current_inflight_requests{request_kind=\"mutating\"} ";
    let mut found = page
        .text()
        .lines()
        .filter_map(|text| text.strip_prefix(line));
    found.next().map_or(0, |count| count.parse().unwrap())
}

/// Fifty requests of one user precede kim's; hers waits for those that run and one more, and for
/// none of the rest.
#[tokio::test]
async fn max_in_flight_is_fair_between_users() {
    let limits = Limits {
        writes_max: 2,
        ..Limits::default()
    };
    let options = ServeOptions {
        limits,
        ..tight_limits()
    };
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let post = |token: &str| request(Method::POST, "/gate", &[(AUTHORIZATION, token)], "");
    let come = |mut client: Client, token: &str| {
        let request = post(token);
        tokio::spawn(async move { client.send(request).await.status })
    };
    let mut watchdog = Client::new(&running, HttpVersion::Http2).await;
    let mut flood = Vec::new();
    for _ in 0..50 {
        let client = Client::new(&running, HttpVersion::Http2).await;
        flood.push(come(client, "Bearer a"));
    }
    while writes_in_flight(&mut watchdog).await < 50 {}
    let client = Client::new(&running, HttpVersion::Http2).await;
    let kim = come(client, "Bearer b");
    while writes_in_flight(&mut watchdog).await < 51 {}
    for count in 1..=4 {
        running.handler.gate.notify_one();
        reaches(&running.handler.finished, count).await;
    }
    let served = tokio::time::timeout(Duration::from_secs(20), kim).await;
    assert_eq!(served.expect("she is served").unwrap(), 201);
    assert_eq!(*running.handler.finished.borrow(), 4, "and they still wait");
    for count in 5..=51 {
        running.handler.gate.notify_one();
        reaches(&running.handler.finished, count).await;
    }
    for request in flood {
        assert_eq!(request.await.unwrap(), 201);
    }
}

/// Watches take no permits.
#[tokio::test]
async fn watches_do_not_count_as_in_flight() {
    let running = ScriptedServer::start_with(Port::Tls, tight_limits()).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let mut watches = Vec::new();
    for _ in 0..50 {
        let watch = request(
            Method::GET,
            "/api/v1/pods?watch=1",
            &[(AUTHORIZATION, "Bearer a")],
            "",
        );
        watches.push(client.begin(watch).await);
    }
    for token in ["Bearer a", "Bearer b"] {
        let answer = client.get("/who", &[(AUTHORIZATION, token)]).await;
        assert_eq!(answer.status, 200);
    }
}

/// WIRE-86.
#[tokio::test]
async fn cors_headers_for_allowed_origins() {
    let allowed = AllowedOrigins::new(&["^https://good\\.example$".to_owned()]).unwrap();
    let options = ServeOptions {
        origins: allowed,
        ..options()
    };
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    for version in VERSIONS {
        let mut client = Client::new(&running, version).await;
        let good = (ORIGIN, "https://good.example");
        let preflight = request(
            Method::OPTIONS,
            "/api/v1/pods",
            std::slice::from_ref(&good),
            "",
        );
        let answer = client.send(preflight).await;
        assert_eq!(answer.status, 204, "before anybody says who they are");
        for (name, value) in [
            ("access-control-allow-origin", "https://good.example"),
            (
                "access-control-allow-methods",
                "POST, GET, OPTIONS, PUT, DELETE, PATCH",
            ),
            ("access-control-expose-headers", "Date"),
            ("access-control-allow-credentials", "true"),
        ] {
            assert_eq!(answer.header(name), value, "{name}");
        }
        let answer = client
            .get("/who", &[good, (AUTHORIZATION, "Bearer secret")])
            .await;
        assert_eq!(
            (
                answer.status.as_u16(),
                answer.header("access-control-allow-origin")
            ),
            (200, "https://good.example")
        );
        for other in ["https://good.example.evil", "https://evil", "null"] {
            let answer = client
                .send(request(
                    Method::OPTIONS,
                    "/api/v1/pods",
                    &[(ORIGIN, other)],
                    "",
                ))
                .await;
            assert_eq!(answer.status, 403, "{other}");
            assert_eq!(answer.header("access-control-allow-origin"), "");
        }
    }
}

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ['/healthz*']}
- level: RequestResponse
  resources: [{group: '', resources: [things, secrets, pods]}]
- level: Metadata
";

fn options_with_audit(path: &Path, policy: &str) -> ServeOptions {
    let rotation = Rotation {
        bytes_max: 1 << 20,
        files_max: 0,
        age_max: Duration::ZERO,
    };
    let clock = Arc::new(SystemClock::default());
    let audit = Audit {
        policy: AuditPolicy::parse(policy.as_bytes()).unwrap(),
        file: AuditFile::open(path, rotation, clock).unwrap(),
    };
    ServeOptions {
        audit: Some(Arc::new(audit)),
        ..options()
    }
}

fn events(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

const LEVELS: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, resources: [{group: g, resources: [nothing]}]}
- {level: Metadata, resources: [{group: g, resources: [metas]}]}
- {level: Request, resources: [{group: g, resources: [requests]}]}
- {level: RequestResponse, resources: [{group: g, resources: [wholes]}], omitManagedFields: true}
- {level: RequestResponse, resources: [{group: g}, {group: ''}, {group: authentication.k8s.io}]}
";

/// Each level includes the previous ones; no level shows secrets.
/// EXT-107.
/// IDENT-117, for TokenReviews.
#[tokio::test]
async fn audit_policy_levels_decide_what_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let running = ScriptedServer::start_with(Port::Tls, options_with_audit(&path, LEVELS)).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let object =
        json!({"kind": "Thing", "metadata": {"name": "a", "managedFields": [{"manager": "m"}]}});
    let lean = json!({"kind": "Thing", "metadata": {"name": "a"}});
    let nothing = Value::Null;
    let cases = [
        ("metas", "Metadata", &nothing, &nothing),
        ("requests", "Request", &object, &nothing),
        ("wholes", "RequestResponse", &lean, &lean),
        ("others", "RequestResponse", &object, &object),
    ];
    let post = async |client: &mut Client, path: &str, body: &Value| {
        let headers = [(AUTHORIZATION, "Bearer secret")];
        let request = request(Method::POST, path, &headers, body.to_string());
        assert_eq!(client.send(request).await.status, 201, "{path}");
    };
    post(&mut client, "/apis/g/v1/nothing", &object).await;
    for (plural, ..) in &cases {
        post(&mut client, &format!("/apis/g/v1/{plural}"), &object).await;
    }
    let review = json!({"spec": {"token": "hunter2"}});
    let path_of_review = "/apis/authentication.k8s.io/v1/tokenreviews";
    post(&mut client, path_of_review, &review).await;
    // An error that quotes the request body.
    for path in [path_of_review, "/apis/g/v1/metas"] {
        let headers = [(AUTHORIZATION, "Bearer secret")];
        let sent = format!("hunter{}", path.len());
        let answer = client
            .send(request(Method::POST, path, &headers, sent))
            .await;
        assert_eq!(answer.status, 400);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"message\":\"hunter16\""), "others are told");
    assert!(!text.contains(&format!("hunter{}", path_of_review.len())));
    assert!(
        !text.contains("hunter2") && !text.contains("Bearer"),
        "{text}"
    );
    let events = events(&text);
    let stages: Vec<_> = events.iter().map(|event| event["stage"].as_str()).collect();
    let both = [Some("RequestReceived"), Some("ResponseComplete")];
    assert_eq!(stages, both.repeat(cases.len() + 3));
    for (events, (plural, level, sent, answered)) in events.chunks(2).zip(cases) {
        let [received, complete] = events else {
            panic!("an event alone: {events:?}")
        };
        for event in events {
            assert_eq!(event["level"], level, "{plural}");
            assert_eq!(event["auditID"], received["auditID"]);
        }
        assert_eq!(
            received["requestObject"], nothing,
            "it has not been read yet"
        );
        assert_eq!(&complete["requestObject"], sent, "{plural}");
        assert_eq!(&complete["responseObject"], answered, "{plural}");
        assert_eq!(complete["responseStatus"]["code"], 201);
    }
}

/// EXT-107.
/// IDENT-117, for Secrets.
#[tokio::test]
async fn audit_records_request_and_response_objects() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let options = options_with_audit(&path, POLICY);
    let running = ScriptedServer::start_with(Port::Tls, options).await;
    let mut client = Client::new(&running, HttpVersion::Http2).await;
    let headers = [
        (AUTHORIZATION, "Bearer secret"),
        (USER_AGENT, "tester"),
        (HeaderName::from_static("audit-id"), "my-id"),
    ];
    let body = r#"{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":1}}"#;
    // This handler's responses below /api never end; the request is logged before that.
    for (plural, body) in [("things", body), ("secrets", r#"{"data":{"p":"hunter2"}}"#)] {
        let path = format!("/api/v1/namespaces/n/{plural}");
        drop(
            client
                .begin(request(Method::POST, &path, &headers, body))
                .await,
        );
    }
    client.get("/healthz", &headers).await;
    client.get("/who?x=1", &headers).await;
    client
        .get("/who", &[(AUTHORIZATION, "Bearer hunter2")])
        .await;
    client.get("/who", &[]).await;
    {
        let watch = request(Method::GET, "/api/v1/pods?watch=1", &headers, "");
        drop(client.begin(watch).await);
    }
    drop(client);
    // The end of the watch is written when the server notices it.
    let written = async {
        loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() >= 7 {
                break text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(20), written);
    let text = text.await.expect("seven events");
    assert!(!text.contains("hunter2"), "secrets are not written down");
    let events = events(&text);
    let first = &events[0];
    for (member, value) in [
        ("kind", json!("Event")),
        ("apiVersion", json!("audit.k8s.io/v1")),
        ("level", json!("RequestResponse")),
        ("auditID", json!("my-id")),
        ("stage", json!("ResponseComplete")),
        ("requestURI", json!("/api/v1/namespaces/n/things")),
        ("verb", json!("create")),
        (
            "user",
            json!({"username": "kim", "uid": "7", "groups": ["writers", "readers", "system:authenticated"]}),
        ),
        ("sourceIPs", json!(["127.0.0.1"])),
        ("userAgent", json!("tester")),
        (
            "objectRef",
            json!({"resource": "things", "namespace": "n", "name": "a", "apiVersion": "v1"}),
        ),
        ("responseStatus", json!({"metadata": {}, "code": 200})),
        ("requestObject", serde_json::from_str(body).unwrap()),
        (
            "annotations",
            json!({"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}),
        ),
    ] {
        assert_eq!(first[member], value, "{member}");
    }
    let time = first["requestReceivedTimestamp"].as_str().unwrap();
    assert_eq!(time.len(), "2026-11-15T18:00:46.832564Z".len());
    assert!(first["stageTimestamp"].as_str().unwrap() >= time);
    let told: Vec<String> = events[1..]
        .iter()
        .map(|event| {
            let word = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
            let name = event["user"]["username"].as_str().unwrap_or_default();
            format!(
                "{} {} {} {name} {}",
                word("level"),
                word("stage"),
                word("requestURI"),
                event["responseStatus"]["code"]
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "Metadata ResponseComplete /api/v1/namespaces/n/secrets kim 200",
            "Metadata ResponseComplete /who?x=1 kim 200",
            "Metadata ResponseComplete /who  401",
            "Metadata ResponseComplete /who system:anonymous 403",
            "RequestResponse ResponseStarted /api/v1/pods?watch=1 kim 200",
            "RequestResponse ResponseComplete /api/v1/pods?watch=1 kim 200",
        ]
    );
}

/// Every request writes an audit event, and the event is short, whatever the client sends.
#[tokio::test]
async fn audit_events_stay_short_for_hostile_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    let options = options_with_audit(&path, policy);
    let running = ScriptedServer::start_with(Port::Tls, options.clone()).await;
    let plain = ScriptedServer::start_with(Port::Plain, options).await;
    let mut client = Client::new(&running, HttpVersion::Http1).await;
    let audit_id = HeaderName::from_static("audit-id");
    let forwarded = HeaderName::from_static("x-forwarded-for");
    let long = "x".repeat(300_000);
    let name = "n".repeat(3_000);
    let ips = "10.0.0.1,10.0.0.2,".repeat(10_000);
    let method = |text: &str| Method::from_bytes(text.as_bytes()).unwrap();
    let answer = client.get("/who", &[(audit_id.clone(), &long)]).await;
    assert_eq!(answer.header("audit-id").len(), 36, "an id of ours");
    client.get("/who", &[(USER_AGENT, &long)]).await;
    client.get("/who", &[(forwarded, &ips)]).await;
    let object = format!("/api/v1/namespaces/{name}/pods/{name}");
    client.get(&object, &[]).await;
    client.get(&format!("/{name}{name}"), &[]).await;
    client.get(&format!("/who?{}", name.repeat(10)), &[]).await;
    let odd = request(method(&name), "/who", &[], "");
    client.send(odd).await;
    let body = format!("{{\"metadata\":{{\"name\":\"{long}\"}}}}");
    let kim = [(AUTHORIZATION, "Bearer secret")];
    client
        .send(request(Method::POST, "/apis/g/v1/pods", &kim, body))
        .await;
    // Requests that are rejected before authentication.
    for query in ["timeout=soon", "timeout=1ns"] {
        let id = [(audit_id.clone(), "early")];
        client.get(&format!("/who?{query}"), &id).await;
    }
    let mut browser = Client::plain(&plain, HttpVersion::Http1).await;
    let page = [(ORIGIN, "https://evil.example"), (audit_id, "early")];
    assert_eq!(browser.get("/who", &page).await.status, 403);
    let text = std::fs::read_to_string(&path).unwrap();
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(16_000), "{longest:?}");
    let events = events(&text);
    let early: Vec<_> = events
        .iter()
        .filter(|event| event["auditID"] == "early" && event["stage"] == "ResponseComplete")
        .map(|event| event["responseStatus"]["code"].clone())
        .collect();
    assert_eq!(early, [400, 504, 403]);
    let cut = format!("{}...TRUNCATED", "x".repeat(1024));
    assert!(
        events
            .iter()
            .any(|event| event["userAgent"] == cut.as_str())
    );
}
