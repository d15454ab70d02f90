//! The life of an object of every kind, by the columns of the table of kinds: whether a PUT creates
//! it (CONC §2.3), whether it may be updated without a resourceVersion (CONC §2.2), the behaviour
//! of its generation (CONC §7), and the response to its deletion (CONC §2.5).

use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::{Generations, Kind, kind};
use crate::object::{revision, uid, with, without_meta};
use crate::samples::change;
use crate::status;
use crate::{Check, Outcome, Scope};
use serde_json::{Value, json};

/// One check for each kind.
macro_rules! lives {
    ($($ids:tt $plural:literal $(+ $need:ident)?,)*) => {
        pub(crate) const CHECKS: &[Check] = &[$(Check {
            name: concat!("kind_lifecycle::", $plural),
            ids: &$ids,
            needs: &[crate::Need::Kind($plural) $(, crate::Need::$need)?],
            run: |scope| Box::pin(check_kind_lifecycle(scope, $plural)),
        },)*];
    };
}

lives! {
    ["CONC-26"] "configmaps",
    ["CONC-26"] "secrets",
    [] "services",
    [] "endpoints",
    [] "events",
    [] "limitranges",
    [] "persistentvolumeclaims",
    [] "persistentvolumes",
    [] "pods",
    [] "podtemplates",
    [] "replicationcontrollers",
    [] "resourcequotas",
    ["CONC-49"] "serviceaccounts",
    [] "nodes",
    [] "deployments",
    [] "replicasets",
    [] "statefulsets",
    [] "daemonsets",
    [] "controllerrevisions",
    [] "horizontalpodautoscalers",
    [] "jobs",
    [] "cronjobs",
    [] "ingresses",
    [] "ingressclasses",
    [] "networkpolicies",
    ["CONC-27"] "poddisruptionbudgets",
    ["CONC-35"] "roles",
    [] "rolebindings",
    [] "clusterroles",
    [] "clusterrolebindings",
    [] "csidrivers",
    [] "csinodes",
    [] "csistoragecapacities",
    [] "storageclasses",
    [] "volumeattachments",
    [] "volumeattributesclasses",
    [] "validatingwebhookconfigurations",
    [] "mutatingwebhookconfigurations",
    [] "validatingadmissionpolicies",
    [] "validatingadmissionpolicybindings",
    [] "mutatingadmissionpolicies",
    [] "mutatingadmissionpolicybindings",
    [] "customresourcedefinitions" + CustomResources,
    [] "priorityclasses",
    ["CONC-27"] "leases",
    [] "runtimeclasses",
    [] "endpointslices",
    [] "deviceclasses",
    [] "resourceclaims",
    [] "resourceclaimtemplates",
    [] "resourceslices",
    [] "flowschemas",
    [] "prioritylevelconfigurations",
    ["CONC-27"] "widgets" + CustomResources,
    ["CONC-27"] "gadgets" + CustomResources,
}

/// A controller may write concurrently: an update that loses the race is retried.
const ATTEMPTS: usize = 10;

async fn check_kind_lifecycle(scope: Scope, plural: &'static str) -> Outcome {
    let kind = kind(plural);
    let name = unique_name(&scope, kind);
    let sent = with(&scope.sample(plural, &name), "/metadata/generation", 7);
    let mut rows = RowFailures::default();
    rows.record("PUT of nothing", put_of_nothing(&scope, kind, &name).await);
    let made = scope.create(plural, &sent).await?;
    rows.record("created", created(kind, &made));
    rows.record("unconditional", unconditional(&scope, kind, &name).await);
    rows.record("stale", stale(&scope, kind, &made).await);
    rows.record("changed", changed(&scope, kind, &name).await);
    rows.record("labelled", labelled(&scope, kind, &name).await);
    rows.record("deleted", deleted(&scope, kind, &name).await);
    rows.outcome()
}

fn unique_name(scope: &Scope, kind: &Kind) -> String {
    match kind.plural {
        "customresourcedefinitions" => format!("things.{}.optik.test", scope.namespace),
        _ if kind.namespaced => "a".into(),
        _ => scope.unique_name("a"),
    }
}

/// Creates, or returns 404; the resourceVersion of the body is ignored.
async fn put_of_nothing(scope: &Scope, kind: &Kind, name: &str) -> Outcome {
    let body = scope.sample(kind.plural, name);
    let body = with(&body, "/metadata/resourceVersion", "5");
    let path = scope.object_path(kind.plural, name);
    let answer = scope.client.put(&path, &body).await?;
    if kind.created_by_put {
        let made = answer.expect_json(201)?;
        let (uid, path) = (uid(&made)?, scope.object_path(kind.plural, name));
        let options = json!({"preconditions": {"uid": uid}});
        scope
            .client
            .delete_with(&path, &options)
            .await?
            .has_status(200)
    } else {
        answer.expect_failure(&status::not_found(kind, name))
    }
}

