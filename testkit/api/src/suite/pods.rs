//! Graceful deletion and binding of pods (CONC §2.5).

use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{revision, set, text_at, with};
use crate::samples::sample;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

use super::delete::FINALIZER;

checks! { pods:
    ["CONC-61", "CONC-62"] scheduled_pod_gets_grace_period [Pods],
    ["CONC-63"] pod_delete_with_zero_grace_after_graceful_deletes [Pods],
    ["CONC-64"] unscheduled_pod_is_deleted_at_once [Pods],
    ["CONC-64"] finished_pod_is_deleted_at_once [Pods, Status],
    ["CONC-65"] gracefully_deleted_pod_outlives_its_finalizer [Pods],
    ["CONC-62"] negative_grace_period_is_one_second [Pods],
    ["CONC-93"] watch_by_node_name_sees_pod_added_when_bound [Pods],
    ["NODE-6"] pod_connect_without_node_is_rejected [Pods],
    [] pod_is_bound_by_bindings_collection [Pods],
}

/// Connect requests up to the point where a kubelet would be needed.
async fn pod_connect_without_node_is_rejected(scope: Scope) -> Outcome {
    scope.create("pods", &sample("pods", "a")).await?;
    let two = json!([{"name": "x", "image": "i"}, {"name": "y", "image": "i"}]);
    let two = with(&sample("pods", "two"), "/spec/containers", two);
    scope.create("pods", &two).await?;
    let choose = "a container name must be specified for pod two, choose one of: [x y]";
    for (path, code, message) in [
        ("none/log", 404, r#"pods "none" not found"#),
        ("none/exec?command=ls", 404, r#"pods "none" not found"#),
        (
            "a/exec?command=ls",
            400,
            "pod a does not have a host assigned",
        ),
        ("a/attach", 400, "pod a does not have a host assigned"),
        ("a/portforward", 400, "pod a does not have a host assigned"),
        (
            "a/log?container=zz",
            400,
            "container zz is not valid for pod a",
        ),
        ("two/log", 400, choose),
        ("two/exec?command=ls", 400, choose),
    ] {
        let answer = scope
            .client
            .get(&scope.object_path("pods", path))
            .await?
            .expect_json(code)?;
        same(path, message, text_at(&answer, "/message")?)?;
    }
    let nothing = scope
        .client
        .get(&scope.object_path("pods", "two/log?container=y"))
        .await?;
    nothing.has_status(204)?;
    let path = scope.object_path("pods", "a/log");
    scope.client.delete(&path).await?.has_status(405)
}

/// A POST to the collection of bindings, which are not stored.
async fn pod_is_bound_by_bindings_collection(scope: Scope) -> Outcome {
    scope.create("pods", &sample("pods", "a")).await?;
    let path = format!("/api/v1/namespaces/{}/bindings", scope.namespace);
    let binding = |metadata: Value| {
        json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
            "target": {"kind": "Node", "name": "n"},
        })
    };
    let assigned = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already \
                    assigned to node \"n\"";
    for (metadata, code, message) in [
        (json!({"name": "none"}), 404, "pods \"none\" not found"),
        (
            json!({"generateName": "a"}),
            400,
            "Name parameter required.",
        ),
        (json!({"name": "a"}), 201, ""),
        (json!({"name": "a"}), 409, assigned),
    ] {
        let answer = scope.client.post(&path, &binding(metadata)).await?;
        let answer = answer.expect_json(code)?;
        same("message", message, answer["message"].as_str().unwrap_or(""))?;
    }
    let pod = scope.get("pods", "a").await?;
    same_json("node", &json!("n"), &pod["spec"]["nodeName"])?;
    scope.client.get(&path).await?.has_status(405)?;
    scope
        .client
        .get(&format!("{path}/a"))
        .await?
        .has_status(404)?;
    let nowhere = binding(json!({"name": "a"}));
    let answer = scope.client.post("/api/v1/bindings", &nowhere).await?;
    answer.has_status(404)
}

async fn make_scheduled(scope: &Scope, name: &str) -> Outcome<Value> {
    let body = with(&sample("pods", name), "/spec/nodeName", "nowhere");
    scope.create("pods", &body).await
}

async fn delete_with_grace(scope: &Scope, name: &str, seconds: i64) -> Outcome<Value> {
    let options = json!({"gracePeriodSeconds": seconds});
    let path = scope.object_path("pods", name);
    scope
        .client
        .delete_with(&path, &options)
        .await?
        .expect_json(200)
}

/// `2026-01-02T03:04:05Z`, as seconds of its day.
fn second_of_day(time: &str) -> Outcome<i64> {
    let part = |from: usize| time.get(from..from + 2)?.parse::<i64>().ok();
    match (part(11), part(14), part(17)) {
        (Some(h), Some(m), Some(s)) => Ok(h * 3600 + m * 60 + s),
        _ => Err(crate::Failure::new(format!("no time: {time}"))),
    }
}

/// Seconds until the end of the grace period of an object; handles midnight.
fn seconds_left(scope: &Scope, object: &Value) -> Outcome<i64> {
    const DAY: i64 = 24 * 3600;
    let end = second_of_day(text_at(object, "/metadata/deletionTimestamp")?)?;
    let now = i64::try_from(scope.unix_seconds()).unwrap_or(0) % DAY;
    Ok((end - now + DAY + DAY / 2) % DAY - DAY / 2)
}

