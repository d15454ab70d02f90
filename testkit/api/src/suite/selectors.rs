//! Label and field selectors (CONC §3.5).

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, same};
use crate::object::{names, with};
use crate::samples::sample;
use crate::status;
use crate::{Outcome, Scope};
use serde_json::json;

checks! { selectors:
    ["CONC-84"] label_selectors_select [],
    [] malformed_label_selector_is_rejected [],
    [] field_selectors_select [],
    ["CONC-83"] malformed_field_selector_is_rejected [],
    ["CONC-83"] watch_with_malformed_selector_is_rejected [],
    ["CONC-83"] each_kind_supports_its_field_selectors [
        Kind("pods"), Kind("events"), Kind("nodes"), Kind("services"), Kind("jobs"),
        Kind("replicationcontrollers"), Kind("resourceslices"), Kind("deployments"),
    ],
    ["CONC-83"] custom_resources_support_selectable_fields_of_their_crd [CustomResources],
    ["CONC-83"] csrs_support_signer_name_field_selector [],
    [] pods_support_their_field_selectors [Pods, Status],
    [] secrets_and_services_support_type_field_selectors [Kind("services")],
}

/// Selector, and the names it selects of `a` (app=x, n=5), `b` (app=y), `c` (none).
const LABELS: &[(&str, &[&str])] = &[
    ("app=x", &["a"]),
    ("app==x", &["a"]),
    ("app!=x", &["b", "c"]),
    ("app", &["a", "b"]),
    ("!app", &["c"]),
    ("app in (x,y)", &["a", "b"]),
    ("app in (x, z)", &["a"]),
    ("app notin (x)", &["b", "c"]),
    ("app in ()", &[]),
    ("app,n", &["a"]),
    ("app=x,n=5", &["a"]),
    ("app=x,n=6", &[]),
    ("n>4", &["a"]),
    ("n>5", &[]),
    ("n<6", &["a"]),
    ("app=", &[]),
    (" app = x ", &["a"]),
    ("", &["a", "b", "c"]),
];

async fn make_labelled(scope: &Scope) -> Outcome {
    for (name, labels) in [
        ("a", json!({"app": "x", "n": "5"})),
        ("b", json!({"app": "y"})),
        ("c", json!({})),
    ] {
        let body = with(&sample("configmaps", name), "/metadata/labels", labels);
        scope.create("configmaps", &body).await?;
    }
    Ok(())
}

async fn selects(scope: &Scope, parameter: &str, rows: &[(&str, &[&str])]) -> Outcome {
    let mut results = RowFailures::default();
    for (selector, expected) in rows {
        let list = scope.list(&[(parameter, selector)]).await;
        let outcome = list.and_then(|list| {
            let expected: Vec<String> = expected.iter().map(|&name| name.to_owned()).collect();
            same("names", &expected, &names(&list)?)
        });
        results.record(selector, outcome);
    }
    results.outcome()
}

async fn label_selectors_select(scope: Scope) -> Outcome {
    make_labelled(&scope).await?;
    selects(&scope, "labelSelector", LABELS).await
}

