//! CustomResourceDefinitions (CRDs) as objects: validation, names and conditions.

use crate::check::checks;
use crate::crds::{CrdFixture, is_served};
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{set, with};
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { custom_resource_definitions:
    ["EXT-1", "EXT-2"] new_crd_gets_names_accepted_and_established [CustomResources],
    [
        "EXT-3", "EXT-4", "EXT-5", "EXT-6", "EXT-7", "EXT-8", "EXT-9", "EXT-10", "EXT-11",
        "EXT-12", "EXT-21", "EXT-28",
    ] invalid_crd_is_rejected_with_causes [CustomResources],
    ["EXT-13"] unknown_schema_formats_warn [CustomResources],
    ["EXT-14", "EXT-15"] conflicting_crd_names_are_not_accepted [CustomResources],
    ["EXT-16"] accepted_crd_names_stay [CustomResources],
    ["EXT-17", "EXT-18", "EXT-19"] stored_crd_versions_cannot_be_removed [CustomResources],
    ["EXT-20"] unserved_crd_version_gets_404 [CustomResources],
    ["EXT-22", "EXT-23", "EXT-24"] crd_deletion_waits_for_custom_resources [CustomResources],
    ["EXT-25", "EXT-26", "WIRE-11"] discovery_lists_served_crd_versions [CustomResources],
    ["EXT-27"] deprecated_crd_version_warns [CustomResources],
}

fn condition<'a>(definition: &'a Value, kind: &str) -> &'a Value {
    let list = definition["status"]["conditions"].as_array();
    let mut list = list.into_iter().flatten();
    list.find(|one| one["type"] == kind).unwrap_or(&Value::Null)
}

fn brief(definition: &Value, kind: &str) -> String {
    let found = condition(definition, kind);
    let text = |member: &str| found[member].as_str().unwrap_or("-").to_owned();
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

async fn new_crd_gets_names_accepted_and_established(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    let made = defined.make(&scope).await?;
    let status = json!({
        "conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"],
    });
    same_json("status", &status, &made["status"])?;
    same_json("generation", &json!(1), &made["metadata"]["generation"])?;
    same_json(
        "conversion",
        &json!({"strategy": "None"}),
        &made["spec"]["conversion"],
    )?;
    same_json(
        "list kind",
        &json!("ThingList"),
        &made["spec"]["names"]["listKind"],
    )?;
    same_json(
        "singular",
        &json!("thing"),
        &made["spec"]["names"]["singular"],
    )?;
    let now = defined.established(&scope).await?;
    let expected = "True NoConflicts: no conflicts found";
    same("names", expected, brief(&now, "NamesAccepted").as_str())?;
    let expected = "True InitialNamesAccepted: the initial names have been accepted";
    same("established", expected, brief(&now, "Established").as_str())?;
    let names = &now["status"]["acceptedNames"];
    same_json("accepted", &now["spec"]["names"], names)?;
    defined.delete_definitions(&scope).await
}

