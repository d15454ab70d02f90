//! Tests of several servers: on one etcd cluster they share keys and become idle; on one machine
//! they do not interfere. The etcd is Optik's own, or that of `OPTIK_TEST_ETCD_BIN`.

mod server_process;

use serde_json::{Value, json};
use server_process::{ServerProcess, eventually};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";

struct Etcd {
    server: ServerProcess,
    url: String,
}

/// An empty etcd: Optik's own, or a real one.
fn etcd(scratch: &Path) -> Etcd {
    if let Some(program) = std::env::var_os("OPTIK_TEST_ETCD_BIN") {
        let [client, peer] = [free_url(), free_url()];
        let words = [
            format!("--data-dir={}", scratch.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ];
        let mut command = Command::new(program);
        let server = ServerProcess::start_as(command.args(words), "ready to serve client requests");
        return Etcd {
            server,
            url: client,
        };
    }
    let words = ["--ephemeral", "--etcd-only", "--etcd-listen=127.0.0.1:0"];
    let server = ServerProcess::start(scratch, &words);
    let url = format!("http://{}", server.banner("etcd      http://"));
    Etcd { server, url }
}

fn free_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("has one"))
}

fn home(scratch: &Path, name: &str) -> PathBuf {
    let home = scratch.join(name);
    fs::create_dir(&home).expect("made");
    home
}

/// The certificate authorities that pods of the namespace `default` trust.
fn published(server: &ServerProcess) -> Option<String> {
    let (status, found) = server.get(ROOT);
    let text = found["data"]["ca.crt"].as_str().map(str::to_owned);
    text.filter(|_| status == 200)
}

fn count(pem: &str) -> usize {
    pem.matches("-----BEGIN CERTIFICATE-----").count()
}

fn token(server: &ServerProcess) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let request = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"});
    eventually("there is an account", || {
        let (status, answer) = server.request("POST", path, &request);
        let token = answer["status"]["token"].as_str().map(str::to_owned);
        token.filter(|_| status == 201)
    })
}

fn who(server: &ServerProcess, token: &str) -> (u16, Value) {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let (status, answer) = server.request_as(token, "POST", path, &review);
    (status, answer["status"]["userInfo"]["username"].clone())
}

/// NODE-78.
#[test]
fn servers_on_one_etcd_share_keys_and_become_idle() {
    let scratch = tempfile::tempdir().expect("a directory");
    let etcd = etcd(scratch.path());
    let start = |name: &str| ServerProcess::on_etcd(&home(scratch.path(), name), &etcd.url, &[]);
    let (one, two) = (start("one"), start("two"));
    let known = json!("system:serviceaccount:default:default");
    for (here, there) in [(&one, &two), (&two, &one)] {
        let token = token(here);
        assert_eq!(who(here, &token), (201, known.clone()));
        assert_eq!(who(there, &token), (201, known.clone()));
    }
    one.wait_until_idle();
    let authority = eventually("the authority is published", || published(&one));
    assert_eq!(count(&authority), 1, "{authority}");
    assert_eq!(published(&two).as_deref(), Some(&*authority));
    for server in [one, two] {
        server.stop();
    }
    // The keys outlive the servers.
    let third = start("three");
    assert_eq!(published(&third), Some(authority));
    let none = home(scratch.path(), "none");
    assert_eq!(fs::read_dir(none).expect("there").count(), 0);
    third.stop();
    etcd.server.end();
}

#[test]
fn servers_with_own_authorities_publish_all_of_them() {
    let scratch = tempfile::tempdir().expect("a directory");
    let etcd = etcd(scratch.path());
    let start = |name: &str| {
        let home = home(scratch.path(), name);
        let directory = format!("--cert-dir={}", home.join("pki").display());
        ServerProcess::on_etcd(&home, &etcd.url, &[&directory])
    };
    let (one, two) = (start("one"), start("two"));
    let both = eventually("both are published", || {
        published(&one).filter(|pem| count(pem) == 2)
    });
    one.wait_until_idle();
    assert_eq!(published(&two), Some(both));
    for server in [one, two] {
        server.stop();
    }
    etcd.server.end();
}

/// G41, with a bound: a token that was revoked through another server is rejected within a bounded
/// time.
#[test]
fn service_account_tokens_get_401_without_etcd() {
    let scratch = tempfile::tempdir().expect("a directory");
    let etcd = etcd(scratch.path());
    let server = ServerProcess::on_etcd(&home(scratch.path(), "one"), &etcd.url, &[]);
    let token = token(&server);
    let cached = "/api/v1/namespaces?resourceVersion=0";
    assert_eq!(who(&server, &token).0, 201);
    assert_eq!(server.get(cached).0, 200);
    etcd.server.signal("-STOP");
    eventually("reads of what is known are refused", || {
        (server.get(cached).0 == 503).then_some(())
    });
    let (status, refused) = server.get(cached);
    assert_eq!(
        (status, &refused["reason"]),
        (503, &json!("ServiceUnavailable"))
    );
    assert_eq!(who(&server, &token).0, 503);
    assert_eq!(server.get("/livez/ping").0, 200);
    etcd.server.signal("-CONT");
    eventually("all is well again", || {
        (who(&server, &token).0 == 201 && server.get(cached).0 == 200).then_some(())
    });
    server.stop();
    etcd.server.end();
}

