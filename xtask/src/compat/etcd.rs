//! The store on a real etcd, and a real kube-apiserver on the store.

use super::process::{ChildServer, free_port, output};
use super::tools;
use crate::{Outcome, root};
use std::path::Path;
use std::process::Command;

pub(crate) fn one_node() -> Outcome {
    suite_against(1)
}

pub(crate) fn three_nodes() -> Outcome {
    suite_against(3)
}

/// The behaviour suite of the store, over the etcd engine.
fn suite_against(nodes: usize) -> Outcome {
    let scratch = scratch()?;
    let cluster = EtcdProcesses::start(nodes, scratch.path())?;
    let mut suite = Command::new(env!("CARGO"));
    suite
        .args([
            "run",
            "--quiet",
            "--locked",
            "--package",
            "optik-store-testkit",
        ])
        .args([
            "--example",
            "against_etcd",
            "--",
            &cluster.endpoints.join(","),
        ])
        .current_dir(root());
    let status = suite
        .status()
        .map_err(|cause| format!("cannot run the suite: {cause}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the behaviour suite failed".to_owned())
    }
}

/// Members killed, stopped, wiped, full, compacted under our feet.
pub(crate) fn faults() -> Outcome {
    let program = tools::etcd()?;
    // The scenarios use it too, and look for it beside the server.
    tools::etcdctl()?;
    let mut scenarios = Command::new(env!("CARGO"));
    scenarios
        .args(["test", "--quiet", "--locked", "--package", "optik-store"])
        .args(["--test", "etcd_faults"])
        .env("OPTIK_TEST_ETCD_BIN", program)
        .current_dir(root());
    let status = scenarios
        .status()
        .map_err(|cause| format!("cannot run the scenarios: {cause}"))?;
    if status.success() {
        Ok(())
    } else {
        Err("the etcd engine failed a fault scenario".to_owned())
    }
}

/// The token of `system:masters` in the kube-apiserver under test.
pub(crate) const TOKEN: &str = "secret";

fn scratch() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir().map_err(|cause| format!("cannot make a directory: {cause}"))
}

struct EtcdProcesses {
    endpoints: Vec<String>,
    _nodes: Vec<ChildServer>,
}

impl EtcdProcesses {
    fn start(count: usize, scratch: &Path) -> Result<Self, String> {
        let program = tools::etcd()?;
        let ports: Vec<(u16, u16)> = (0..count)
            .map(|_| Ok((free_port()?, free_port()?)))
            .collect::<Result<_, String>>()?;
        let peers = ports.iter().enumerate();
        let peers = peers.map(|(number, (_, peer))| format!("n{number}=http://127.0.0.1:{peer}"));
        let peers = peers.collect::<Vec<_>>().join(",");
        let mut nodes = Vec::new();
        for (number, (client, peer)) in ports.iter().enumerate() {
            let (client, peer) = (
                format!("http://127.0.0.1:{client}"),
                format!("http://127.0.0.1:{peer}"),
            );
            let mut command = Command::new(&program);
            command
                .args(["--name", &format!("n{number}")])
                .arg("--data-dir")
                .arg(scratch.join(format!("n{number}")))
                .args([
                    "--listen-client-urls",
                    &client,
                    "--advertise-client-urls",
                    &client,
                ])
                .args([
                    "--listen-peer-urls",
                    &peer,
                    "--initial-advertise-peer-urls",
                    &peer,
                ])
                .args(["--initial-cluster", &peers, "--log-level", "warn"]);
            nodes.push(ChildServer::start(
                "etcd",
                &mut command,
                &scratch.join(format!("n{number}.log")),
            )?);
        }
        for (node, (client, _)) in nodes.iter_mut().zip(&ports) {
            node.wait_ready(&format!("127.0.0.1:{client}"), "/health")?;
        }
        let endpoints = ports
            .iter()
            .map(|(client, _)| format!("http://127.0.0.1:{client}"));
        Ok(Self {
            endpoints: endpoints.collect(),
            _nodes: nodes,
        })
    }
}

