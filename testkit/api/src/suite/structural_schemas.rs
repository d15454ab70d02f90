//! Custom resources and their structural schemas: pruning, defaulting and validation.

use crate::check::checks;
use crate::crds::CrdFixture;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{has_names, revision, set, with};
use crate::status;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { structural_schemas:
    ["EXT-29", "EXT-30"] pruned_fields_warn_or_fail_strictly [CustomResources],
    ["EXT-31"] preserve_unknown_fields_keeps_fields [CustomResources],
    ["EXT-32"] null_fields_take_schema_defaults [CustomResources],
    ["EXT-33"] new_schema_default_applies_to_stored_objects [CustomResources],
    ["EXT-35", "EXT-36", "EXT-37", "EXT-38"] schema_violations_are_reported [CustomResources],
    [] any_of_and_one_of_report_closest_match [CustomResources],
    ["EXT-45"] schema_validation_ratchets_unchanged_values [CustomResources],
    ["EXT-53"] custom_resource_update_requires_resource_version [CustomResources],
    ["EXT-55"] crd_selectable_fields_select [CustomResources],
    ["EXT-56"] crd_versions_show_the_same_objects [CustomResources],
    ["EXT-59"] delete_collection_across_namespaces_gets_404 [CustomResources],
    [] schema_validates_patches_and_applies [CustomResources, Patch, Apply],
    [] embedded_resources_require_kind_and_api_version [CustomResources],
    [] status_update_validates_only_status_schema [CustomResources],
}

async fn pruned_fields_warn_or_fail_strictly(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"a": "x", "odd": 1}));
    let answer = scope.client.post(&defined.path, &body).await?;
    let made = answer.expect_json(201)?;
    let expected = r#"299 - "unknown field \"spec.odd\"""#;
    same("warning", expected, answer.header("warning"))?;
    same_json("spec", &json!({"a": "x"}), &made["spec"])?;
    let strict = format!("{}?fieldValidation=Strict", defined.path);
    let body = with(&defined.with("b", json!({"odd": 1})), "/metadata/bogus", 1);
    let answer = scope.client.post(&strict, &body).await?;
    answer.expect_failure(&status::bad_request(
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown \
         field \"metadata.bogus\", unknown field \"spec.odd\"",
    ))?;
    defined.delete_definitions(&scope).await
}

async fn preserve_unknown_fields_keeps_fields(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope).with_spec(json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "child": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
    }));
    defined.serve(&scope).await?;
    let spec = json!({"free": {"deep": [1, {"x": null}]}, "child": {"a": "x", "b": 1}});
    let body = defined.with("a", spec);
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let expected = json!({"free": {"deep": [1, {"x": null}]}, "child": {"a": "x"}});
    same_json("spec", &expected, &made["spec"])?;
    defined.delete_definitions(&scope).await
}

async fn null_fields_take_schema_defaults(scope: Scope) -> Outcome {
    let defined =
        CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "filled": {"type": "string", "default": "x"},
            "free": {"type": "string", "nullable": true},
            "deep": {"type": "object", "default": {}, "properties": {
                "n": {"type": "integer", "default": 5}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "p": {"type": "string", "default": "TCP"}}}},
        }}));
    defined.serve(&scope).await?;
    let spec = json!({"plain": null, "filled": null, "free": null, "list": [{}]});
    let body = defined.with("a", spec);
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let expected = json!({"filled": "x", "free": null, "deep": {"n": 5}, "list": [{"p": "TCP"}]});
    same_json("spec", &expected, &made["spec"])?;
    defined.delete_definitions(&scope).await
}

/// The path of the definition, and the definition with another schema of `spec`.
async fn update_crd_schema(scope: &Scope, defined: &CrdFixture, spec: Value) -> Outcome {
    let now = defined.get(scope).await?;
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    let changed = with(&now, at, spec);
    scope.client.put(&path, &changed).await?.has_status(200)
}

