//! Cost cases of the authorizer: RBAC, reviews and certificate signing requests.

use crate::case::{CostCase, post, string_items};
use base64::Engine as _;
use optik_apiserver::ApiRequest;
use optik_auth::User;
use serde_json::{Value, json};
use std::sync::Arc;

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

/// By somebody who may do some things, and must not give away more.
fn by_kim(mut request: ApiRequest) -> ApiRequest {
    request.user = Arc::new(
        User {
            name: "kim".into(),
            ..User::default()
        }
        .authenticated(),
    );
    request
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

/// Kim has these rules.
fn held(rules: Value) -> Vec<ApiRequest> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "kim"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "held"},
        "subjects": [{"kind": "User", "name": "kim", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    vec![
        post(&format!("{GROUP}/clusterroles"), &role("held", rules)),
        post(&format!("{GROUP}/clusterrolebindings"), &binding),
    ]
}

fn wants(rules: Value) -> ApiRequest {
    by_kim(post(
        &format!("{GROUP}/clusterroles?dryRun=All"),
        &role("wanted", rules),
    ))
}

fn rule(
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    names: Vec<String>,
) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
}

fn product(n: usize) -> Value {
    rule(
        string_items("v", n),
        string_items("g", n),
        string_items("r", n),
        string_items("n", n),
    )
}

