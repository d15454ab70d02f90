//! Supervision: every background task panics once, and the server remains fully functional.

use optik_controllers::EnabledControllers;
use optik_server_testkit::{TestEngine, TestServer, authorities};
use optik_store::{KeyRange, Origin, Put, Revision, Txn, WatchFrom, WatchSpec};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch::Sender;
use tokio::time::timeout;

mod support;

use support::{send, wait_until};

/// Timeout for all waits, also on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// The sequencer cannot be restarted; the next test covers its panic.
const SEQUENCER: &str = "store-sequencer";

async fn start(engine: TestEngine) -> TestServer {
    let server = TestServer::start_with(engine, &EnabledControllers::default()).await;
    let (supervisor, store) = (&server.supervisor, &server.store);
    optik_controllers::start_compaction(supervisor, store, Duration::from_millis(50), clock());
    let own = Sender::new(authorities()).subscribe();
    optik_controllers::start_ca_bundle_sharing(supervisor, store, own.clone()).await;
    optik_controllers::start_authentication_config_publisher(supervisor, &server.api, store, own);
    server
}

fn clock() -> std::sync::Arc<dyn optik_platform::Clock> {
    std::sync::Arc::new(optik_platform::SystemClock::default())
}

/// The tasks of a server, so that a new one is tried without being named here.
fn tasks(server: &TestServer) -> Vec<&'static str> {
    let tasks = server.supervisor.tasks().into_iter();
    tasks.map(|task| task.name).collect()
}

fn restart_count(server: &TestServer, name: &str) -> u64 {
    let mut tasks = server.supervisor.tasks().into_iter();
    let task = tasks.find(|task| task.name == name);
    task.expect("it has run").panics
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_background_tasks_are_restarted() {
    check_every_task(TestEngine::Memory, "store-dispatcher").await;
}

/// Shows G45.
#[tokio::test(flavor = "multi_thread")]
async fn panicking_background_tasks_are_restarted_on_etcd() {
    check_every_task(TestEngine::EtcdFacade, "etcd-watch").await;
}

async fn check_every_task(engine: TestEngine, known: &str) {
    let server = start(engine).await;
    let tasks = tasks(&server);
    for known in [known, "authorities", "authentication-config"] {
        assert!(tasks.contains(&known), "{tasks:?}");
    }
    check_work(&server, "before").await;
    for name in tasks.into_iter().filter(|name| *name != SEQUENCER) {
        let hold = server.supervisor.panic_next(name);
        wait_until(name, || async { !server.supervisor.is_up(name) }).await;
        assert_eq!(restart_count(&server, name), 1, "{name}");
        // Changes while the task is down must not be lost.
        let meanwhile = write_while_down(&server, name).await;
        drop(hold);
        wait_until(name, || async { server.supervisor.is_up(name) }).await;
        check_work(&server, &format!("after-{name}")).await;
        meanwhile.check(&server).await;
    }
    server.stop().await;
}

/// No write is acknowledged, no request hangs, and known state can be read.
#[tokio::test(flavor = "multi_thread")]
async fn store_refuses_requests_after_sequencer_panic() {
    let server = start(TestEngine::Memory).await;
    let mut watch = watch(&server, WatchFrom::Now);
    let _hold = server.supervisor.panic_next(SEQUENCER);
    let ended = async { while watch.next().await.is_ok() {} };
    timeout(WAIT_TIMEOUT, ended).await.expect("watches end");
    wait_until("the sequencer fails", || async {
        !server.supervisor.is_up(SEQUENCER)
    })
    .await;
    let put = Txn::put(Put::new("/registry/a", "1"));
    let refused = timeout(WAIT_TIMEOUT, server.store.commit(put, Origin::default())).await;
    assert!(refused.expect("an answer").is_err());
    let read = timeout(WAIT_TIMEOUT, server.store.latest()).await;
    assert!(read.expect("an answer").is_err());
    let status = timeout(WAIT_TIMEOUT, server.store.status()).await;
    assert!(status.expect("an answer").is_err(), "a health check fails");
    let (code, _) = send(&server, "GET", "/api/v1/namespaces", &Value::Null).await;
    assert!(code >= 500, "{code}");
    let namespace = json!({"metadata": {"name": "late"}});
    let (code, _) = send(&server, "POST", "/api/v1/namespaces", &namespace).await;
    assert!(code >= 500, "{code}");
    server.stop().await;
}

fn watch(server: &TestServer, from: WatchFrom) -> optik_store::Watch {
    let range = KeyRange::prefix("/registry/configmaps/");
    let spec = WatchSpec { range, from };
    server.store.watch(spec).expect("nothing is compacted")
}

fn after(made: &Value) -> WatchFrom {
    let revision = made["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    let revision = revision.parse().expect("a revision");
    WatchFrom::Revision(Revision::new(revision).next())
}

/// A namespace that was created while a task was down.
struct NamespaceCreatedWhileDown(Option<String>);

impl NamespaceCreatedWhileDown {
    async fn check(&self, server: &TestServer) {
        let Some(namespace) = &self.0 else {
            return;
        };
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        wait_until(&account, || exists(server, &account)).await;
    }
}

/// On etcd nothing can be written while nobody follows it.
async fn write_while_down(server: &TestServer, name: &str) -> NamespaceCreatedWhileDown {
    if name.starts_with("etcd-") {
        return NamespaceCreatedWhileDown(None);
    }
    let namespace = format!("while-{name}");
    make(
        server,
        "/api/v1/namespaces",
        json!({"metadata": {"name": namespace}}),
    )
    .await;
    NamespaceCreatedWhileDown(Some(namespace))
}

async fn exists(server: &TestServer, path: &str) -> bool {
    send(server, "GET", path, &Value::Null).await.0 == 200
}

async fn make(server: &TestServer, path: &str, object: Value) -> Value {
    let (code, made) = send(server, "POST", path, &object).await;
    assert_eq!(code, 201, "{made}");
    made
}

/// Exercises every part of the server.
async fn check_work(server: &TestServer, name: &str) {
    let home = format!("/api/v1/namespaces/{name}");
    let namespace = json!({"metadata": {"name": name}});
    let made = make(server, "/api/v1/namespaces", namespace).await;
    // Only now: a watch ends when the state is read anew, which is what a write waits for.
    let mut events = watch(server, after(&made));
    for furniture in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("{home}/{furniture}");
        wait_until(&path, || exists(server, &path)).await;
    }
    let event = timeout(WAIT_TIMEOUT, events.next()).await;
    assert!(event.expect("an event").is_ok(), "{name}");
    check_quota(server, &home).await;
    check_garbage(server, &home).await;
    check_definition(server, name).await;
    check_roles(server, name).await;
    check_policy(server, name).await;
    check_authorities(server, name).await;
    check_compaction(server).await;
    send(server, "DELETE", &home, &Value::Null).await;
    wait_until(&home, || async { !exists(server, &home).await }).await;
}

async fn check_quota(server: &TestServer, home: &str) {
    let path = format!("{home}/resourcequotas");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}});
    make(server, &path, quota).await;
    let path = format!("{path}/q");
    wait_until(&path, || async {
        let (_, quota) = send(server, "GET", &path, &Value::Null).await;
        quota["status"]["used"]["configmaps"] == "1"
    })
    .await;
}

