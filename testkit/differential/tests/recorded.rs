//! Comparison of the server with the recorded responses of kube-apiserver.

use optik_api_testkit::{Client, Target};
use optik_differential::{RequestScript, ResponseRecording, compare, run_script};
use optik_server_testkit::{TestEngine, TestServer};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat/differential")
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/differential")
}

/// Requests whose responses differ on purpose, or are not yet correct; the reason is in that file
/// and in COMPAT.md.
fn known() -> BTreeMap<String, String> {
    let text = fs::read_to_string(directory().join("differences.txt")).unwrap();
    let entries = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    entries
        .map(|line| {
            let (title, why) = line.split_once(" — ").expect("SCRIPT: TITLE — WHY");
            (title.into(), why.into())
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_recorded_kube_apiserver_responses() {
    let server = TestServer::start_bare(TestEngine::Memory).await;
    let client = Client::new(Target::parse(&server.url, None).unwrap());
    let mut known = known();
    let mut told = String::new();
    let mut asked = 0;
    for name in scripts() {
        let script = directory().join(&name).with_extension("http");
        let script = RequestScript::parse(&fs::read_to_string(script).unwrap()).unwrap();
        let record = recordings().join(&name).with_extension("txt");
        let expected = ResponseRecording::read(&fs::read_to_string(record).unwrap());
        let found = run_script(&client, &script).await.unwrap();
        asked += found.len();
        for difference in compare(&expected, &found) {
            let title = format!("{name}: {}", difference.title);
            if known.remove(&title).is_none() {
                told.push_str(&difference.to_string());
            }
        }
    }
    assert!(told.is_empty(), "- the record, + our server\n{told}");
    assert!(
        known.is_empty(),
        "these are no differences any more: {known:#?}"
    );
    assert!(asked >= 1300, "only {asked} requests");
    server.stop().await;
}

fn scripts() -> Vec<String> {
    let files = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|kind| kind == "http"));
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut names: Vec<String> = scripts.map(name).collect();
    names.sort();
    names
}