pub(crate) fn cases() -> Vec<CostCase> {
    let mut cases = vec![
        CostCase::new("a product of four lists, nothing held", 12, |n| wants(json!([product(n)]))),
        CostCase::new("a product of four lists, half held", 12, |n| wants(json!([product(n)]))).with_setup(|n| {
            let mut half = product(n);
            half["resourceNames"] = string_items("n", n / 2).into();
            held(json!([half]))
        }),
        CostCase::new("a product of four lists, held in parts", 12, |n| wants(json!([product(n)]))).with_setup(|n| {
            let parts = string_items("v", n).into_iter().map(|verb| {
                let mut part = product(n);
                part["verbs"] = json!([verb]);
                part
            });
            held(parts.collect())
        }),
        CostCase::new("many rules, many held", 500, |n| {
            wants((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())
        })
        .with_setup(|n| held((0..n).rev().map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())),
        CostCase::new("many rules, none held", 500, |n| {
            wants((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())
        }),
        CostCase::new("many paths, many held", 2_000, |n| {
            wants(json!([{"verbs": ["get"], "nonResourceURLs": string_items("/a/b", n)}]))
        })
        .with_setup(|n| held(json!([{"verbs": ["get"], "nonResourceURLs": (0..n).map(|at| format!("/a/b{at}/*")).collect::<Vec<_>>()}]))),
        CostCase::new("names of many resources", 1_000, |n| {
            wants(json!([rule(vec!["get".into()], vec![String::new()], vec!["pods".into(); n], string_items("n", n))]))
        })
        .with_setup(|n| held(json!([rule(vec!["get".into()], vec![String::new()], vec!["pods".into(); n], string_items("n", n))]))),
        CostCase::new("many subjects", 2_000, |n| {
            let subject = |name: String| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
            let binding = json!({
                "metadata": {"name": "b"}, "subjects": string_items("u", n).into_iter().map(subject).collect::<Vec<_>>(),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            });
            by_kim(post(&format!("{GROUP}/clusterrolebindings?dryRun=All"), &binding))
        }),
        CostCase::new("many selectors of roles", 1_000, |n| {
            let selector = |at: usize| json!({"matchLabels": {format!("k{at}"): "v"}});
            let mut role = role("gathers", json!([]));
            role["aggregationRule"] = json!({"clusterRoleSelectors": (0..n).map(selector).collect::<Vec<_>>()});
            post(&format!("{GROUP}/clusterroles?dryRun=All"), &role)
        }),
        CostCase::new("own rules", 2_000, |_| {
            by_kim(post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &json!({"spec": {"namespace": "default"}})))
        })
        .with_setup(|n| held((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())),
    ];
    cases.extend(reviews());
    cases.extend(certificates());
    cases
}

fn reviews() -> Vec<CostCase> {
    let review = |spec: Value| {
        post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &json!({"spec": spec}),
        )
    };
    let asked = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let of_groups = asked.clone();
    vec![
        CostCase::new("review: groups", 2_000, move |n| {
            review(
                json!({"user": "u", "groups": string_items("g", n), "resourceAttributes": of_groups}),
            )
        }),
        CostCase::new("review: extra", 2_000, move |n| {
            let extra: serde_json::Map<_, _> = string_items("k", n)
                .into_iter()
                .map(|key| (key, json!(["v"])))
                .collect();
            review(json!({"user": "u", "extra": extra, "resourceAttributes": asked}))
        }),
        CostCase::new("review: labels", 2_000, move |n| {
            let one = |key: String| json!({"key": key, "operator": "In", "values": ["v"]});
            let requirements: Vec<Value> = string_items("k", n).into_iter().map(one).collect();
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": requirements}}}),
            )
        }),
        CostCase::new("review: values of one label", 2_000, move |n| {
            let requirement = json!({"key": "k", "operator": "In", "values": string_items("v", n)});
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": [requirement]}}}),
            )
        }),
        CostCase::new("review: raw selector", 2_000, move |n| {
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"rawSelector": format!("k in ({})", string_items("v", n).join(","))}}}),
            )
        }),
        CostCase::new("review: one long token", 100_000, |n| {
            post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                &json!({"spec": {"token": "a.".repeat(n), "audiences": string_items("a", n / 100)}}),
            )
        }),
    ]
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut out = vec![tag];
    match length {
        0..0x80 => out.push(length as u8),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes: Vec<u8> = bytes
                .iter()
                .copied()
                .skip_while(|byte| *byte == 0)
                .collect();
            out.push(0x80 | bytes.len() as u8);
            out.extend(bytes);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A certificate signing request with this number of organizations, unsigned.
fn certificate_request(organizations: usize) -> String {
    let name = |text: &str, of: u8| {
        let pair = [der(0x06, &[0x55, 0x04, of]), der(0x0c, text.as_bytes())].concat();
        der(0x31, &der(0x30, &pair))
    };
    let mut names = name("somebody", 0x03);
    string_items("g", organizations)
        .iter()
        .for_each(|group| names.extend(name(group, 0x0a)));
    let algorithm = der(
        0x30,
        &[
            der(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]),
            der(0x06, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]),
        ]
        .concat(),
    );
    let key = der(
        0x30,
        &[
            algorithm.clone(),
            der(0x03, &[vec![0, 4], vec![7; 64]].concat()),
        ]
        .concat(),
    );
    let info = der(
        0x30,
        &[der(0x02, &[0]), der(0x30, &names), key, der(0xa0, &[])].concat(),
    );
    let whole = der(0x30, &[info, algorithm, der(0x03, &[0, 1])].concat());
    let base64 = base64::engine::general_purpose::STANDARD.encode(whole);
    let lines: Vec<&str> = base64
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
        lines.join("\n")
    )
}

fn certificates() -> Vec<CostCase> {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let ask = |spec: Value| {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        post(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All",
            &object,
        )
    };
    vec![
        CostCase::new("certificate: organizations", 1_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(n)), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}),
            )
        }),
        CostCase::new("certificate: usages", 2_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(1)), "signerName": "example.com/a", "usages": string_items("u", n)}),
            )
        }),
        CostCase::new("certificate: the same usage", 2_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(1)), "signerName": "example.com/a", "usages": vec!["client auth"; n]}),
            )
        }),
        CostCase::new("certificate: no request", 20_000, move |n| {
            ask(
                json!({"request": base64(&"-----BEGIN ".repeat(n)), "signerName": "example.com/a", "usages": ["client auth"]}),
            )
        }),
        CostCase::new("certificate: headers of a request", 5_000, move |n| {
            let text = format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
                "a: b\n".repeat(n)
            );
            ask(
                json!({"request": base64(&text), "signerName": "example.com/a", "usages": ["client auth"]}),
            )
        }),
    ]
}
