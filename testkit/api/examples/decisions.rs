//! Asks a server who may do what, and prints the table that `crates/auth` is held to:
//! `user|groups|verb|group|resource|subresource|namespace|name|yes` or
//! `user|groups|verb|path|no`.
//!
//! cargo run -p optik-api-testkit --example decisions -- --server URL --token T
//!     [--objects recordings/authorization/roles.json]
#![expect(clippy::print_stdout, reason = "the table is for a file")]

use clap::Parser;
use optik_api_testkit::{Client, Target};
use serde_json::{Value, json};

#[derive(Parser)]
struct Args {
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
    #[arg(long, default_value = "recordings/authorization/roles.json")]
    objects: String,
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Name and groups.
const USERS: &[(&str, &[&str])] = &[
    ("ann", &["system:authenticated"]),
    ("bob", &["system:authenticated"]),
    ("cat", &["writers", "system:authenticated"]),
    ("dan", &["readers", "walkers", "system:authenticated"]),
    ("eve", &["chiefs"]),
    ("odd", &[]),
    ("root", &["system:masters"]),
    ("system:anonymous", &["system:unauthenticated"]),
    (
        "system:serviceaccount:dt-one:robot",
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:dt-one",
            "system:authenticated",
        ],
    ),
    (
        "system:serviceaccount:dt-two:robot",
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:dt-two",
            "system:authenticated",
        ],
    ),
    ("system:kube-scheduler", &["system:authenticated"]),
    (
        "system:serviceaccount:kube-system:job-controller",
        &["system:serviceaccounts"],
    ),
];
/// Verb, group, resource, subresource, name.
const QUESTIONS: &[[&str; 5]] = &[
    ["get", "", "pods", "", "x"],
    ["list", "", "pods", "", ""],
    ["watch", "", "pods", "", ""],
    ["create", "", "pods", "", ""],
    ["get", "apps", "pods", "", "x"],
    ["get", "", "pods", "log", "x"],
    ["get", "", "pods", "exec", "x"],
    ["patch", "", "pods", "scale", "x"],
    ["get", "", "services", "", "x"],
    ["get", "", "configmaps", "", "x"],
    ["create", "", "configmaps", "", ""],
    ["update", "", "configmaps", "status", "x"],
    ["get", "", "secrets", "", "a"],
    ["get", "", "secrets", "", "c"],
    ["get", "", "secrets", "", ""],
    ["create", "", "secrets", "", ""],
    ["deletecollection", "", "secrets", "", ""],
    ["get", "apps", "deployments", "", "d"],
    ["anything", "apps", "deployments", "", "d"],
    ["*", "apps", "deployments", "", "d"],
    ["get", "apps", "deployments", "scale", "d"],
    ["get", "apps", "deployments", "status", "d"],
    ["get", "apps", "*", "scale", "d"],
    ["get", "batch", "jobs", "", "j"],
    ["delete", "other", "jobs", "", "j"],
    ["list", "batch", "cronjobs", "", ""],
    ["list", "batch", "cronjobs", "status", ""],
    ["list", "*", "cronjobs", "", ""],
    ["get", "example.com", "widgets", "", "w"],
    ["patch", "example.com", "widgets", "status", "w"],
    ["get", "example.com", "widgets", "", "v"],
    ["get", "", "namespaces", "", "dt-one"],
    [
        "bind",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "",
        "admin",
    ],
    ["escalate", "rbac.authorization.k8s.io", "roles", "", "r"],
    ["impersonate", "", "users", "", "kim"],
    ["impersonate", "", "groups", "", "g"],
    [
        "create",
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "",
        "",
    ],
    ["*", "*", "*", "", ""],
];
const PATHS: &[(&str, &str)] = &[
    ("get", "/exact"),
    ("get", "/exact/more"),
    ("get", "/logs"),
    ("get", "/logs/"),
    ("get", "/logs/x/y"),
    ("get", "/a"),
    ("get", "/apricot"),
    ("get", "/two"),
    ("get", "/twofold"),
    ("post", "/exact"),
    ("post", "/post"),
    ("delete", "/post"),
    ("get", "/api"),
    ("get", "/apis/apps"),
    ("get", "/healthz"),
    ("get", "/healthz/x"),
    ("get", "/version/"),
    ("get", "/metrics"),
    ("get", "*"),
    ("*", "*"),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let client = Client::new(Target::parse(&args.server, args.token.clone())?);
    let objects: Vec<Value> = serde_json::from_slice(&std::fs::read(&args.objects)?)?;
    make(&client, &objects).await?;
    for (user, groups) in USERS {
        for namespace in ["", "dt-one", "dt-two"] {
            for [verb, group, resource, subresource, name] in QUESTIONS {
                let about = json!({
                    "verb": verb, "group": group, "resource": resource,
                    "subresource": subresource, "namespace": namespace, "name": name,
                });
                let spec = json!({"user": user, "groups": groups, "resourceAttributes": about});
                let yes = ask(&client, spec).await?;
                let groups = groups.join(",");
                println!(
                    "{user}|{groups}|{verb}|{group}|{resource}|{subresource}|{namespace}|{name}|{yes}"
                );
            }
        }
        for (verb, path) in PATHS {
            let about = json!({"verb": verb, "path": path});
            let spec = json!({"user": user, "groups": groups, "nonResourceAttributes": about});
            let yes = ask(&client, spec).await?;
            println!("{user}|{}|{verb}|{path}|{yes}", groups.join(","));
        }
    }
    Ok(())
}

async fn make(client: &Client, objects: &[Value]) -> Result<(), Box<dyn std::error::Error>> {
    for name in ["dt-one", "dt-two"] {
        let namespace = json!({"metadata": {"name": name}});
        client
            .post("/api/v1/namespaces", &namespace)
            .await
            .map_err(|e| e.to_string())?;
    }
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let path = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("{RBAC}/namespaces/{namespace}/{kind}s"),
            None => format!("{RBAC}/{kind}s"),
        };
        let made = client
            .post(&path, object)
            .await
            .map_err(|e| e.to_string())?;
        if !matches!(made.status, 201_u16 | 409) {
            return Err(format!("{path}: {}", made.text()).into());
        }
    }
    // The last created object must be in effect before the first review.
    loop {
        let about = json!({"verb": "get", "path": "/exact"});
        let spec = json!({"user": "ann", "nonResourceAttributes": about});
        let last = json!({"verb": "get", "resource": "services", "subresource": "scale", "namespace": "dt-one"});
        let last = json!({"user": "cat", "resourceAttributes": last});
        if ask(client, spec).await? == "yes" && ask(client, last).await? == "yes" {
            return Ok(());
        }
    }
}

async fn ask(client: &Client, spec: Value) -> Result<&'static str, Box<dyn std::error::Error>> {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let answer = client
        .post(path, &json!({"spec": spec}))
        .await
        .map_err(|e| e.to_string())?;
    let answer = answer.expect_json(201).map_err(|e| e.to_string())?;
    Ok(match answer["status"]["allowed"].as_bool() {
        Some(true) => "yes",
        _ => "no",
    })
}
