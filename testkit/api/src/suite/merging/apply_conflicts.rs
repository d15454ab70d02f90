//! Field ownership and apply conflicts (PATCH §3.4, PATCH §3.5).

use super::{
    apply, apply_data, conflict, create, deployment, has_owners, one_conflict, owners, patch,
};
use crate::check::checks;
use crate::failure::{same, same_json};
use crate::object::with;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { apply_conflicts:
    ["PATCH-51"] apply_conflicts_on_field_of_other_manager [Apply],
    ["PATCH-52"] forced_apply_takes_field_ownership [Apply],
    ["PATCH-53", "PATCH-54"] applies_of_equal_values_share_ownership [Apply],
    ["PATCH-55"] field_no_longer_applied_is_removed [Apply],
    ["PATCH-56"] field_ownership_can_be_transferred [Apply, Patch],
    ["PATCH-57"] deleted_field_loses_its_owners [Apply, Patch],
    ["PATCH-58"] update_manager_conflicts_with_apply [Apply, Patch],
    ["PATCH-59"] conflict_names_update_manager_with_version [Apply],
    ["PATCH-60"] several_apply_conflicts_are_listed [Apply],
    ["PATCH-62"] conflict_names_list_item_by_key [Apply, Kind("deployments")],
    ["PATCH-75"] before_first_apply_manager_owns_existing_fields [Apply, Patch],
    ["PATCH-76"] updates_are_not_tracked_after_managed_fields_are_cleared [Apply, Patch],
    ["PATCH-87"] list_item_is_removed_when_its_applier_drops_it [Apply, Patch, Kind("deployments")],
    ["PATCH-88"] existing_duplicate_list_items_are_kept [Apply, Kind("deployments")],
    [] ownership_after_two_applies_matches_specification [Apply, Patch],
}

const A: (&str, &str) = ("configmaps", "a");
const D: (&str, &str) = ("deployments", "a");

async fn apply_conflicts_on_field_of_other_manager(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let answer = apply_data(&scope, "m2", json!({"a": "2"})).await?;
    answer.expect_failure(&one_conflict("\"m1\"", ".data.a"))
}

async fn forced_apply_takes_field_ownership(scope: Scope) -> Outcome {
    let both = json!({"a": "1", "b": "1"});
    apply_data(&scope, "m1", both).await?.expect_json(201)?;
    let after = apply_data(&scope, "m2!", json!({"a": "2"}))
        .await?
        .expect_json(200)?;
    same_json("data", &json!({"a": "2", "b": "1"}), &after["data"])?;
    let mut lines: Vec<String> = owners(&after).split("; ").map(str::to_owned).collect();
    lines.sort();
    same(
        "owners",
        &vec!["A m1 .data.b".to_owned(), "A m2 .data.a".to_owned()],
        &lines,
    )
}

async fn applies_of_equal_values_share_ownership(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1"}))
        .await?
        .expect_json(201)?;
    let shared = apply_data(&scope, "m2", json!({"a": "1"}))
        .await?
        .expect_json(200)?;
    // A manager that changed nothing has no time, and comes first.
    has_owners(&shared, "A m2 .data.a; A m1 .data.a")?;
    let after = apply(&scope, A, "m1", json!({})).await?.expect_json(200)?;
    same_json("data", &json!({"a": "1"}), &after["data"])?;
    has_owners(&after, "A m2 .data.a")
}

async fn field_no_longer_applied_is_removed(scope: Scope) -> Outcome {
    let both = json!({"a": "1", "b": "1"});
    apply_data(&scope, "m1", both).await?.expect_json(201)?;
    let after = apply_data(&scope, "m1", json!({"a": "1"}))
        .await?
        .expect_json(200)?;
    same_json("data", &json!({"a": "1"}), &after["data"])?;
    has_owners(&after, "A m1 .data.a")
}

