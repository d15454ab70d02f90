//! `/version`: the Kubernetes version that the server implements.

use http::StatusCode;
use optik_apiserver::ApiResponse;
use optik_object::Status;
use serde::Serialize;

/// The version whose API is implemented. kubectl and helm parse it as a semantic version.
const GIT_VERSION: &str = concat!("v1.36.4+optik.", env!("CARGO_PKG_VERSION"));
const MAJOR: &str = "1";
const MINOR: &str = "36";
/// The minor version of the oldest API that the server is compatible with.
const MIN_COMPATIBILITY_MINOR: &str = "35";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionInfo {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: &'static str,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

/// Always indented, as upstream does.
pub(crate) fn respond(verb: &str) -> ApiResponse {
    if verb != "get" {
        return Status::method_not_allowed().into();
    }
    let body = serde_json::to_vec_pretty(&version_info()).expect("strings are JSON");
    ApiResponse::json(StatusCode::OK, body)
}

fn version_info() -> VersionInfo {
    VersionInfo {
        major: MAJOR,
        minor: MINOR,
        emulation_major: MAJOR,
        emulation_minor: MINOR,
        min_compatibility_major: MAJOR,
        min_compatibility_minor: MIN_COMPATIBILITY_MINOR,
        git_version: GIT_VERSION,
        git_commit: "",
        git_tree_state: "clean",
        build_date: "1970-01-01T00:00:00Z",
        go_version: "none",
        compiler: "rustc",
        platform: format!("{}/{}", std::env::consts::OS, go_arch()),
    }
}

/// Go's name of the architecture.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