/// A real kube-apiserver uses the etcd façade as its etcd, becomes ready and serves a watch without
/// a resourceVersion. WIRE-109.
pub(crate) fn kube_apiserver() -> Outcome {
    let (apiserver, optik) = (tools::kube_apiserver()?, tools::optik()?);
    let scratch = scratch()?;
    let etcd = format!("127.0.0.1:{}", free_port()?);
    let mut serve = Command::new(optik);
    serve.args([
        "serve",
        "--ephemeral",
        "--etcd-only",
        "--etcd-listen",
        &etcd,
    ]);
    let mut store = ChildServer::start("optik", &mut serve, &scratch.path().join("optik.log"))?;
    store.wait_ready(&etcd, "/health")?;
    let port = free_port()?.to_string();
    let _server = start_apiserver(&apiserver, &etcd, &port, scratch.path())?;
    check_apiserver(&port, scratch.path())?;
    same_decisions(&port)?;
    run_operator(&port, scratch.path())
}

/// Compares the decisions of the authorization oracle on kube-apiserver and on Optik.
fn same_decisions(port: &str) -> Outcome {
    let scratch = scratch()?;
    let http = format!("127.0.0.1:{}", free_port()?);
    let mut serve = Command::new(tools::optik()?);
    serve
        .args(["serve", "--ephemeral", "--listen", "127.0.0.1:0"])
        .args(["--listen-http", &http])
        .arg("--kubeconfig-out")
        .arg(scratch.path().join("kubeconfig"));
    let mut ours = ChildServer::start("optik", &mut serve, &scratch.path().join("optik.log"))?;
    ours.wait_ready(&http, "/readyz")?;
    let theirs = decisions(&format!("https://127.0.0.1:{port}"), Some(TOKEN))?;
    let ours = decisions(&format!("http://{http}"), None)?;
    let pairs = theirs.lines().zip(ours.lines());
    let different: Vec<String> = pairs
        .filter(|(theirs, ours)| theirs != ours)
        .map(|(theirs, ours)| format!("{theirs}, but ours: {ours}"))
        .collect();
    if theirs.lines().count() != ours.lines().count() || !different.is_empty() {
        let some = different[..different.len().min(20)].join("\n");
        return Err(format!("{} decisions differ:\n{some}", different.len()));
    }
    Ok(())
}

/// How a server decides about the requests of the oracle.
fn decisions(server: &str, token: Option<&str>) -> Result<String, String> {
    let mut ask = Command::new(env!("CARGO"));
    ask.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "optik-api-testkit",
    ])
    .args(["--example", "oracle", "--", "--server", server])
    .args(token.into_iter().flat_map(|token| ["--token", token]))
    .current_dir(root());
    output(&mut ask)
}

/// Compares the recording with the responses of a running kube-apiserver.
pub(crate) fn live() -> Outcome {
    KubeApiserver::start()?.run_differential(&[])
}

/// A real etcd of one member.
pub(crate) struct EtcdServer {
    processes: EtcdProcesses,
    _scratch: tempfile::TempDir,
}

impl EtcdServer {
    pub(crate) fn start() -> Result<Self, String> {
        let scratch = scratch()?;
        Ok(Self {
            processes: EtcdProcesses::start(1, scratch.path())?,
            _scratch: scratch,
        })
    }

    pub(crate) fn url(&self) -> &str {
        &self.processes.endpoints[0]
    }
}

/// A real kube-apiserver on a real etcd.
pub(crate) struct KubeApiserver {
    port: String,
    _server: ChildServer,
    _etcd: EtcdServer,
    _scratch: tempfile::TempDir,
}

