//! Custom kinds for the checks: `widgets` have a status and a scale, `gadgets` do not.

use crate::failure::ensure;
use crate::object::set;
use crate::samples::sample;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

/// The definitions have fixed names and stay: a second run finds them.
pub(crate) async fn define(scope: &Scope) -> Outcome {
    for plural in ["widgets", "gadgets"] {
        let path = scope.at("customresourcedefinitions");
        let answer = scope.client.post(&path, &definition(plural)).await?;
        ensure!(
            matches!(answer.status, 201 | 409),
            "{}: {} {}",
            answer.asked,
            answer.status,
            answer.text()
        );
    }
    for plural in ["widgets", "gadgets"] {
        is_served(scope, &scope.at(plural)).await?;
    }
    Ok(())
}

/// Waits until a collection can be listed.
pub(crate) async fn is_served(scope: &Scope, path: &str) -> Outcome {
    scope
        .until(path, || async {
            let answer = scope.client.get(path).await?;
            Ok((answer.status == 200).then_some(()))
        })
        .await
}

fn definition(plural: &str) -> Value {
    let name = format!("{plural}.{}", crate::kinds::CUSTOM_GROUP);
    let mut definition = sample("customresourcedefinitions", &name);
    let version = "/spec/versions/0";
    if plural == "widgets" {
        let subresources = json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            },
        });
        set(
            &mut definition,
            &format!("{version}/subresources"),
            subresources,
        );
        let fields = json!([{"jsonPath": ".spec.color"}]);
        set(
            &mut definition,
            &format!("{version}/selectableFields"),
            fields,
        );
    }
    definition
}