/// Two ephemeral servers, started without flags for files.
#[test]
fn ephemeral_servers_have_separate_kubeconfigs() {
    let scratch = tempfile::tempdir().expect("a directory");
    let start = || ServerProcess::start(scratch.path(), &["--ephemeral", "--listen=127.0.0.1:0"]);
    let servers = [start(), start()];
    let files = servers.each_ref().map(|server| {
        let path = PathBuf::from(server.banner("use       export KUBECONFIG="));
        let text = fs::read_to_string(&path).expect("there");
        let address = server.banner("API       ");
        assert!(text.contains(&address), "{text} does not name {address}");
        for (path, mode) in [(&*path, 0o600), (path.parent().expect("has one"), 0o700)] {
            let found = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
        path
    });
    assert_ne!(files[0], files[1]);
    for server in servers {
        server.stop();
    }
    for file in &files {
        assert!(
            !file.parent().expect("has one").exists(),
            "it is left behind"
        );
    }
}

fn serve_ephemeral(scratch: &Path, more: &[&str]) -> ServerProcess {
    let words = [
        "--ephemeral",
        "--listen=127.0.0.1:0",
        "--listen-http=127.0.0.1:0",
    ];
    ServerProcess::start(scratch, &[&words[..], more].concat())
}

/// An admission policy that changes our object at each write does not cause endless writes.
#[test]
fn contested_kube_root_ca_is_not_rewritten_without_bound() {
    let scratch = tempfile::tempdir().expect("a directory");
    let server = serve_ephemeral(scratch.path(), &[]);
    eventually("it is published", || published(&server));
    let policies = "/apis/admissionregistration.k8s.io/v1";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["configmaps"]});
    // Another value each time: an update without a change would not be a write.
    let expression = "Object{data: {'ca.crt': oldObject.data['ca.crt'] == 'a' ? 'b' : 'a'}}";
    server.create(
        &format!("{policies}/mutatingadmissionpolicies"),
        &json!({"metadata": {"name": "mine"}, "spec": {
            "matchConstraints": {"resourceRules": [rule]}, "reinvocationPolicy": "Never",
            "failurePolicy": "Fail", "mutations": [{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": expression}}]}}),
    );
    server.create(
        &format!("{policies}/mutatingadmissionpolicybindings"),
        &json!({"metadata": {"name": "mine"}, "spec": {"policyName": "mine"}}),
    );
    let mut changed = server.get(ROOT).1;
    changed["metadata"]["labels"] = json!({"touched": "yes"});
    let (status, answer) = server.request("PUT", ROOT, &changed);
    assert_eq!((status, &answer["data"]["ca.crt"]), (200, &json!("a")));
    server.wait_until_idle();
    server.stop();
}

/// A rejected write is not taken for success: when its reason is gone, the missing object is
/// created.
#[test]
fn kube_root_ca_is_recreated_after_a_quota_refusal() {
    let scratch = tempfile::tempdir().expect("a directory");
    let server = serve_ephemeral(scratch.path(), &[]);
    eventually("it is published", || published(&server));
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/configmaps": "0"}}});
    server.create(quotas, &quota);
    assert_eq!(server.request("DELETE", ROOT, &Value::Null).0, 200);
    server.wait_for("cannot make kube-root-ca.crt in the namespace default");
    let gone = server.request("DELETE", &format!("{quotas}/none"), &Value::Null);
    assert_eq!(gone.0, 200);
    eventually("it is published again", || published(&server));
    server.stop();
}

const AUTHENTICATION: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The client certificate authorities, as published to other programs of the cluster.
fn published_client_authorities(server: &ServerProcess) -> Option<String> {
    let (_, found) = server.get(AUTHENTICATION);
    found["data"]["client-ca-file"].as_str().map(str::to_owned)
}

/// kube-controller-manager and similar programs read the client certificate authorities here.
#[test]
fn client_authorities_are_published_in_kube_system() {
    let scratch = tempfile::tempdir().expect("a directory");
    // kube-apiserver publishes them itself, whichever controllers run.
    let server = serve_ephemeral(scratch.path(), &["--controllers="]);
    let pem = eventually("it is published", || published_client_authorities(&server));
    assert_eq!(count(&pem), 1, "{pem}");
    server.stop();
}

/// Another certificate authority: that of a server which is started for it.
fn foreign_authority(scratch: &Path, name: &str) -> String {
    let certs = scratch.join(name);
    let words = [
        "--controllers=",
        "--cert-dir",
        certs.to_str().expect("text"),
    ];
    serve_ephemeral(scratch, &words).stop();
    let pem = fs::read_to_string(certs.join("ca.crt")).expect("made");
    pem.trim().to_owned()
}

/// Changed client certificate authorities are published as soon as they are accepted, also by other
/// servers.
#[test]
fn published_client_authorities_follow_their_file() {
    let scratch = tempfile::tempdir().expect("a directory");
    let [first, second] = ["first", "second"].map(|name| foreign_authority(scratch.path(), name));
    let file = scratch.path().join("clients.crt");
    fs::write(&file, &first).expect("written");
    let etcd = etcd(scratch.path());
    let given = format!("--client-ca-file={}", file.display());
    let words = [&*given, "--certificate-check-interval=1s"];
    let one = ServerProcess::on_etcd(&home(scratch.path(), "one"), &etcd.url, &words);
    // It knows of the file only what the other server publishes.
    let two = ServerProcess::on_etcd(&home(scratch.path(), "two"), &etcd.url, &[]);
    let says = |server: &ServerProcess, here: &str, gone: &str| {
        let pem = published_client_authorities(server)?;
        (count(&pem) == 2 && pem.contains(here) && !pem.contains(gone)).then_some(())
    };
    for (here, gone) in [(&first, &second), (&second, &first)] {
        fs::write(&file, here).expect("written");
        for server in [&one, &two] {
            eventually("it is published", || says(server, here, gone));
        }
    }
    one.wait_until_idle();
    for server in [one, two] {
        server.stop();
    }
    etcd.server.end();
}
