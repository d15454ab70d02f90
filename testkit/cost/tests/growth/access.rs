//! Who may do what.

use crate::case::{Case, post, texts};
use base64::Engine as _;
use optik_access::User;
use optik_apiserver::Request;
use serde_json::{Value, json};
use std::sync::Arc;

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

/// By somebody who may do some things, and must not give away more.
fn by_kim(mut request: Request) -> Request {
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
fn held(rules: Value) -> Vec<Request> {
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

fn wants(rules: Value) -> Request {
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
    rule(texts("v", n), texts("g", n), texts("r", n), texts("n", n))
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("a product of four lists, nothing held", 12, |n| wants(json!([product(n)]))),
        Case::new("a product of four lists, half held", 12, |n| wants(json!([product(n)]))).after(|n| {
            let mut half = product(n);
            half["resourceNames"] = texts("n", n / 2).into();
            held(json!([half]))
        }),
        Case::new("a product of four lists, held in parts", 12, |n| wants(json!([product(n)]))).after(|n| {
            let parts = texts("v", n).into_iter().map(|verb| {
                let mut part = product(n);
                part["verbs"] = json!([verb]);
                part
            });
            held(parts.collect())
        }),
        Case::new("many rules, many held", 500, |n| {
            wants((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())
        })
        .after(|n| held((0..n).rev().map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())),
        Case::new("many rules, none held", 500, |n| {
            wants((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())
        }),
        Case::new("many paths, many held", 2_000, |n| {
            wants(json!([{"verbs": ["get"], "nonResourceURLs": texts("/a/b", n)}]))
        })
        .after(|n| held(json!([{"verbs": ["get"], "nonResourceURLs": (0..n).map(|at| format!("/a/b{at}/*")).collect::<Vec<_>>()}]))),
        Case::new("names of many resources", 1_000, |n| {
            wants(json!([rule(vec!["get".into()], vec![String::new()], vec!["pods".into(); n], texts("n", n))]))
        })
        .after(|n| held(json!([rule(vec!["get".into()], vec![String::new()], vec!["pods".into(); n], texts("n", n))]))),
        Case::new("many subjects", 2_000, |n| {
            let subject = |name: String| json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
            let binding = json!({
                "metadata": {"name": "b"}, "subjects": texts("u", n).into_iter().map(subject).collect::<Vec<_>>(),
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            });
            by_kim(post(&format!("{GROUP}/clusterrolebindings?dryRun=All"), &binding))
        }),
        Case::new("many selectors of roles", 1_000, |n| {
            let selector = |at: usize| json!({"matchLabels": {format!("k{at}"): "v"}});
            let mut role = role("gathers", json!([]));
            role["aggregationRule"] = json!({"clusterRoleSelectors": (0..n).map(selector).collect::<Vec<_>>()});
            post(&format!("{GROUP}/clusterroles?dryRun=All"), &role)
        }),
        Case::new("own rules", 2_000, |_| {
            by_kim(post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &json!({"spec": {"namespace": "default"}})))
        })
        .after(|n| held((0..n).map(|at| rule(vec!["get".into()], vec!["g".into()], vec![format!("r{at}")], vec![])).collect())),
    ];
    cases.extend(reviews());
    cases.extend(certificates());
    cases
}

fn reviews() -> Vec<Case> {
    let review = |spec: Value| {
        post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &json!({"spec": spec}),
        )
    };
    let asked = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let of_groups = asked.clone();
    vec![
        Case::new("review: groups", 2_000, move |n| {
            review(json!({"user": "u", "groups": texts("g", n), "resourceAttributes": of_groups}))
        }),
        Case::new("review: extra", 2_000, move |n| {
            let extra: serde_json::Map<_, _> = texts("k", n)
                .into_iter()
                .map(|key| (key, json!(["v"])))
                .collect();
            review(json!({"user": "u", "extra": extra, "resourceAttributes": asked}))
        }),
        Case::new("review: labels", 2_000, move |n| {
            let one = |key: String| json!({"key": key, "operator": "In", "values": ["v"]});
            let requirements: Vec<Value> = texts("k", n).into_iter().map(one).collect();
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": requirements}}}),
            )
        }),
        Case::new("review: values of one label", 2_000, move |n| {
            let requirement = json!({"key": "k", "operator": "In", "values": texts("v", n)});
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": [requirement]}}}),
            )
        }),
        Case::new("review: raw selector", 2_000, move |n| {
            review(
                json!({"user": "u", "resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"rawSelector": format!("k in ({})", texts("v", n).join(","))}}}),
            )
        }),
        Case::new("review: one long token", 100_000, |n| {
            post(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                &json!({"spec": {"token": "a.".repeat(n), "audiences": texts("a", n / 100)}}),
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

/// A request for a certificate with so many organizations; nobody has signed it.
fn certificate_request(organizations: usize) -> String {
    let name = |text: &str, of: u8| {
        let pair = [der(0x06, &[0x55, 0x04, of]), der(0x0c, text.as_bytes())].concat();
        der(0x31, &der(0x30, &pair))
    };
    let mut names = name("somebody", 0x03);
    texts("g", organizations)
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

fn certificates() -> Vec<Case> {
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let ask = |spec: Value| {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        post(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All",
            &object,
        )
    };
    vec![
        Case::new("certificate: organizations", 1_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(n)), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}),
            )
        }),
        Case::new("certificate: usages", 2_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(1)), "signerName": "example.com/a", "usages": texts("u", n)}),
            )
        }),
        Case::new("certificate: the same usage", 2_000, move |n| {
            ask(
                json!({"request": base64(&certificate_request(1)), "signerName": "example.com/a", "usages": vec!["client auth"; n]}),
            )
        }),
        Case::new("certificate: no request", 20_000, move |n| {
            ask(
                json!({"request": base64(&"-----BEGIN ".repeat(n)), "signerName": "example.com/a", "usages": ["client auth"]}),
            )
        }),
        Case::new("certificate: headers of a request", 5_000, move |n| {
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