async fn new_schema_default_applies_to_stored_objects(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"n": 1}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "new"}, "n": {"type": "integer"}}});
    update_crd_schema(&scope, &defined, spec).await?;
    let one = format!("{}/a", defined.path);
    let now = scope
        .wait_until("the default", || async {
            let now = scope.client.get(&one).await?.expect_json(200)?;
            Ok(now["spec"]["a"].is_string().then_some(now))
        })
        .await?;
    same_json("spec", &json!({"a": "new", "n": 1}), &now["spec"])?;
    same("revision", &revision(&made)?, &revision(&now)?)?;
    let labelled = with(&now, "/metadata/labels/x", "y");
    let written = scope.client.put(&one, &labelled).await?.expect_json(200)?;
    same_json("generation", &json!(1), &written["metadata"]["generation"])?;
    defined.delete_definitions(&scope).await
}

type Cause = (&'static str, &'static str, &'static str);

#[expect(clippy::too_many_lines, reason = "a table")]
async fn schema_violations_are_reported(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
        "word": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^a"},
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "small": {"type": "integer", "format": "int32"},
        "above": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "multipleOf": 0.5},
        "color": {"type": "string", "enum": ["red", "blue", "green"]},
        "either": {"x-kubernetes-int-or-string": true},
        "time": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
        "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer"}},
        "need": {"type": "object", "required": ["it"], "properties": {"it": {"type": "string"}}},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"}}}},
    }}));
    defined.serve(&scope).await?;
    let invalid = "FieldValueInvalid";
    let typed = "FieldValueTypeInvalid";
    let cases: &[(Value, &[Cause])] = &[
        (
            json!({"word": 5}),
            &[(
                typed,
                "spec.word",
                "Invalid value: \"integer\": spec.word in body must be of type string: \"integer\"",
            )],
        ),
        (
            json!({"word": "A"}),
            &[(
                invalid,
                "spec.word",
                "Invalid value: \"A\": spec.word in body should be at least 2 chars long",
            )],
        ),
        (
            json!({"word": "bb"}),
            &[(
                invalid,
                "spec.word",
                "Invalid value: \"bb\": spec.word in body should match '^a'",
            )],
        ),
        (
            json!({"word": "aaaaaa"}),
            &[(
                "FieldValueTooLong",
                "spec.word",
                "Too long: may not be more than 5 bytes",
            )],
        ),
        (
            json!({"size": 0}),
            &[(
                invalid,
                "spec.size",
                "Invalid value: 0: spec.size in body should be greater than or equal to 1",
            )],
        ),
        (
            json!({"size": 11}),
            &[(
                invalid,
                "spec.size",
                "Invalid value: 11: spec.size in body should be less than or equal to 10",
            )],
        ),
        (
            json!({"small": 2.5}),
            &[
                (
                    typed,
                    "spec.small",
                    "Invalid value: \"float64\": spec.small in body must be of type int32: \"float64\"",
                ),
                (
                    invalid,
                    "<nil>",
                    "Invalid value: \"\": Checked value must be of type integer with format int32 in spec.small",
                ),
            ],
        ),
        (
            json!({"above": 0}),
            &[
                // A whole number is compared with a whole factor, which this one is not.
                (
                    invalid,
                    "spec.above",
                    "Invalid value: 0: factor MultipleOf declared for spec.above must be positive: 0",
                ),
                (
                    invalid,
                    "spec.above",
                    "Invalid value: 0: spec.above in body should be greater than 0",
                ),
            ],
        ),
        (
            json!({"above": 0.7}),
            &[(
                invalid,
                "spec.above",
                "Invalid value: 0.7: spec.above in body should be a multiple of 0.5",
            )],
        ),
        (
            json!({"color": "pink"}),
            &[(
                "FieldValueNotSupported",
                "spec.color",
                "Unsupported value: \"pink\": supported values: \"red\", \"blue\", \"green\"",
            )],
        ),
        (
            json!({"either": true}),
            &[(
                typed,
                "spec.either",
                "Invalid value: \"boolean\": spec.either in body must be of type integer,string: \"boolean\"",
            )],
        ),
        (
            json!({"time": "foo"}),
            &[(
                typed,
                "spec.time",
                "Invalid value: \"foo\": spec.time in body must be of type date-time: \"foo\"",
            )],
        ),
        (
            json!({"list": []}),
            &[(
                invalid,
                "spec.list",
                "Invalid value: 0: spec.list in body should have at least 1 items",
            )],
        ),
        (
            json!({"list": ["a", "b", "c", "d"]}),
            &[(
                "FieldValueTooMany",
                "spec.list",
                "Too many: 4: must have at most 3 items",
            )],
        ),
        (
            json!({"list": [5]}),
            &[(
                typed,
                "spec.list[0]",
                "Invalid value: \"integer\": spec.list[0] in body must be of type string: \"integer\"",
            )],
        ),
        (
            json!({"map": {"a": "x"}}),
            &[(
                typed,
                "spec.map.a",
                "Invalid value: \"string\": spec.map.a in body must be of type integer: \"string\"",
            )],
        ),
        (
            json!({"map": {"a": 1, "b": 2, "c": 3}}),
            &[(
                "FieldValueTooMany",
                "spec.map",
                "Too many: 3: must have at most 2 items",
            )],
        ),
        (
            json!({"need": {}}),
            &[("FieldValueRequired", "spec.need.it", "Required value")],
        ),
        (
            json!({"tags": ["a", "a"]}),
            &[(
                "FieldValueDuplicate",
                "spec.tags[1]",
                "Duplicate value: \"a\"",
            )],
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
            &[(
                "FieldValueDuplicate",
                "spec.ports[1]",
                "Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}",
            )],
        ),
    ];
    let mut rows = RowFailures::default();
    for (spec, causes) in cases {
        let body = defined.with("a", spec.clone());
        let answer = scope.client.post(&defined.path, &body).await?;
        let causes: Vec<(&str, &str, &str)> = causes.to_vec();
        let expected = status::invalid("Thing", &defined.group, "a", &causes);
        rows.record(spec, answer.expect_failure(&expected));
    }
    rows.outcome()?;
    defined.delete_definitions(&scope).await
}

