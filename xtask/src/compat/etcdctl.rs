//! etcdctl against the server, with commands as people type them.

use super::process::{ChildServer, free_port, output};
use super::tools;
use crate::Outcome;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn newest() -> Outcome {
    everything(&tools::etcdctl()?, NEWER_LINES)
}

pub(crate) fn debian() -> Outcome {
    everything(&tools::debian_etcdctl()?, &[])
}

/// Lines that etcdctl 3.4 does not support.
const NEWER_LINES: &[(&str, &[&str])] = &[
    (
        "get hel --prefix --count-only -w fields",
        &["\"Count\" : 1"],
    ),
    ("auth status", &["Authentication Status: false"]),
];

/// A command line, and a text that its output must contain.
const LINES: &[(&str, &[&str])] = &[
    ("put hello world", &["OK"]),
    ("put hello again --prev-kv", &["OK", "hello", "world"]),
    ("get hello", &["hello", "again"]),
    ("get hello --rev=2", &["hello", "world"]),
    (
        "get hello -w json",
        &[
            "\"mod_revision\":3",
            "\"create_revision\":2",
            "\"version\":2",
        ],
    ),
    ("put hello2 x", &["OK"]),
    ("get hel --prefix --keys-only", &["hello", "hello2"]),
    (
        "get hel --prefix --limit 1 -w json",
        &["\"more\":true", "\"count\":2"],
    ),
    (
        "get hel --prefix --order=DESCEND --sort-by=KEY --print-value-only",
        &["x\nagain"],
    ),
    ("get --from-key hello2", &["hello2"]),
    ("del hello2", &["1"]),
    ("del nothing", &["0"]),
    ("lease list", &["found 0 leases"]),
    ("endpoint status -w json", &["\"version\":\"3.6.8\""]),
    ("endpoint health", &["is healthy"]),
    ("endpoint hashkv", &["127.0.0.1"]),
    ("member list", &["started", "optik"]),
    ("alarm list", &[""]),
    ("compaction 5", &["compacted revision 5"]),
    ("defrag", &["Finished defragmenting"]),
    ("user list", &[""]),
    ("role list", &[""]),
];

fn everything(etcdctl: &Path, more: &[(&str, &[&str])]) -> Outcome {
    let scratch = tempfile::tempdir().map_err(|cause| format!("no directory: {cause}"))?;
    let optik = tools::optik()?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut serve = Command::new(&optik);
    serve
        .args(["serve", "--etcd-only", "--etcd-listen", &address, "--data"])
        .arg(scratch.path().join("data"));
    let mut server = ChildServer::start("optik", &mut serve, &scratch.path().join("optik.log"))?;
    server.wait_ready(&address, "/health")?;
    let client = EtcdctlCommand {
        program: etcdctl.to_owned(),
        address,
    };
    for (line, expected) in LINES.iter().chain(more) {
        client.expect(line, expected)?;
    }
    client.refused("get hello --rev=2", "required revision has been compacted")?;
    client.refused(
        "get hello --rev=999",
        "required revision is a future revision",
    )?;
    client.refused("compaction 5", "required revision has been compacted")?;
    transaction(&client)?;
    lease(&client)?;
    watch(&client)?;
    snapshot(&client, &optik, scratch.path())
}

struct EtcdctlCommand {
    program: PathBuf,
    address: String,
}

impl EtcdctlCommand {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.address])
            .args(line.split_whitespace());
        command
    }

    fn expect(&self, line: &str, expected: &[&str]) -> Result<String, String> {
        let text = output(&mut self.command(line))?;
        for part in expected {
            // Some commands report on stderr; success is all they can show here.
            if !text.contains(part) && !text.is_empty() {
                return Err(format!("etcdctl {line}: {text:?} lacks {part:?}"));
            }
        }
        Ok(text)
    }

    fn refused(&self, line: &str, reason: &str) -> Outcome {
        match output(&mut self.command(line)) {
            Ok(text) => Err(format!("etcdctl {line} should fail, but said {text}")),
            Err(text) if text.contains(reason) => Ok(()),
            Err(text) => Err(format!("etcdctl {line}: {text:?} lacks {reason:?}")),
        }
    }
}

/// Compares in one paragraph, then the success operations, then the failure operations.
fn transaction(client: &EtcdctlCommand) -> Outcome {
    let mut child = client
        .command("txn")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|cause| format!("cannot run etcdctl txn: {cause}"))?;
    let typed = "value(\"hello\") = \"again\"\n\nput hello changed\nget hello\n\nget hello\n\n";
    let mut input = child.stdin.take().ok_or("etcdctl has no input")?;
    input
        .write_all(typed.as_bytes())
        .map_err(|c| format!("etcdctl txn: {c}"))?;
    drop(input);
    let done = child
        .wait_with_output()
        .map_err(|c| format!("etcdctl txn: {c}"))?;
    let text = String::from_utf8_lossy(&done.stdout);
    if text.contains("SUCCESS") && text.contains("changed") {
        Ok(())
    } else {
        Err(format!("etcdctl txn said {text}"))
    }
}

fn lease(client: &EtcdctlCommand) -> Outcome {
    let granted = client.expect("lease grant 600", &["granted with TTL(600s)"])?;
    let id = granted
        .split_whitespace()
        .nth(1)
        .ok_or("no lease id")?
        .to_owned();
    client.expect(&format!("put leased x --lease={id}"), &["OK"])?;
    client.expect(
        &format!("lease timetolive {id} --keys"),
        &["granted with TTL(600s)", "leased"],
    )?;
    client.expect(&format!("lease keep-alive {id} --once"), &["keepalived"])?;
    client.expect("lease list", &[id.as_str()])?;
    client.expect(&format!("lease revoke {id}"), &["revoked"])?;
    let gone = client.expect("get leased", &[])?;
    if gone.is_empty() {
        Ok(())
    } else {
        Err(format!("a key outlived its lease: {gone}"))
    }
}

/// A watch from a past revision shows past events, and then new ones.
fn watch(client: &EtcdctlCommand) -> Outcome {
    let mut child = client
        .command("watch hello --rev=6 --prev-kv")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|cause| format!("cannot run etcdctl watch: {cause}"))?;
    let lines = child.stdout.take().ok_or("etcdctl has no output")?;
    client.expect("put hello live", &["OK"])?;
    let mut seen = String::new();
    for line in BufReader::new(lines).lines() {
        seen += &line.map_err(|cause| format!("etcdctl watch: {cause}"))?;
        seen.push('\n');
        if seen.ends_with("live\n") {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let expected = "PUT\nhello\nagain\nhello\nchanged\nPUT\nhello\nchanged\nhello\nlive\n";
    if seen == expected {
        Ok(())
    } else {
        Err(format!("etcdctl watch showed {seen:?}"))
    }
}

/// A snapshot saved by etcdctl can be restored.
fn snapshot(client: &EtcdctlCommand, optik: &Path, scratch: &Path) -> Outcome {
    let file = scratch.join("saved");
    client.expect(&format!("snapshot save {}", file.display()), &[])?;
    let target = scratch.join("restored");
    let mut restore = Command::new(optik);
    let text = output(
        restore
            .args(["store", "restore", "--data"])
            .arg(&target)
            .arg(&file),
    )?;
    let mut check = Command::new(optik);
    let checked = output(check.args(["store", "check", "--data"]).arg(&target))?;
    if text.contains("is at revision") && checked.contains("is intact") {
        Ok(())
    } else {
        Err(format!("restoring said {text} {checked}"))
    }
}