fn generation(object: &Value) -> Option<u64> {
    object["metadata"]["generation"].as_u64()
}

fn created(kind: &Kind, made: &Value) -> Outcome {
    let expected = match kind.generations {
        Generations::AsSent | Generations::SpecFromSent => 7,
        _ => 1,
    };
    same("generation", &Some(expected), &generation(made))?;
    same_json("kind", &json!(kind.kind), &made["kind"])?;
    same_json(
        "apiVersion",
        &json!(kind.api_version()),
        &made["apiVersion"],
    )
}

async fn unconditional(scope: &Scope, kind: &Kind, name: &str) -> Outcome {
    let path = scope.object_path(kind.plural, name);
    for _ in 0..ATTEMPTS {
        let object = scope.get(kind.plural, name).await?;
        let body = without_meta(&object, "resourceVersion");
        let answer = scope.client.put(&path, &body).await?;
        if !kind.unconditional {
            return answer.expect_failure(&status::revision_required(kind, name));
        }
        let updated = answer.expect_json(200)?;
        if revision(&updated)? == revision(&object)? {
            return Ok(());
        }
    }
    Err(crate::Failure::new(
        "identical update changed the resourceVersion in every attempt",
    ))
}

async fn stale(scope: &Scope, kind: &Kind, made: &Value) -> Outcome {
    let name = crate::object::name(made)?;
    let body = with(made, "/metadata/resourceVersion", "1");
    let answer = scope
        .client
        .put(&scope.object_path(kind.plural, name), &body)
        .await?;
    answer.expect_failure(&status::conflict_modified(kind, name))
}

/// Reads, changes and writes until there is no conflict.
async fn edit(scope: &Scope, kind: &Kind, name: &str, to: (&str, Value)) -> Outcome<[Value; 2]> {
    let path = scope.object_path(kind.plural, name);
    let mut attempts = 0;
    loop {
        let before = scope.get(kind.plural, name).await?;
        let body = with(&before, to.0, to.1.clone());
        let answer = scope.client.put(&path, &body).await?;
        attempts += 1;
        if answer.status != 409 || attempts == ATTEMPTS {
            return Ok([before, answer.expect_json(200)?]);
        }
    }
}

async fn changed(scope: &Scope, kind: &Kind, name: &str) -> Outcome {
    let [before, after] = edit(scope, kind, name, change(kind.plural)).await?;
    ensure!(revision(&after)? > revision(&before)?, "not written");
    let uncounted = matches!(kind.generations, Generations::AsSent | Generations::One);
    // Kinds that cannot be changed only get a label.
    let step = u64::from(!uncounted && before["metadata"]["labels"] == after["metadata"]["labels"]);
    let expected = generation(&before).map(|before| before + step);
    same("generation", &expected, &generation(&after))
}

async fn labelled(scope: &Scope, kind: &Kind, name: &str) -> Outcome {
    let label = ("/metadata/labels/more", json!("yes"));
    let [before, after] = edit(scope, kind, name, label).await?;
    ensure!(revision(&after)? > revision(&before)?, "not written");
    let step = u64::from(kind.generations == Generations::SpecAndLabels);
    let expected = generation(&before).map(|before| before + step);
    same("generation", &expected, &generation(&after))
}

async fn deleted(scope: &Scope, kind: &Kind, name: &str) -> Outcome {
    let path = scope.object_path(kind.plural, name);
    // Admission gave some kinds a finalizer.
    let free = ("/metadata/finalizers", json!([]));
    let [_, object] = edit(scope, kind, name, free).await?;
    let mut answer = scope.client.delete(&path).await?;
    let mut shown = answer.expect_json(200)?;
    if kind.orphans_by_default {
        let finalizers = &shown["metadata"]["finalizers"];
        same_json("finalizers", &json!(["orphan"]), finalizers)?;
        let background = format!("{path}?propagationPolicy=Background");
        answer = scope.client.delete(&background).await?;
        shown = answer.expect_json(200)?;
    }
    if kind.plural == "customresourcedefinitions" {
        // A finalizer keeps the CRD until its objects are deleted.
        let finalizer = "customresourcecleanup.apiextensions.k8s.io";
        let finalizers = &shown["metadata"]["finalizers"];
        return same_json("finalizers", &json!([finalizer]), finalizers);
    }
    if kind.shown_when_deleted {
        same_json("kind", &json!(kind.kind), &shown["kind"])?;
        ensure!(revision(&shown)? > revision(&object)?, "an old revision");
    } else {
        let expected = status::delete_success(kind, name, uid(&object)?);
        same_json(&answer.asked, &expected, &shown)?;
    }
    scope.is_gone(kind.plural, name).await
}