async fn any_of_and_one_of_report_closest_match(scope: Scope) -> Outcome {
    let defined =
        CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
            "x": {"type": "string"}, "y": {"type": "string"}, "n": {"type": "integer"}},
            "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
            "not": {"required": ["n"]},
        }));
    defined.serve(&scope).await?;
    let invalid = "FieldValueInvalid";
    let cases: &[(Value, &[Cause])] = &[
        (
            json!({"x": "a", "y": "b"}),
            &[(
                invalid,
                "<nil>",
                "Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            )],
        ),
        (
            json!({}),
            &[
                (
                    invalid,
                    "<nil>",
                    "Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
                ),
                ("FieldValueRequired", "spec.x", "Required value"),
            ],
        ),
        (
            json!({"x": "a", "n": 1}),
            &[(
                invalid,
                "<nil>",
                "Invalid value: \"\": \"spec\" must not validate the schema (not)",
            )],
        ),
    ];
    let mut rows = RowFailures::default();
    for (spec, causes) in cases {
        let body = defined.with("a", spec.clone());
        let answer = scope.client.post(&defined.path, &body).await?;
        let expected = status::invalid("Thing", &defined.group, "a", causes);
        rows.record(spec, answer.expect_failure(&expected));
    }
    rows.outcome()?;
    defined.delete_definitions(&scope).await
}

async fn schema_validation_ratchets_unchanged_values(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"a": "odd", "n": 1}));
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .has_status(201)?;
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "enum": ["x"]}, "n": {"type": "integer"}}});
    update_crd_schema(&scope, &defined, spec).await?;
    scope
        .wait_until("the new schema", || async {
            let body = defined.with("b", json!({"a": "odd"}));
            let dry = format!("{}?dryRun=All", defined.path);
            let answer = scope.client.post(&dry, &body).await?;
            Ok((answer.status == 422).then_some(()))
        })
        .await?;
    let one = format!("{}/a", defined.path);
    let now = scope.client.get(&one).await?.expect_json(200)?;
    let changed = with(&now, "/spec/n", 2);
    let changed = scope.client.put(&one, &changed).await?.expect_json(200)?;
    let worse = with(&changed, "/spec/a", "worse");
    scope.client.put(&one, &worse).await?.has_status(422)?;
    defined.delete_definitions(&scope).await
}