impl KubeApiserver {
    pub(crate) fn start() -> Result<Self, String> {
        let program = tools::kube_apiserver()?;
        let scratch = scratch()?;
        let etcd = EtcdServer::start()?;
        let port = free_port()?.to_string();
        let address = etcd.url().trim_start_matches("http://");
        let server = start_apiserver(&program, address, &port, scratch.path())?;
        wait_ready(&port, scratch.path())?;
        Ok(Self {
            port,
            _server: server,
            _etcd: etcd,
            _scratch: scratch,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Plays the scripts of `compat/differential` on it.
    pub(crate) fn run_differential(&self, more: &[&str]) -> Outcome {
        let mut compare = Command::new(env!("CARGO"));
        compare
            .args(["run", "--quiet", "--locked"])
            .args(["--package", "optik-differential"])
            .args(["--example", "differential", "--", "--token", TOKEN])
            .args(["--server", &self.url()])
            .args(more)
            .current_dir(root());
        match compare.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err("kube-apiserver responses differ from the recording".to_owned()),
            Err(cause) => Err(format!("cannot compare: {cause}")),
        }
    }
}

/// Our controller runtime is for every server, so for this one.
fn run_operator(port: &str, scratch: &Path) -> Outcome {
    let kubeconfig = scratch.join("kubeconfig");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c,
          clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}',
            insecure-skip-tls-verify: true}}}}],
          users: [{{name: c, user: {{token: secret}}}}],
          contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
    );
    std::fs::write(&kubeconfig, text)
        .map_err(|cause| format!("{}: {cause}", kubeconfig.display()))?;
    super::clients::operator_on(&kubeconfig)?;
    super::operators::operator_lifecycle_on(&kubeconfig)?;
    super::operators::operator_faults_on(&kubeconfig)
}

fn start_apiserver(
    program: &Path,
    etcd: &str,
    port: &str,
    scratch: &Path,
) -> Result<ChildServer, String> {
    let key = scratch.join("sa.key");
    output(
        Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048"),
    )?;
    let tokens = scratch.join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))
        .map_err(|cause| format!("{}: {cause}", tokens.display()))?;
    let mut command = Command::new(program);
    command
        .arg(format!("--etcd-servers=http://{etcd}"))
        .arg(format!("--secure-port={port}"))
        .args([
            "--bind-address=127.0.0.1",
            "--service-account-issuer=https://localhost",
        ])
        .args([
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
        ])
        .arg(format!("--cert-dir={}", scratch.join("certs").display()))
        .arg(format!("--service-account-key-file={}", key.display()))
        .arg(format!(
            "--service-account-signing-key-file={}",
            key.display()
        ))
        .arg(format!("--token-auth-file={}", tokens.display()));
    ChildServer::start(
        "kube-apiserver",
        &mut command,
        &scratch.join("apiserver.log"),
    )
}

fn curl(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new("curl");
    command
        .args(["-sSk", "--fail", "-H", "Authorization: Bearer secret"])
        .args(["--max-time", "20"])
        .args(words);
    output(&mut command)
}

fn wait_ready(port: &str, scratch: &Path) -> Outcome {
    let mut ready = Err(String::new());
    for _ in 0..120 {
        ready = curl(&[&format!("https://127.0.0.1:{port}/readyz")]);
        if ready.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    ready.map_err(|reason| {
        let log = std::fs::read_to_string(scratch.join("apiserver.log")).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        format!("it does not become ready: {reason} {last:?}")
    })?;
    Ok(())
}

fn check_apiserver(port: &str, scratch: &Path) -> Outcome {
    wait_ready(port, scratch)?;
    let at = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let configmaps = at("/api/v1/namespaces/default/configmaps");
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"compat"}}"#;
    curl(&[
        "-X",
        "POST",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
        &configmaps,
    ])?;
    let watch = curl(&[&format!("{configmaps}?watch=1&timeoutSeconds=3")])?;
    if watch.contains("\"ERROR\"") || !watch.contains("\"compat\"") {
        return Err(format!("a watch without a resourceVersion gave {watch}"));
    }
    Ok(())
}