const BAD_LABELS: &[(&str, &str)] = &[
    (
        "a b",
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    ),
    (
        "a===",
        "unable to parse requirement: found '=', expected: identifier",
    ),
    (
        "a in (b",
        "unable to parse requirement: found '', expected: ',' or ')'",
    ),
    (
        "=",
        "found '=', expected: !, identifier, or 'end of string'",
    ),
    (
        "!",
        "unable to parse requirement: found '', expected: identifier",
    ),
    (
        "a=#",
        "unable to parse requirement: values[0][a]: Invalid value: \"#\": a valid label must be \
         an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
         regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    ),
    (
        ",",
        "found ',', expected: !, identifier, or 'end of string'",
    ),
    (
        "a>x",
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, \
         the value must be an integer",
    ),
    ("a,,b", "found ',', expected: identifier after ','"),
    (
        "-a",
        "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
];

async fn are_refused(scope: &Scope, more: &str, parameter: &str, rows: &[(&str, &str)]) -> Outcome {
    let mut results = RowFailures::default();
    for (selector, text) in rows {
        let path = query(
            &scope.collection_path("configmaps"),
            &[(parameter, selector)],
        );
        let answer = scope.client.get(&format!("{path}{more}")).await?;
        results.record(selector, answer.expect_failure(&status::bad_request(text)));
    }
    results.outcome()
}

async fn malformed_label_selector_is_rejected(scope: Scope) -> Outcome {
    are_refused(&scope, "", "labelSelector", BAD_LABELS).await
}

const FIELDS: &[(&str, &[&str])] = &[
    ("metadata.name=a", &["a"]),
    ("metadata.name==a", &["a"]),
    ("metadata.name!=a", &["b", "c"]),
    ("metadata.name!=a,metadata.name!=b", &["c"]),
    ("metadata.name=a,metadata.name=b", &[]),
    ("metadata.namespace=elsewhere", &[]),
    ("metadata.namespace!=elsewhere", &["a", "b", "c"]),
    // Empty terms are skipped.
    (",", &["a", "b", "c"]),
    ("=", &["a", "b", "c"]),
    ("metadata.name=a,", &["a"]),
    ("", &["a", "b", "c"]),
];

async fn field_selectors_select(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b", "c"]).await?;
    selects(&scope, "fieldSelector", FIELDS).await
}

const BAD_FIELDS: &[(&str, &str)] = &[
    ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
    (
        "metadata.name>b",
        "invalid selector: 'metadata.name>b'; can't understand 'metadata.name>b'",
    ),
    (
        "metadata.name!=x,a",
        "invalid selector: 'metadata.name!=x,a'; can't understand 'a'",
    ),
    (
        "metadata.name=z\\z",
        "invalid field selector: invalid escape sequence: \\z",
    ),
    (
        "data=x",
        "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
    (
        "metadata.uid=x",
        "\"metadata.uid\" is not a known field selector: only \"metadata.name\", \
         \"metadata.namespace\"",
    ),
];

async fn malformed_field_selector_is_rejected(scope: Scope) -> Outcome {
    are_refused(&scope, "", "fieldSelector", BAD_FIELDS).await
}

/// Before the stream, as HTTP.
async fn watch_with_malformed_selector_is_rejected(scope: Scope) -> Outcome {
    are_refused(&scope, "&watch=true", "labelSelector", BAD_LABELS).await?;
    are_refused(&scope, "&watch=true", "fieldSelector", BAD_FIELDS).await
}

/// The kinds with more selectable fields than name and namespace: path, fields, whether
/// `metadata.namespace` is among them, and the error for any other field (`F`).
const OWN_FIELDS: &[(&str, &[&str], bool, &str)] = &[
    (
        "/api/v1/pods",
        &[
            "spec.nodeName",
            "spec.host",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        true,
        "field label not supported: F",
    ),
    (
        "/api/v1/events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        true,
        "field label not supported: F",
    ),
    (
        "/apis/events.k8s.io/v1/events",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        true,
        "field label not supported: F",
    ),
    (
        "/api/v1/nodes",
        &["spec.unschedulable"],
        false,
        "field label not supported: F",
    ),
    (
        "/api/v1/namespaces",
        &["status.phase"],
        false,
        "field label not supported: F",
    ),
    (
        "/api/v1/secrets",
        &["type"],
        true,
        "field label not supported: F",
    ),
    (
        "/api/v1/services",
        &["spec.clusterIP", "spec.type"],
        true,
        "field label not supported: F",
    ),
    (
        "/api/v1/replicationcontrollers",
        &["status.replicas"],
        true,
        "field label not supported: F",
    ),
    (
        "/apis/batch/v1/jobs",
        &["status.successful"],
        true,
        "field label \"F\" not supported for Job",
    ),
    (
        "/apis/resource.k8s.io/v1/resourceslices",
        &["spec.nodeName", "spec.driver"],
        false,
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: F",
    ),
];

const UNSUPPORTED: &str = "field label not supported: ";

async fn each_kind_supports_its_field_selectors(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (path, fields, namespaced, refusal) in OWN_FIELDS {
        let answer = |field: &str| {
            let path = query(path, &[("fieldSelector", &format!("{field}=x"))]);
            let client = scope.client.clone();
            async move { client.get(&path).await }
        };
        for field in fields.iter().chain(&["metadata.name"]) {
            rows.record(
                format!("{path} {field}"),
                answer(field).await?.has_status(200),
            );
        }
        let in_namespace = answer("metadata.namespace").await?;
        let outcome = if *namespaced {
            in_namespace.has_status(200)
        } else {
            let text = refusal.replace('F', "metadata.namespace");
            in_namespace.expect_failure(&status::bad_request(&text))
        };
        rows.record(format!("{path} metadata.namespace"), outcome);
        let unknown = answer("spec.nope").await?;
        let expected = status::bad_request(&refusal.replace('F', "spec.nope"));
        rows.record(
            format!("{path} spec.nope"),
            unknown.expect_failure(&expected),
        );
    }
    rows.record("regarding", knows_only_regarding(&scope).await);
    rows.record("deployments", knows_nothing_of_its_own(&scope).await);
    rows.outcome()
}

/// One store, two groups, two sets of names.
async fn knows_only_regarding(scope: &Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for field in ["involvedObject.name", "reportingComponent", "source"] {
        let selector = format!("{field}=x");
        let selector = [("fieldSelector", selector.as_str())];
        let path = query("/apis/events.k8s.io/v1/events", &selector);
        let answer = scope.client.get(&path).await?;
        let text = format!("{UNSUPPORTED}{field}");
        rows.record(field, answer.expect_failure(&status::bad_request(&text)));
    }
    rows.outcome()
}

async fn knows_nothing_of_its_own(scope: &Scope) -> Outcome {
    let selector = [("fieldSelector", "spec.replicas=1")];
    let answer = scope
        .client
        .get(&query("/apis/apps/v1/deployments", &selector))
        .await?;
    answer.expect_failure(&status::bad_request(
        "\"spec.replicas\" is not a known field selector: only \"metadata.name\", \
         \"metadata.namespace\"",
    ))
}

async fn csrs_support_signer_name_field_selector(scope: Scope) -> Outcome {
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let of = |field: &str| query(path, &[("fieldSelector", &format!("{field}=x"))]);
    scope
        .client
        .get(&of("spec.signerName"))
        .await?
        .has_status(200)?;
    let answer = scope.client.get(&of("metadata.namespace")).await?;
    let text = format!("{UNSUPPORTED}metadata.namespace");
    answer.expect_failure(&status::bad_request(&text))
}

async fn custom_resources_support_selectable_fields_of_their_crd(scope: Scope) -> Outcome {
    for (name, color) in [("a", "red"), ("b", "blue")] {
        let body = with(&sample("widgets", name), "/spec/color", color);
        scope.create("widgets", &body).await?;
    }
    let of = |field: &str| {
        query(
            &scope.collection_path("widgets"),
            &[("fieldSelector", field)],
        )
    };
    let list = scope
        .client
        .get(&of("spec.color=blue"))
        .await?
        .expect_json(200)?;
    same("names", &vec!["b".to_owned()], &names(&list)?)?;
    let answer = scope.client.get(&of("spec.nope=x")).await?;
    let text = format!("{UNSUPPORTED}spec.nope");
    answer.expect_failure(&status::bad_request(&text))
}

async fn pods_support_their_field_selectors(scope: Scope) -> Outcome {
    scope.make("pods", "a").await?;
    let mut scheduled = with(&sample("pods", "b"), "/spec/nodeName", "n1");
    scheduled["spec"]["restartPolicy"] = "Never".into();
    scope.create("pods", &scheduled).await?;
    let mut rows = RowFailures::default();
    for (selector, expected) in [
        ("spec.nodeName=n1", vec!["b"]),
        ("spec.host=n1", vec!["b"]),
        ("spec.nodeName=", vec!["a"]),
        ("spec.nodeName!=n1", vec!["a"]),
        ("status.phase=Pending", vec!["a", "b"]),
        ("status.phase!=Pending", vec![]),
        ("spec.restartPolicy=Never", vec!["b"]),
        ("spec.schedulerName=default-scheduler", vec!["a", "b"]),
        ("spec.hostNetwork=false", vec!["a", "b"]),
        (
            "spec.nodeName=n1,status.phase=Pending,metadata.name=b",
            vec!["b"],
        ),
    ] {
        let path = query(
            &scope.collection_path("pods"),
            &[("fieldSelector", selector)],
        );
        let list = scope.client.get(&path).await?.expect_json(200)?;
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        rows.record(selector, same("names", &expected, &names(&list)?));
    }
    rows.outcome()
}

async fn secrets_and_services_support_type_field_selectors(scope: Scope) -> Outcome {
    scope.make("secrets", "a").await?;
    let typed = with(&sample("secrets", "b"), "/type", "optik.test/t");
    scope.create("secrets", &typed).await?;
    scope.make("services", "a").await?;
    let mut rows = RowFailures::default();
    for (plural, selector, expected) in [
        ("secrets", "type=Opaque", vec!["a"]),
        ("secrets", "type=optik.test/t", vec!["b"]),
        ("services", "spec.type=ClusterIP", vec!["a"]),
        ("services", "spec.clusterIP=None", vec![]),
    ] {
        let path = query(
            &scope.collection_path(plural),
            &[("fieldSelector", selector)],
        );
        let list = scope.client.get(&path).await?.expect_json(200)?;
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        rows.record(selector, same("names", &expected, &names(&list)?));
    }
    rows.outcome()
}