async fn custom_resource_update_requires_resource_version(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope);
    defined.serve(&scope).await?;
    let body = defined.object("a");
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .has_status(201)?;
    let answer = scope
        .client
        .put(&format!("{}/a", defined.path), &body)
        .await?;
    let text = "Invalid value: 0: must be specified for an update";
    let cause = ("FieldValueInvalid", "metadata.resourceVersion", text);
    answer.expect_failure(&status::invalid("things", &defined.group, "a", &[cause]))?;
    defined.delete_definitions(&scope).await
}

async fn crd_selectable_fields_select(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let fields = json!([{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.n"}]);
    set(
        &mut defined.definition,
        "/spec/versions/0/selectableFields",
        fields,
    );
    defined.serve(&scope).await?;
    for (name, spec) in [
        ("one", json!({"a": "x", "n": 1})),
        ("two", json!({"a": "y", "n": 1})),
        ("three", json!({})),
    ] {
        let body = defined.with(name, spec);
        scope
            .client
            .post(&defined.path, &body)
            .await?
            .has_status(201)?;
    }
    let mut rows = RowFailures::default();
    for (selector, expected) in [
        ("spec.a=x", &["one"][..]),
        ("spec.n=1", &["one", "two"]),
        ("spec.a=", &["three"]),
        ("spec.a!=x,metadata.name!=two", &["three"]),
    ] {
        let path = crate::client::query(&defined.path, &[("fieldSelector", selector)]);
        let list = scope.client.get(&path).await?.expect_json(200)?;
        rows.record(selector, has_names(&list, expected));
    }
    rows.outcome()?;
    let path = crate::client::query(&defined.path, &[("fieldSelector", "spec.foo=x")]);
    let answer = scope.client.get(&path).await?;
    answer.expect_failure(&status::bad_request("field label not supported: spec.foo"))?;
    defined.delete_definitions(&scope).await
}

async fn crd_versions_show_the_same_objects(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let mut second = defined.definition["spec"]["versions"][0].clone();
    set(&mut second, "/name", json!("v2"));
    set(&mut second, "/storage", json!(false));
    set(&mut defined.definition, "/spec/versions/1", second);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"a": "x"}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let other = format!("{}/a", defined.path.replace("/v1/", "/v2/"));
    let shown = scope.client.get(&other).await?.expect_json(200)?;
    let version = format!("{}/v2", defined.group);
    same_json(
        "other",
        &with(&made, "/apiVersion", version.clone()),
        &shown,
    )?;
    let changed = with(&shown, "/spec/a", "y");
    let changed = scope.client.put(&other, &changed).await?.expect_json(200)?;
    same_json("version", &json!(version), &changed["apiVersion"])?;
    let back = scope
        .client
        .get(&format!("{}/a", defined.path))
        .await?
        .expect_json(200)?;
    same_json("spec", &json!({"a": "y"}), &back["spec"])?;
    same_json("version", &made["apiVersion"], &back["apiVersion"])?;
    let wrong = scope.client.put(&other, &back).await?;
    let text = format!(
        "the API version in the data ({0}/v1) does not match the expected API version ({0}/v2)",
        defined.group
    );
    wrong.expect_failure(&status::bad_request(&text))?;
    defined.delete_definitions(&scope).await
}

async fn delete_collection_across_namespaces_gets_404(scope: Scope) -> Outcome {
    let path = format!("/apis/{}/v1/widgets", crate::kinds::CUSTOM_GROUP);
    let answer = scope.client.delete(&path).await?;
    answer.has_status(404)?;
    same("body", "404 page not found\n", answer.text().as_str())?;
    scope.client.get(&path).await?.has_status(200)
}

async fn schema_validates_patches_and_applies(scope: Scope) -> Outcome {
    let defined =
        CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "n": {"type": "integer", "maximum": 5},
            "list": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string"}, "v": {"type": "string"}}}},
        }}));
    defined.serve(&scope).await?;
    let one = format!("{}/a", defined.path);
    let apply = async |manager: &str, spec: Value| {
        let path = format!("{one}?fieldManager={manager}");
        let body = defined.with("a", spec);
        scope
            .client
            .patch_as("application/apply-patch+yaml", &path, &body)
            .await
    };
    let made = apply("one", json!({"list": [{"k": "x", "v": "1"}]}))
        .await?
        .expect_json(201)?;
    same_json("default", &json!("x"), &made["spec"]["a"])?;
    let both = apply("two", json!({"list": [{"k": "y", "v": "2"}]}))
        .await?
        .expect_json(200)?;
    let list = json!([{"k": "x", "v": "1"}, {"k": "y", "v": "2"}]);
    same_json("merged", &list, &both["spec"]["list"])?;
    let undeclared = apply("one", json!({"zz": 1})).await?;
    let text = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.zz: field not declared \
         in schema",
        defined.group
    );
    let body = undeclared.expect_json(500)?;
    same_json("message", &json!(text), &body["message"])?;
    let answer = scope
        .client
        .patch(&one, &json!({"spec": {"n": 6, "odd": 1}}))
        .await?;
    let text = "Invalid value: 6: spec.n in body should be less than or equal to 5";
    let cause = ("FieldValueInvalid", "spec.n", text);
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &[cause]))?;
    let answer = scope
        .client
        .patch(&one, &json!({"spec": {"n": 5, "odd": 1}}))
        .await?;
    let patched = answer.expect_json(200)?;
    let expected = r#"299 - "unknown field \"spec.odd\"""#;
    same("warning", expected, answer.header("warning"))?;
    ensure!(patched["spec"]["odd"].is_null(), "kept: {patched}");
    defined.delete_definitions(&scope).await
}