async fn check_garbage(server: &TestServer, home: &str) {
    let path = format!("{home}/configmaps");
    let owner = make(server, &path, json!({"metadata": {"name": "owner"}})).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner["metadata"]["uid"]}]);
    let metadata = json!({"name": "dependent", "ownerReferences": reference});
    make(server, &path, json!({"metadata": metadata})).await;
    let (owner, dependent) = (format!("{path}/owner"), format!("{path}/dependent"));
    send(server, "DELETE", &owner, &Value::Null).await;
    wait_until(&dependent, || async { !exists(server, &dependent).await }).await;
}

async fn check_definition(server: &TestServer, name: &str) {
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let group = format!("{name}.optik.test");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": format!("things.{group}")}, "spec": {
            "group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    make(server, PATH, definition).await;
    let things = format!("/apis/{group}/v1/things");
    wait_until(&things, || exists(server, &things)).await;
    let service = format!("/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}");
    wait_until(&service, || exists(server, &service)).await;
    let definition = format!("{PATH}/things.{group}");
    send(server, "DELETE", &definition, &Value::Null).await;
    wait_until(&definition, || async { !exists(server, &definition).await }).await;
}

async fn check_roles(server: &TestServer, name: &str) {
    const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let metadata = json!({"name": format!("part-{name}"), "labels": {"of": name}});
    make(server, PATH, json!({"metadata": metadata, "rules": rules})).await;
    let selectors = json!([{"matchLabels": {"of": name}}]);
    let whole = json!({"metadata": {"name": format!("whole-{name}")},
        "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []});
    make(server, PATH, whole).await;
    let path = format!("{PATH}/whole-{name}");
    wait_until(&path, || async {
        let (_, role) = send(server, "GET", &path, &Value::Null).await;
        role["rules"] == rules
    })
    .await;
}

async fn check_policy(server: &TestServer, name: &str) {
    const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["pods"]});
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}]}});
    make(server, PATH, policy).await;
    let path = format!("{PATH}/{name}");
    wait_until(&path, || async {
        let (_, policy) = send(server, "GET", &path, &Value::Null).await;
        policy["status"]["observedGeneration"] == 1
    })
    .await;
}

async fn check_authorities(server: &TestServer, name: &str) {
    const PATH: &str =
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    wait_until(PATH, || exists(server, PATH)).await;
    // What others take away each time comes back ever more slowly, but once it does.
    if name.ends_with("authentication-config") {
        send(server, "DELETE", PATH, &Value::Null).await;
        wait_until(PATH, || exists(server, PATH)).await;
    }
    let noted = KeyRange::prefix("/optik/authorities/");
    let state = server.store.snapshot();
    assert!(
        state.entries(&noted).count() >= 2,
        "for clients and servers"
    );
}

/// History is compacted during writes.
async fn check_compaction(server: &TestServer) {
    let before = server.store.snapshot().revision();
    wait_until("compaction", || async {
        server.store.snapshot().oldest() >= before
    })
    .await;
}