async fn field_ownership_can_be_transferred(scope: Scope) -> Outcome {
    let both = json!({"a": "1", "b": "1"});
    apply_data(&scope, "m1", both).await?.expect_json(201)?;
    let changed = patch(&scope, A, "u", json!({"data": {"a": "9"}})).await?;
    has_owners(&changed.expect_json(200)?, "A m1 .data.b; U u .data.a")?;
    let after = apply_data(&scope, "m1", json!({"b": "1"}))
        .await?
        .expect_json(200)?;
    same_json("data", &json!({"a": "9", "b": "1"}), &after["data"])?;
    has_owners(&after, "A m1 .data.b; U u .data.a")
}

async fn deleted_field_loses_its_owners(scope: Scope) -> Outcome {
    let both = json!({"a": "1", "b": "1"});
    apply_data(&scope, "m1", both.clone())
        .await?
        .expect_json(201)?;
    apply_data(&scope, "m2", both).await?.expect_json(200)?;
    let after = patch(&scope, A, "u", json!({"data": {"a": null}})).await?;
    has_owners(&after.expect_json(200)?, "A m2 .data.b; A m1 .data.b")
}

async fn update_manager_conflicts_with_apply(scope: Scope) -> Outcome {
    create(&scope, A, "m", json!({"data": {"a": "1"}})).await?;
    let answer = apply_data(&scope, "m", json!({"a": "2"})).await?;
    answer.expect_failure(&one_conflict("\"m\" using v1", ".data.a"))
}

async fn conflict_names_update_manager_with_version(scope: Scope) -> Outcome {
    create(&scope, A, "u", json!({"data": {"a": "1"}})).await?;
    let answer = apply_data(&scope, "m", json!({"a": "2"})).await?;
    answer.expect_failure(&one_conflict("\"u\" using v1", ".data.a"))
}

async fn several_apply_conflicts_are_listed(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1", "b": "1"}))
        .await?
        .expect_json(201)?;
    let changed = patch(&scope, A, "upd", json!({"data": {"b": "2"}})).await?;
    changed.has_status(200)?;
    let answer = apply_data(&scope, "m2", json!({"a": "3", "b": "3"})).await?;
    let message = "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\nconflicts \
                   with \"upd\" using v1:\n- .data.b";
    let causes = [("\"m1\"", ".data.a"), ("\"upd\" using v1", ".data.b")];
    let mut got = answer.json()?;
    // The order of the causes is unspecified.
    if let Some(causes) = got["details"]["causes"].as_array_mut() {
        causes.sort_by_key(|cause| cause["field"].to_string());
    }
    same_json("status", &conflict(message, &causes), &got)?;
    answer.has_status(409)
}

async fn conflict_names_list_item_by_key(scope: Scope) -> Outcome {
    let content = deployment(&["a"], &json!({}));
    apply(&scope, D, "m1", content.clone())
        .await?
        .expect_json(201)?;
    let image = "/spec/template/spec/containers/0/image";
    let other = with(&content, image, "other");
    let answer = apply(&scope, D, "m2", other).await?;
    let path = ".spec.template.spec.containers[name=\"a\"].image";
    answer.expect_failure(&one_conflict("\"m1\"", path))
}

async fn before_first_apply_manager_owns_existing_fields(scope: Scope) -> Outcome {
    create(&scope, A, "u", json!({"data": {"a": "1"}})).await?;
    clear(&scope).await?;
    let answer = apply_data(&scope, "m", json!({"a": "2"})).await?;
    let manager = "\"before-first-apply\" using v1";
    answer.expect_failure(&one_conflict(manager, ".data.a"))?;
    let after = apply_data(&scope, "m", json!({"a": "1"}))
        .await?
        .expect_json(200)?;
    has_owners(&after, "A m .data.a; U before-first-apply .data .data.a")
}

async fn clear(scope: &Scope) -> Outcome<Value> {
    let none = json!({"metadata": {"managedFields": []}});
    let cleared = patch(scope, A, "u", none).await?.expect_json(200)?;
    let managers = &cleared["metadata"]["managedFields"];
    same_json("managers", &Value::Null, managers)?;
    Ok(cleared)
}