async fn embedded_resources_require_kind_and_api_version(scope: Scope) -> Outcome {
    let defined =
        CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
        "t": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}}));
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"t": {"spec": {"x": 1}}}));
    let answer = scope.client.post(&defined.path, &body).await?;
    let causes = [
        ("FieldValueRequired", "spec.t.apiVersion", "Required value"),
        ("FieldValueRequired", "spec.t.kind", "Required value"),
    ];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    let inner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1},
        "spec": {"x": 1}});
    let body = defined.with("a", json!({"t": inner}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"x": 1}});
    same_json("embedded", &expected, &made["spec"]["t"])?;
    defined.delete_definitions(&scope).await
}

async fn status_update_validates_only_status_schema(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope);
    let version = "/spec/versions/0";
    set(
        &mut defined.definition,
        &format!("{version}/subresources"),
        json!({"status": {}}),
    );
    let at = format!("{version}/schema/openAPIV3Schema/properties/status");
    let schema = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    set(&mut defined.definition, &at, schema);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"n": 1}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let one = format!("{}/a/status", defined.path);
    let wrong = with(&made, "/status", json!({"phase": 5}));
    let answer = scope.client.put(&one, &wrong).await?;
    let text = "Invalid value: \"integer\": phase in body must be of type string: \"integer\"";
    let cause = ("FieldValueTypeInvalid", "status.phase", text);
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &[cause]))?;
    let answer = scope.client.post(&one, &made).await?;
    let full = format!("things.{}", defined.group);
    let text = format!("create is not supported on resources of kind \"{full}\"");
    answer.expect_message(405, "MethodNotAllowed", &text)?;
    defined.delete_definitions(&scope).await
}