/// Reason, field, end of the message.
type Expected<'a> = &'a [(&'a str, &'a str, &'a str)];

fn complains(answer: &ApiResponse, expected: Expected<'_>) -> Outcome {
    let body = answer.expect_json(422)?;
    let causes = body["details"]["causes"].as_array();
    let causes: Vec<&Value> = causes.into_iter().flatten().collect();
    let fits = |cause: &Value, (reason, field, end): &(&str, &str, &str)| {
        let message = cause["message"].as_str().unwrap_or_default();
        cause["reason"] == *reason && cause["field"] == *field && message.ends_with(end)
    };
    let all = causes.len() == expected.len()
        && causes
            .iter()
            .zip(expected)
            .all(|(cause, one)| fits(cause, one));
    ensure!(
        all,
        "{}\n  expected {expected:?}\n  got {causes:#?}",
        answer.asked
    );
    Ok(())
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema";

/// A definition with another schema of `spec`.
fn with_spec(definition: &Value, spec: Value) -> Value {
    with(definition, &format!("{SCHEMA}/properties/spec"), spec)
}

#[expect(clippy::too_many_lines, reason = "a table")]
async fn invalid_crd_is_rejected_with_causes(scope: Scope) -> Outcome {
    let good = CrdFixture::with_default_schema(&scope).definition;
    let mut rows = RowFailures::default();
    let path = scope.collection_path("customresourcedefinitions");
    let two = with(
        &with(
            &good,
            "/spec/versions/1",
            good["spec"]["versions"][0].clone(),
        ),
        "/spec/versions/1/name",
        "v2",
    );
    let mut protected = good.clone();
    set(&mut protected, "/spec/group", json!("optik.k8s.io"));
    set(
        &mut protected,
        "/metadata/name",
        json!("things.optik.k8s.io"),
    );
    let mut short = good.clone();
    set(&mut short, "/spec/group", json!("optik"));
    set(&mut short, "/metadata/name", json!("things.optik"));
    let root = "spec.validation.openAPIV3Schema";
    let invalid = "FieldValueInvalid";
    let required = "FieldValueRequired";
    let forbidden = "FieldValueForbidden";
    let cases: &[(&str, Value, Expected<'_>)] = &[
        (
            "3",
            with(&good, "/metadata/name", "others.optik.test"),
            &[(
                invalid,
                "metadata.name",
                "must be spec.names.plural+\".\"+spec.group",
            )],
        ),
        (
            "4",
            short,
            &[(
                invalid,
                "spec.group",
                "should be a domain with at least one dot",
            )],
        ),
        (
            "scope",
            with(&good, "/spec/scope", "Galaxy"),
            &[(
                "FieldValueNotSupported",
                "spec.scope",
                "\"Cluster\", \"Namespaced\"",
            )],
        ),
        (
            "5, none",
            with(&good, "/spec/versions/0/storage", false),
            &[
                (
                    invalid,
                    "spec.versions",
                    "must have exactly one version marked as storage version",
                ),
                (
                    invalid,
                    "status.storedVersions",
                    "must have at least one stored version",
                ),
            ],
        ),
        (
            "5, two",
            two.clone(),
            &[
                (
                    invalid,
                    "spec.versions",
                    "must have exactly one version marked as storage version",
                ),
                (
                    invalid,
                    "status.storedVersions",
                    "must have the storage version v2",
                ),
            ],
        ),
        (
            "6 and 7",
            with(&good, SCHEMA, json!({})),
            &[(
                required,
                &format!("{root}.type"),
                "must not be empty at the root",
            )],
        ),
        (
            "8",
            {
                let mut two = with(&two, "/spec/versions/1/storage", false);
                let schema = json!({"type": "object", "properties": {"a": {"type": "array"}}});
                set(&mut two, "/spec/versions/1/schema/openAPIV3Schema", schema);
                two
            },
            &[(
                required,
                "spec.versions[1].schema.openAPIV3Schema.properties[a].items",
                "must be specified",
            )],
        ),
        (
            "9",
            with_spec(
                &good,
                json!({"type": "string", "anyOf": [{"type": "string"}]}),
            ),
            &[(
                forbidden,
                &format!("{root}.properties[spec].anyOf[0].type"),
                "must be empty to be structural",
            )],
        ),
        (
            "10",
            with_spec(&good, json!({"type": "array"})),
            &[(
                required,
                &format!("{root}.properties[spec].items"),
                "must be specified",
            )],
        ),
        (
            "11",
            with_spec(&good, json!({"type": "object", "default": {"x": 1}})),
            &[(
                invalid,
                &format!("{root}.properties[spec].default"),
                "must not have unknown fields",
            )],
        ),
        (
            "a default of another type",
            with_spec(&good, json!({"type": "string", "default": 5})),
            &[(
                "FieldValueTypeInvalid",
                &format!("{root}.properties[spec].default"),
                "Invalid value: \"integer\":  in body must be of type string: \"integer\"",
            )],
        ),
        (
            "12",
            with_spec(
                &good,
                json!({"type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"],
                    "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            ),
            &[(
                required,
                &format!("{root}.properties[spec].items.properties[a].default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be \
                 a required property",
            )],
        ),
        (
            "additional and declared",
            with_spec(
                &good,
                json!({"type": "object", "properties": {"a": {"type": "string"}},
                    "additionalProperties": {"type": "string"}}),
            ),
            &[(
                forbidden,
                &format!("{root}.properties[spec].additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            )],
        ),
        (
            "unique items",
            with_spec(
                &good,
                json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            ),
            &[(
                forbidden,
                &format!("{root}.properties[spec].uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            )],
        ),
        (
            "metadata",
            with(
                &good,
                &format!("{SCHEMA}/properties/metadata"),
                json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            ),
            &[(
                forbidden,
                &format!("{root}.properties[metadata]"),
                "must not specify anything other than name and generateName, but metadata is \
                 implicitly specified",
            )],
        ),
        (
            "a column",
            with(
                &good,
                "/spec/versions/0/additionalPrinterColumns",
                json!([{"name": "A", "type": "text", "jsonPath": "spec.a"}]),
            ),
            &[
                (
                    invalid,
                    "spec.additionalPrinterColumns[0].type",
                    "must be one of boolean,date,integer,number,string",
                ),
                (
                    invalid,
                    "spec.additionalPrinterColumns[0].JSONPath",
                    "must be a simple json path starting with .",
                ),
            ],
        ),
        (
            "a scale",
            with(
                &good,
                "/spec/versions/0/subresources",
                json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
            ),
            &[(
                invalid,
                "spec.subresources.scale.specReplicasPath",
                "should be a json path under .spec",
            )],
        ),
        (
            "a webhook without a client",
            with(&good, "/spec/conversion", json!({"strategy": "Webhook"})),
            &[
                (
                    required,
                    "spec.conversion.webhookClientConfig",
                    "required when strategy is set to Webhook",
                ),
                (
                    required,
                    "spec.conversion.conversionReviewVersions",
                    "Required value",
                ),
            ],
        ),
        (
            "21",
            protected,
            &[(
                required,
                "metadata.annotations[api-approved.kubernetes.io]",
                "protected groups must have approval annotation \"api-approved.kubernetes.io\", \
                 see https://github.com/kubernetes/enhancements/pull/1111",
            )],
        ),
        (
            "28",
            with(
                &good,
                "/spec/versions/0/selectableFields",
                json!([{"jsonPath": ".spec"}]),
            ),
            &[(
                invalid,
                "spec.selectableFields[0].jsonPath",
                "must point to a field of type string, boolean or integer. Enum string fields and \
                 strings with formats are allowed.",
            )],
        ),
        (
            "a selectable field that is not there",
            with(
                &good,
                "/spec/versions/0/selectableFields",
                json!([{"jsonPath": ".spec.nothing"}]),
            ),
            &[(
                invalid,
                "spec.selectableFields[0].jsonPath",
                "is an invalid path: does not refer to a valid field",
            )],
        ),
    ];
    for (what, definition, expected) in cases {
        let answer = scope.client.post(&path, definition).await?;
        rows.record(what, complains(&answer, expected));
    }
    rows.outcome()
}

async fn unknown_schema_formats_warn(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let spec = json!({"type": "object", "properties": {"a": {"type": "string", "format": "odd"}}});
    defined.definition = with_spec(&defined.definition, spec);
    let path = scope.collection_path("customresourcedefinitions");
    let answer = scope.client.post(&path, &defined.definition).await?;
    answer.has_status(201)?;
    let expected = r#"299 - "unrecognized format \"odd\"""#;
    same("warning", expected, answer.header("warning"))?;
    defined.delete_definitions(&scope).await
}

async fn conflicting_crd_names_are_not_accepted(scope: Scope) -> Outcome {
    let first = CrdFixture::with_default_schema(&scope);
    let mut first = first.with_names("firsts", "First");
    set(
        &mut first.definition,
        "/spec/names/shortNames",
        json!(["th"]),
    );
    first.make(&scope).await?;
    first.established(&scope).await?;
    let mut second = CrdFixture::with_default_schema(&scope).with_names("seconds", "Second");
    set(
        &mut second.definition,
        "/spec/names/shortNames",
        json!(["th"]),
    );
    second.make(&scope).await?;
    let refused = scope
        .wait_until("the refusal", || async {
            let now = second.get(&scope).await?;
            Ok((!condition(&now, "NamesAccepted").is_null()).then_some(now))
        })
        .await?;
    let expected = "False ShortNamesConflict: \"th\" is already in use";
    same("names", expected, brief(&refused, "NamesAccepted").as_str())?;
    let expected = "False NotAccepted: not all names are accepted";
    same(
        "established",
        expected,
        brief(&refused, "Established").as_str(),
    )?;
    let accepted = json!({
        "plural": "seconds", "singular": "second", "kind": "Second", "listKind": "SecondList",
    });
    same_json("accepted", &accepted, &refused["status"]["acceptedNames"])?;
    let answer = scope.client.get(&second.path).await?;
    same("not served", &404, &answer.status)?;
    first.delete_definitions(&scope).await?;
    second.established(&scope).await?;
    is_served(&scope, &second.path).await?;
    second.delete_definitions(&scope).await
}

async fn accepted_crd_names_stay(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.make(&scope).await?;
    let now = defined.established(&scope).await?;
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    let immutable = "field is immutable";
    let answer = scope
        .client
        .put(&path, &with(&now, "/spec/scope", "Cluster"))
        .await?;
    complains(&answer, &[("FieldValueInvalid", "spec.scope", immutable)])?;
    let answer = scope
        .client
        .put(&path, &with(&now, "/spec/names/kind", "Other"))
        .await?;
    complains(
        &answer,
        &[("FieldValueInvalid", "spec.names.kind", immutable)],
    )?;
    let wider = with(
        &now,
        &format!("{SCHEMA}/properties/more"),
        json!({"type": "string"}),
    );
    let changed = scope.client.put(&path, &wider).await?.expect_json(200)?;
    same_json("generation", &json!(2), &changed["metadata"]["generation"])?;
    defined.delete_definitions(&scope).await
}

async fn stored_crd_versions_cannot_be_removed(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.make(&scope).await?;
    let now = defined.established(&scope).await?;
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    let mut both = with(&now, "/spec/versions/1", now["spec"]["versions"][0].clone());
    set(&mut both, "/spec/versions/1/name", json!("v2"));
    set(&mut both, "/spec/versions/0/storage", json!(false));
    let both = scope.client.put(&path, &both).await?.expect_json(200)?;
    same_json(
        "stored",
        &json!(["v1", "v2"]),
        &both["status"]["storedVersions"],
    )?;
    let second = both["spec"]["versions"][1].clone();
    let only = with(&both, "/spec/versions", json!([second]));
    let answer = scope.client.put(&path, &only).await?;
    let text = "missing from spec.versions; v1 was previously a storage version, and must remain \
                in spec.versions until a storage migration ensures no data remains persisted in \
                v1 and removes v1 from status.storedVersions";
    complains(
        &answer,
        &[("FieldValueInvalid", "status.storedVersions[0]", text)],
    )?;
    let migrated = json!({"status": {"storedVersions": ["v2"]}});
    let status = format!("{path}/status");
    let migrated = scope
        .client
        .patch(&status, &migrated)
        .await?
        .expect_json(200)?;
    let only = with(
        &migrated,
        "/spec/versions",
        only["spec"]["versions"].clone(),
    );
    scope.client.put(&path, &only).await?.has_status(200)?;
    defined.delete_definitions(&scope).await
}

async fn unserved_crd_version_gets_404(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let mut second = defined.definition["spec"]["versions"][0].clone();
    set(&mut second, "/name", json!("v2"));
    set(&mut second, "/served", json!(false));
    set(&mut second, "/storage", json!(false));
    set(&mut defined.definition, "/spec/versions/1", second);
    defined.make(&scope).await?;
    is_served(&scope, &defined.path).await?;
    let path = defined.path.replace("/v1/", "/v2/");
    let answer = scope.client.get(&path).await?;
    answer.has_status(404)?;
    same("body", "404 page not found\n", answer.text().as_str())?;
    defined.delete_definitions(&scope).await
}

async fn crd_deletion_waits_for_custom_resources(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.make(&scope).await?;
    is_served(&scope, &defined.path).await?;
    let held = with(
        &defined.object("a"),
        "/metadata/finalizers",
        json!(["optik.test/hold"]),
    );
    scope
        .client
        .post(&defined.path, &held)
        .await?
        .has_status(201)?;
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    let dying = scope.client.delete(&path).await?.expect_json(200)?;
    let finalizers = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    same_json("finalizers", &finalizers, &dying["metadata"]["finalizers"])?;
    let expected = "True InstanceDeletionPending: CustomResourceDefinition marked for deletion; \
                    CustomResource deletion will begin soon";
    same(
        "terminating",
        expected,
        brief(&dying, "Terminating").as_str(),
    )?;
    let refused = scope
        .wait_until("the refusal", || async {
            let answer = scope
                .client
                .post(&defined.path, &defined.object("b"))
                .await?;
            Ok((answer.status == 403).then_some(answer))
        })
        .await?;
    let full = format!("things.{}", defined.group);
    let text = format!(
        "{full} \"b\" is forbidden: create not allowed while custom resource definition is \
         terminating"
    );
    refused.expect_message(403, "Forbidden", &text)?;
    let one = format!("{}/a", defined.path);
    let dying = scope
        .wait_until("the deletion of the object", || async {
            let now = scope.client.get(&one).await?.expect_json(200)?;
            Ok(now["metadata"]["deletionTimestamp"]
                .is_string()
                .then_some(now))
        })
        .await?;
    scope.client.get(&path).await?.has_status(200)?;
    let free = with(&dying, "/metadata/finalizers", json!([]));
    scope.client.put(&one, &free).await?.has_status(200)?;
    scope
        .wait_until("the end", || async {
            let answer = scope.client.get(&path).await?;
            Ok((answer.status == 404).then_some(()))
        })
        .await
}

async fn discovery_lists_served_crd_versions(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let mut second = defined.definition["spec"]["versions"][0].clone();
    set(&mut second, "/name", json!("v1alpha1"));
    set(&mut second, "/storage", json!(false));
    set(&mut defined.definition, "/spec/versions/1", second);
    let scale = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    set(
        &mut defined.definition,
        "/spec/versions/0/subresources",
        scale,
    );
    defined.make(&scope).await?;
    defined.established(&scope).await?;
    let (group, kind) = (&defined.group, "Thing");
    let root = format!("/apis/{group}");
    let found = scope
        .wait_until("the group", || async {
            let answer = scope.client.get(&root).await?;
            let body = (answer.status == 200).then(|| answer.json()).transpose()?;
            let both = |body: &Value| body["versions"].as_array().map(Vec::len) == Some(2);
            Ok(body.filter(both))
        })
        .await?;
    same_json(
        "preferred",
        &json!("v1"),
        &found["preferredVersion"]["version"],
    )?;
    let list = scope
        .client
        .get(&format!("{root}/v1"))
        .await?
        .expect_json(200)?;
    let hash = list["resources"][0]["storageVersionHash"].clone();
    ensure!(hash.is_string(), "no hash: {list}");
    let verbs = json!(["get", "patch", "update"]);
    let expected = json!([
        {"name": "things", "singularName": "thing", "namespaced": true, "kind": kind,
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update",
                "watch"],
            "storageVersionHash": hash},
        {"name": "things/status", "singularName": "", "namespaced": true, "kind": kind,
            "verbs": verbs},
        {"name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": verbs},
    ]);
    same_json("resources", &expected, &list["resources"])?;
    defined.delete_definitions(&scope).await
}

async fn deprecated_crd_version_warns(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let mut second = defined.definition["spec"]["versions"][0].clone();
    set(&mut second, "/name", json!("v1alpha1"));
    set(&mut second, "/storage", json!(false));
    set(&mut second, "/deprecated", json!(true));
    set(&mut defined.definition, "/spec/versions/1", second);
    defined.make(&scope).await?;
    is_served(&scope, &defined.path).await?;
    let group = &defined.group;
    let path = defined.path.replace("/v1/", "/v1alpha1/");
    let answer = scope.client.get(&path).await?;
    let text = format!("299 - \"{group}/v1alpha1 Thing is deprecated; use {group}/v1 Thing\"");
    same("warning", text.as_str(), answer.header("warning"))?;
    let answer = scope.client.get(&defined.path).await?;
    same("warning", "", answer.header("warning"))?;
    defined.delete_definitions(&scope).await
}