async fn updates_are_not_tracked_after_managed_fields_are_cleared(scope: Scope) -> Outcome {
    create(&scope, A, "u", json!({"data": {"a": "1"}})).await?;
    clear(&scope).await?;
    let after = patch(&scope, A, "u", json!({"data": {"b": "1"}})).await?;
    let after = after.expect_json(200)?;
    same_json("data", &json!({"a": "1", "b": "1"}), &after["data"])?;
    has_owners(&after, "")
}

async fn list_item_is_removed_when_its_applier_drops_it(scope: Scope) -> Outcome {
    let content = deployment(&["a", "b"], &json!({}));
    apply(&scope, D, "m", content).await?.expect_json(201)?;
    let path = super::by(&scope.object_path("deployments", "a"), "u");
    let item = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "b", "workingDir": "/x"},
    ]}}}});
    let changed = super::send(&scope, super::STRATEGIC, &path, item.to_string()).await?;
    let changed = changed.expect_json(200)?;
    let containers = |object: &Value| object["spec"]["template"]["spec"]["containers"].clone();
    same_json("set", &json!("/x"), &containers(&changed)[1]["workingDir"])?;
    let content = deployment(&["a"], &json!({}));
    let after = apply(&scope, D, "m", content).await?.expect_json(200)?;
    let left = containers(&after).as_array().map(Vec::len);
    same("containers", &Some(1), &left)
}

async fn existing_duplicate_list_items_are_kept(scope: Scope) -> Outcome {
    let env = |list: Value| {
        let pointer = "/spec/template/spec/containers/0/env";
        with(&deployment(&["a"], &json!({})), pointer, list)
    };
    let twice = json!([{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]);
    create(&scope, D, "u", env(twice)).await?;
    let wanted = |name: &str| {
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "env": [{"name": name, "value": "3"}]},
        ]}}}})
    };
    let after = apply(&scope, D, "m", wanted("F")).await?.expect_json(200)?;
    let expected = json!([
        {"name": "E", "value": "1"}, {"name": "E", "value": "2"}, {"name": "F", "value": "3"},
    ]);
    let containers = &after["spec"]["template"]["spec"]["containers"];
    same_json("env", &expected, &containers[0]["env"])?;
    let answer = apply(&scope, D, "m2", wanted("E")).await?;
    let path = ".spec.template.spec.containers[name=\"a\"].env[name=\"E\"]";
    answer.expect_failure(&one_conflict("\"u\" using apps/v1", path))?;
    let after = apply(&scope, D, "m2!", wanted("E"))
        .await?
        .expect_json(200)?;
    let expected = json!([{"name": "E", "value": "3"}, {"name": "F", "value": "3"}]);
    let containers = &after["spec"]["template"]["spec"]["containers"];
    same_json("forced", &expected, &containers[0]["env"])
}

/// Shows G33.
async fn ownership_after_two_applies_matches_specification(scope: Scope) -> Outcome {
    apply_data(&scope, "m1", json!({"a": "1", "b": "1"}))
        .await?
        .expect_json(201)?;
    apply_data(&scope, "m2", json!({"a": "1", "c": "1"}))
        .await?
        .expect_json(200)?;
    let after = apply_data(&scope, "m1", json!({}))
        .await?
        .expect_json(200)?;
    same_json("data", &json!({"a": "1", "c": "1"}), &after["data"])?;
    let mut lines: Vec<String> = owners(&after).split("; ").map(str::to_owned).collect();
    lines.sort();
    let expected = ["A m1 .data", "A m2 .data.a .data.c"].map(str::to_owned);
    same("owners", &expected.to_vec(), &lines)?;
    let changed = patch(&scope, A, "upd", json!({"data": {"a": "9"}})).await?;
    changed.has_status(200)?;
    let answer = apply_data(&scope, "m2", json!({"a": "1", "c": "1"})).await?;
    answer.expect_failure(&one_conflict("\"upd\" using v1", ".data.a"))?;
    let after = apply_data(&scope, "m2!", json!({"a": "1", "c": "1"})).await?;
    let mut lines: Vec<String> = owners(&after.expect_json(200)?)
        .split("; ")
        .map(str::to_owned)
        .collect();
    lines.sort();
    same("owners", &expected.to_vec(), &lines)
}