async fn scheduled_pod_gets_grace_period(scope: Scope) -> Outcome {
    let pod = make_scheduled(&scope, "a").await?;
    same_json("generation", &json!(1), &pod["metadata"]["generation"])?;
    let path = scope.object_path("pods", "a");
    let dying = scope.client.delete(&path).await?.expect_json(200)?;
    let meta = &dying["metadata"];
    same_json("grace", &json!(30), &meta["deletionGracePeriodSeconds"])?;
    same_json("generation", &json!(2), &meta["generation"])?;
    let left = seconds_left(&scope, &dying)?;
    ensure!((25..=31).contains(&left), "{left} s left: {dying}");
    // A longer or equal grace period has no effect.
    for seconds in [60, 30] {
        let again = delete_with_grace(&scope, "a", seconds).await?;
        same_json("unchanged", &dying, &again)?;
    }
    let again = scope.client.delete(&path).await?;
    same_json(&again.asked, &dying, &again.expect_json(200)?)?;
    let sooner = delete_with_grace(&scope, "a", 5).await?;
    let meta = &sooner["metadata"];
    same_json("grace", &json!(5), &meta["deletionGracePeriodSeconds"])?;
    ensure!(
        text_at(&sooner, "/metadata/deletionTimestamp")?
            < text_at(&dying, "/metadata/deletionTimestamp")?,
        "not sooner: {sooner}"
    );
    ensure!(revision(&sooner)? > revision(&dying)?, "not written");
    Ok(())
}

async fn pod_delete_with_zero_grace_after_graceful_deletes(scope: Scope) -> Outcome {
    make_scheduled(&scope, "a").await?;
    let dying = scope
        .client
        .delete(&scope.object_path("pods", "a"))
        .await?
        .expect_json(200)?;
    let now = revision(&dying)?.to_string();
    let mut watch = scope
        .watch_kind("pods", &[("resourceVersion", &now)])
        .await?;
    let shown = delete_with_grace(&scope, "a", 0).await?;
    let modified = watch.expect_summary("MODIFIED a").await?;
    let grace = &modified.object["metadata"]["deletionGracePeriodSeconds"];
    same_json("grace", &json!(0), grace)?;
    let deleted = watch.expect_summary("DELETED a").await?;
    ensure!(deleted.revision()? > modified.revision()?, "not ascending");
    same("revision", &deleted.revision()?, &revision(&shown)?)?;
    scope.is_gone("pods", "a").await
}

async fn unscheduled_pod_is_deleted_at_once(scope: Scope) -> Outcome {
    let pod = scope.make("pods", "a").await?;
    let now = revision(&pod)?.to_string();
    let mut watch = scope
        .watch_kind("pods", &[("resourceVersion", &now)])
        .await?;
    let shown = scope
        .client
        .delete(&scope.object_path("pods", "a"))
        .await?
        .expect_json(200)?;
    same_json("kind", &json!("Pod"), &shown["kind"])?;
    let events = watch.read_until(|event| event.kind == "DELETED").await?;
    let last = events.last().map(crate::Event::revision);
    same("revision", &last.transpose()?, &Some(revision(&shown)?))?;
    scope.is_gone("pods", "a").await
}

async fn finished_pod_is_deleted_at_once(scope: Scope) -> Outcome {
    let pod = make_scheduled(&scope, "a").await?;
    let path = scope.object_path("pods", "a");
    let body = with(&pod, "/status/phase", "Succeeded");
    scope
        .client
        .put(&format!("{path}/status"), &body)
        .await?
        .expect_json(200)?;
    scope.client.delete(&path).await?.expect_json(200)?;
    scope.is_gone("pods", "a").await
}

async fn gracefully_deleted_pod_outlives_its_finalizer(scope: Scope) -> Outcome {
    let mut body = with(&sample("pods", "a"), "/spec/nodeName", "nowhere");
    set(&mut body, "/metadata/finalizers", json!([FINALIZER]));
    scope.create("pods", &body).await?;
    let dying = scope
        .client
        .delete(&scope.object_path("pods", "a"))
        .await?
        .expect_json(200)?;
    let freed = with(&dying, "/metadata/finalizers", json!([]));
    let freed = scope.replace("pods", &freed).await?;
    ensure!(
        revision(&freed)? > revision(&dying)?,
        "the update was not stored: {freed}"
    );
    scope.get("pods", "a").await?;
    delete_with_grace(&scope, "a", 0).await?;
    scope.is_gone("pods", "a").await
}

async fn negative_grace_period_is_one_second(scope: Scope) -> Outcome {
    make_scheduled(&scope, "a").await?;
    let dying = delete_with_grace(&scope, "a", -7).await?;
    let grace = &dying["metadata"]["deletionGracePeriodSeconds"];
    same_json("grace", &json!(1), grace)
}

async fn watch_by_node_name_sees_pod_added_when_bound(scope: Scope) -> Outcome {
    let pod = scope.make("pods", "a").await?;
    let now = revision(&pod)?.to_string();
    let parameters = [
        ("resourceVersion", now.as_str()),
        ("fieldSelector", "spec.nodeName=somewhere"),
    ];
    let mut watch = scope.watch_kind("pods", &parameters).await?;
    let path = format!("{}/binding", scope.object_path("pods", "a"));
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"},
    });
    let answer = scope.client.post(&path, &binding).await?;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    same_json(&answer.asked, &expected, &answer.expect_json(201)?)?;
    let event = watch.expect_summary("ADDED a").await?;
    same_json(
        "node",
        &json!("somewhere"),
        &event.object["spec"]["nodeName"],
    )?;
    // Binding is not a change of the spec by a client.
    same_json(
        "generation",
        &json!(1),
        &event.object["metadata"]["generation"],
    )
}
