//! `x-kubernetes-validations`: accepted rules, and their violations.

use crate::check::checks;
use crate::crds::CrdFixture;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{set, with};
use crate::status;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

checks! { validation_rules:
    ["EXT-34"] skipped_validation_rules_are_reported [CustomResources],
    ["EXT-39", "EXT-40", "EXT-41", "EXT-42"] failed_validation_rules_are_reported_with_path [CustomResources],
    ["EXT-43", "EXT-44"] transition_rules_need_an_old_value [CustomResources],
    [] transition_rules_correlate_list_items_by_map_key [CustomResources],
    ["EXT-46"] validation_rules_ratchet_unchanged_values [CustomResources],
    ["EXT-47"] validation_rules_over_cost_limit_are_rejected [CustomResources],
    [] invalid_validation_rules_are_rejected [CustomResources],
    [] schema_defaults_must_satisfy_validation_rules [CustomResources],
    [] status_update_evaluates_all_validation_rules [CustomResources],
    [] cel_functions_match_recorded_results [CustomResources],
}

const INVALID: &str = "FieldValueInvalid";

type Cause = (&'static str, &'static str, &'static str);

async fn skipped_validation_rules_are_reported(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope).with_spec(json!({
        "type": "object", "required": ["it"],
        "properties": {"it": {"type": "string"}, "n": {"type": "integer", "maximum": 5}},
        "x-kubernetes-validations": [{"rule": "self.n < 3"}],
    }));
    defined.serve(&scope).await?;
    let cases: &[(Value, &[Cause])] = &[
        (
            json!({"n": 4}),
            &[
                ("FieldValueRequired", "spec.it", "Required value"),
                (
                    INVALID,
                    "<nil>",
                    "Invalid value: null: some validation rules were not checked because the \
                     object was invalid; correct the existing errors to complete validation",
                ),
            ],
        ),
        // A value that is only too large does not prevent the evaluation of the rules.
        (
            json!({"it": "x", "n": 6}),
            &[
                (
                    INVALID,
                    "spec.n",
                    "Invalid value: 6: spec.n in body should be less than or equal to 5",
                ),
                (INVALID, "spec", "Invalid value: failed rule: self.n < 3"),
            ],
        ),
    ];
    refused(&scope, &defined, cases).await?;
    defined.delete_definitions(&scope).await
}

/// Every spec is refused for the causes given.
async fn refused(scope: &Scope, defined: &CrdFixture, cases: &[(Value, &[Cause])]) -> Outcome {
    let mut rows = RowFailures::default();
    for (spec, causes) in cases {
        let body = defined.with("a", spec.clone());
        let answer = scope.client.post(&defined.path, &body).await?;
        let expected = status::invalid("Thing", &defined.group, "a", causes);
        rows.record(spec, answer.expect_failure(&expected));
    }
    rows.outcome()
}

#[expect(clippy::too_many_lines, reason = "a table")]
async fn failed_validation_rules_are_reported_with_path(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope).with_spec(json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer"}, "max": {"type": "integer"},
            "word": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
                {"rule": "self.startsWith('a')"}]},
            "child": {"type": "object", "properties": {"x": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.x < 5", "message": "x is large", "fieldPath": ".x"}]},
            "no": {"type": "object", "properties": {"x": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.x != 1", "reason": "FieldValueForbidden", "message": "not one"},
                    {"rule": "self.x != 2", "reason": "FieldValueRequired", "message": "not two",
                        "fieldPath": ".x"},
                    {"rule": "self.x != 3", "reason": "FieldValueDuplicate", "message": "gone"},
                    {"rule": "self.x != 4", "reason": "FieldValueInvalid"}]},
            "said": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [
                {"rule": "self != 'b'", "messageExpression": "'it is ' + self"},
                {"rule": "self != 'c'", "message": "a message",
                    "messageExpression": "self.substring(9)"},
                {"rule": "self != 'd'", "messageExpression": "'  '"},
                {"rule": "self != 'e'", "messageExpression": "'a\\nb'"}]},
            "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9,
                "x-kubernetes-validations": [{"rule": "self.size() > 1", "message": "short"}]}},
            "map": {"type": "object", "maxProperties": 5, "additionalProperties": {
                "type": "integer", "x-kubernetes-validations": [
                    {"rule": "self > 1", "message": "small"}]}},
            "failing": {"type": "object", "properties": {"x": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "1 / self.x == 1"}]},
            "either": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [
                {"rule": "self < 5"}]},
            "null": {"type": "string", "nullable": true, "x-kubernetes-validations": [
                {"rule": "self == 'x'"}]},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.size) || self.size <= self.max",
            "message": "size must not exceed max",
        }],
    }));
    defined.serve(&scope).await?;
    let cases: &[(Value, &[Cause])] = &[
        (
            json!({"size": 5, "max": 3}),
            &[(INVALID, "spec", "Invalid value: size must not exceed max")],
        ),
        (
            json!({"size": 5}),
            &[(
                INVALID,
                "spec",
                "Invalid value: \"object\": no such key: max evaluating rule: size must not \
                 exceed max",
            )],
        ),
        (
            json!({"word": "bcd"}),
            &[(
                INVALID,
                "spec.word",
                "Invalid value: \"bcd\": failed rule: self.startsWith('a')",
            )],
        ),
        (
            json!({"child": {"x": 7}}),
            &[(INVALID, "spec.child.x", "Invalid value: x is large")],
        ),
        (
            json!({"no": {"x": 1}}),
            &[("FieldValueForbidden", "spec.no", "Forbidden: not one")],
        ),
        (
            json!({"no": {"x": 2}}),
            &[("FieldValueRequired", "spec.no.x", "Required value: not two")],
        ),
        (
            json!({"no": {"x": 3}}),
            &[("FieldValueDuplicate", "spec.no", "Duplicate value")],
        ),
        (
            json!({"no": {"x": 4}}),
            &[(
                INVALID,
                "spec.no",
                "Invalid value: failed rule: self.x != 4",
            )],
        ),
        (
            json!({"said": "b"}),
            &[(INVALID, "spec.said", "Invalid value: \"b\": it is b")],
        ),
        (
            json!({"said": "c"}),
            &[(INVALID, "spec.said", "Invalid value: \"c\": a message")],
        ),
        (
            json!({"said": "d"}),
            &[(
                INVALID,
                "spec.said",
                "Invalid value: \"d\": failed rule: self != 'd'",
            )],
        ),
        (
            json!({"said": "e"}),
            &[(
                INVALID,
                "spec.said",
                "Invalid value: \"e\": failed rule: self != 'e'",
            )],
        ),
        (
            json!({"list": ["ab", "c"]}),
            &[(INVALID, "spec.list[1]", "Invalid value: \"c\": short")],
        ),
        (
            json!({"map": {"a": 1, "b": 2}}),
            &[(INVALID, "spec.map[a]", "Invalid value: 1: small")],
        ),
        (
            json!({"failing": {"x": 0}}),
            &[(
                INVALID,
                "spec.failing",
                "Invalid value: \"object\": division by zero evaluating rule: 1 / self.x == 1",
            )],
        ),
        (
            json!({"either": "x"}),
            &[(
                INVALID,
                "spec.either",
                "Invalid value: \"\": 'no such overload': call arguments did not match a \
                 supported operator, function or macro signature for rule: self < 5",
            )],
        ),
    ];
    refused(&scope, &defined, cases).await?;
    let good = json!({"size": 3, "max": 3, "word": "abc", "either": 3, "null": null});
    let body = defined.with("good", good);
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    defined.delete_definitions(&scope).await
}

async fn transition_rules_need_an_old_value(scope: Scope) -> Outcome {
    let defined =
        CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
            "fixed": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed is fixed"}]},
            "first": {"type": "integer", "x-kubernetes-validations": [{
                "rule": "oldSelf.hasValue() || self == 1", "optionalOldSelf": true,
                "message": "begins with one"}]},
            "other": {"type": "integer"},
        }}));
    defined.serve(&scope).await?;
    let cases: &[(Value, &[Cause])] = &[(
        json!({"first": 2}),
        &[(INVALID, "spec.first", "Invalid value: 2: begins with one")],
    )];
    refused(&scope, &defined, cases).await?;
    let body = defined.with("a", json!({"fixed": 5, "first": 1}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let one = format!("{}/a", defined.path);
    let changed = with(&made, "/spec/fixed", 6);
    let answer = scope.client.put(&one, &changed).await?;
    let causes = [(INVALID, "spec.fixed", "Invalid value: 6: fixed is fixed")];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    let changed = with(&with(&made, "/spec/first", 9), "/spec/other", 1);
    scope.client.put(&one, &changed).await?.has_status(200)?;
    // An added value has no old value.
    let body = defined.with("b", json!({}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let one = format!("{}/b", defined.path);
    let changed = with(&made, "/spec/fixed", 6);
    scope.client.put(&one, &changed).await?.has_status(200)?;
    defined.delete_definitions(&scope).await
}

async fn transition_rules_correlate_list_items_by_map_key(scope: Scope) -> Outcome {
    let defined = CrdFixture::with_default_schema(&scope).with_spec(json!({"type": "object", "properties": {
        "ports": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "n": {"type": "integer"}},
                "x-kubernetes-validations": [
                    {"rule": "self.n >= oldSelf.n", "message": "grows"}]}},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows"}]}},
    }}));
    defined.serve(&scope).await?;
    let spec = json!({"ports": [{"name": "a", "n": 1}, {"name": "b", "n": 5}], "map": {"k": 3}});
    let body = defined.with("a", spec);
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let one = format!("{}/a", defined.path);
    let ports = json!([{"name": "b", "n": 6}, {"name": "c", "n": 0}, {"name": "a", "n": 1}]);
    let moved = with(&made, "/spec/ports", ports);
    let moved = scope.client.put(&one, &moved).await?.expect_json(200)?;
    let less = with(&moved, "/spec/ports/2/n", 0);
    let answer = scope.client.put(&one, &less).await?;
    let causes = [(INVALID, "spec.ports[2]", "Invalid value: grows")];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    let less = with(&moved, "/spec/map/k", 2);
    let answer = scope.client.put(&one, &less).await?;
    let causes = [(INVALID, "spec.map[k]", "Invalid value: 2: grows")];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    defined.delete_definitions(&scope).await
}

async fn validation_rules_ratchet_unchanged_values(scope: Scope) -> Outcome {
    let loose = json!({"type": "object", "properties": {
        "word": {"type": "string", "maxLength": 20},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 20}},
        "other": {"type": "integer"}}});
    let mut tight = loose.clone();
    let rule = json!([{"rule": "self.startsWith('a')", "message": "begins with a"}]);
    set(
        &mut tight,
        "/properties/word/x-kubernetes-validations",
        rule.clone(),
    );
    set(
        &mut tight,
        "/properties/list/items/x-kubernetes-validations",
        rule,
    );
    let defined = CrdFixture::with_default_schema(&scope).with_spec(loose);
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"word": "b", "list": ["c"]}));
    scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let at = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let now = defined.get(&scope).await?;
    let path = scope.object_path("customresourcedefinitions", &defined.name);
    scope
        .client
        .put(&path, &with(&now, at, tight))
        .await?
        .has_status(200)?;
    let dry = format!("{}?dryRun=All", defined.path);
    scope
        .wait_until("the rule", || async {
            let body = defined.with("probe", json!({"word": "b"}));
            let answer = scope.client.post(&dry, &body).await?;
            Ok((answer.status == 422).then_some(()))
        })
        .await?;
    let one = format!("{}/a", defined.path);
    let now = scope.client.get(&one).await?.expect_json(200)?;
    let labelled = with(&now, "/metadata/labels/x", "y");
    let answer = scope.client.put(&one, &labelled).await?;
    let now = answer.expect_json(200)?;
    let warnings = answer.header("warning");
    for expected in [
        r#"299 - "spec.word: Invalid value: \"b\": begins with a""#,
        r#"299 - "spec.list[0]: Invalid value: \"c\": begins with a""#,
    ] {
        let mut told = answer.headers.get_all("warning").iter();
        let told = told.any(|warning| warning.as_bytes() == expected.as_bytes());
        ensure!(told, "{expected} is not in {warnings}");
    }
    let other = with(&now, "/spec/other", 1);
    scope.client.put(&one, &other).await?.has_status(200)?;
    let now = scope.client.get(&one).await?.expect_json(200)?;
    let changed = with(&now, "/spec/word", "d");
    let answer = scope.client.put(&one, &changed).await?;
    let causes = [(INVALID, "spec.word", "Invalid value: \"d\": begins with a")];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    defined.delete_definitions(&scope).await
}

/// Where errors about the rules of `spec` are.
const AT: &str = "spec.validation.openAPIV3Schema.properties[spec]";

/// The causes for which a definition is refused: place and message.
async fn definition_refused(scope: &Scope, spec: &Value) -> Outcome<Vec<(String, String)>> {
    let defined = CrdFixture::with_default_schema(scope).with_spec(spec.clone());
    let path = format!(
        "{}?dryRun=All",
        scope.collection_path("customresourcedefinitions")
    );
    let answer = scope.client.post(&path, &defined.definition).await?;
    let causes = answer.expect_json(422)?["details"]["causes"].clone();
    let causes = causes.as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let causes = causes.iter();
    Ok(causes
        .map(|cause| (text(cause, "field"), text(cause, "message")))
        .collect())
}

const TRY: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
                   where arrays, maps, and strings are declared)";

async fn validation_rules_over_cost_limit_are_rejected(scope: Scope) -> Outcome {
    let spec = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "string"}}},
        "x-kubernetes-validations": [{"rule": "self.list.all(x, self.list.all(y, x == y))"}]});
    let rule = format!("{AT}.x-kubernetes-validations[0].rule");
    let expected = vec![
        (
            rule.clone(),
            format!(
                "Forbidden: estimated rule cost exceeds budget by factor of more than 100x {TRY}"
            ),
        ),
        (
            rule,
            "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire \
             OpenAPIv3 schema"
                .to_owned(),
        ),
        (
            "spec.validation.openAPIV3Schema".to_owned(),
            format!(
                "Forbidden: x-kubernetes-validations estimated rule cost total for entire \
                 OpenAPIv3 schema exceeds budget by factor of more than 100x {TRY}"
            ),
        ),
    ];
    same(
        "causes",
        &expected,
        &definition_refused(&scope, &spec).await?,
    )?;
    // The cost excess is in the message, and a bound on the list size fixes it.
    let list = |most: u64| {
        json!({"type": "object", "properties": {
            "list": {"type": "array", "maxItems": most, "items": {"type": "string", "maxLength": 10}}},
            "x-kubernetes-validations": [{"rule": "self.list.all(x, self.list.all(y, x == y))"}]})
    };
    let mut rows = RowFailures::default();
    for (most, factor) in [
        (1200, "1.296720x"),
        (1400, "1.8x"),
        (3000, "8.1x"),
        (9000, "72.9x"),
    ] {
        let found = definition_refused(&scope, &list(most)).await?;
        let text = found.first().map(|(_, text)| text.as_str());
        let text = text.unwrap_or_default();
        let found = text.split("factor of ").nth(1).unwrap_or_default();
        let found = found.split(' ').next().unwrap_or_default();
        rows.record(most, same("factor", factor, found));
    }
    rows.outcome()?;
    let path = format!(
        "{}?dryRun=All",
        scope.collection_path("customresourcedefinitions")
    );
    let defined = CrdFixture::with_default_schema(&scope).with_spec(list(100));
    scope
        .client
        .post(&path, &defined.definition)
        .await?
        .has_status(201)
}

/// A schema of `spec` whose rules are about a few fields.
fn with_rules(rules: &Value) -> Value {
    json!({"type": "object", "properties": {
        "a": {"type": "string"}, "n": {"type": "integer"},
        "free": {"x-kubernetes-preserve-unknown-fields": true},
        "child": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "x-kubernetes-validations": rules})
}

async fn invalid_validation_rules_are_rejected(scope: Scope) -> Outcome {
    let cases: &[(Value, &str, &str)] = &[
        (
            json!({"rule": "self.b == 1"}),
            "rule",
            "undefined field 'b'",
        ),
        (
            json!({"rule": "self.free == 1"}),
            "rule",
            "undefined field 'free'",
        ),
        (
            json!({"rule": "self.n"}),
            "rule",
            ": cel expression must evaluate to a bool",
        ),
        (
            json!({"rule": "self.n == 'x'"}),
            "rule",
            ": compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' \
             applied to '(int, string)'\n | self.n == 'x'\n | .......^",
        ),
        (
            json!({"rule": "self.n =="}),
            "rule",
            ": compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' \
             expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
             NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self.n ==\n | .........^",
        ),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            "messageExpression",
            ": messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.b"}),
            "messageExpression",
            ": messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'b'\n | \
             self.b\n | ....^",
        ),
        (
            json!({"rule": " "}),
            "rule",
            "Required value: rule is not specified",
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "message",
            "must not contain line breaks",
        ),
        (
            json!({"rule": "true &&\ntrue"}),
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "reason": "Odd"}),
            "reason",
            "Unsupported value: \"Odd\": supported values: \"FieldValueDuplicate\", \
             \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".b"}),
            "fieldPath",
            "Invalid value: \".b\": must be a valid path",
        ),
        (
            json!({"rule": "true", "fieldPath": "a"}),
            "fieldPath",
            "Invalid value: \"a\": must be a valid path",
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ];
    let mut rows = RowFailures::default();
    for (rule, member, text) in cases {
        let spec = with_rules(&json!([rule]));
        let found = definition_refused(&scope, &spec).await?;
        let place = format!("{AT}.x-kubernetes-validations[0].{member}");
        let good = matches!(&found[..], [(field, message)]
            if *field == place && message.contains(text));
        let outcome = if good {
            Ok(())
        } else {
            same("cause", &format!("{place}: {text}"), &format!("{found:?}"))
        };
        rows.record(rule, outcome);
    }
    let spec = json!({"type": "object", "properties": {"list": {"type": "array", "maxItems": 9,
        "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}});
    let found = definition_refused(&scope, &spec).await?;
    let text = format!(
        "Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion \
         of the schema within {AT}.properties[list]"
    );
    let messages: Vec<&str> = found.iter().map(|(_, message)| message.as_str()).collect();
    rows.record("oldSelf", same("messages", &vec![text.as_str()], &messages));
    rows.outcome()
}

async fn schema_defaults_must_satisfy_validation_rules(scope: Scope) -> Outcome {
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 9, "default": "b", "x-kubernetes-validations": [
            {"rule": "self == 'a'", "message": "only a"}]}}});
    let found = definition_refused(&scope, &spec).await?;
    let expected = vec![(
        format!("{AT}.properties[a].default"),
        "Invalid value: \"b\": only a".to_owned(),
    )];
    same("causes", &expected, &found)
}

async fn status_update_evaluates_all_validation_rules(scope: Scope) -> Outcome {
    let mut defined = CrdFixture::with_default_schema(&scope)
        .with_spec(json!({"type": "object", "properties": {
        "n": {"type": "integer"}}}));
    let version = "/spec/versions/0";
    let schema = format!("{version}/schema/openAPIV3Schema");
    set(
        &mut defined.definition,
        &format!("{version}/subresources"),
        json!({"status": {}}),
    );
    set(
        &mut defined.definition,
        &format!("{schema}/properties/status"),
        json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    );
    set(
        &mut defined.definition,
        &format!("{schema}/x-kubernetes-validations"),
        json!([{"rule": "!has(self.status) || self.status.n <= self.spec.n",
            "message": "no more than wanted"}]),
    );
    defined.serve(&scope).await?;
    let body = defined.with("a", json!({"n": 3}));
    let made = scope
        .client
        .post(&defined.path, &body)
        .await?
        .expect_json(201)?;
    let one = format!("{}/a/status", defined.path);
    let answer = scope.client.put(&one, &with(&made, "/status/n", 4)).await?;
    let causes = [(INVALID, "<nil>", "Invalid value: no more than wanted")];
    answer.expect_failure(&status::invalid("Thing", &defined.group, "a", &causes))?;
    let now = scope
        .client
        .put(&one, &with(&made, "/status/n", 3))
        .await?
        .expect_json(200)?;
    same_json("status", &json!({"n": 3}), &now["status"])?;
    defined.delete_definitions(&scope).await
}

const CASES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/cel/functions.txt"
));

/// The schema that the expressions are about.
fn probe() -> Value {
    let text = json!({"type": "string", "maxLength": 20});
    let int = json!({"type": "integer"});
    let ints = json!({"type": "array", "maxItems": 10, "items": int});
    json!({"type": "object", "properties": {
        "i": int, "d": {"type": "number"}, "s": text, "missing": text, "ints": ints, "none": ints,
        "strs": {"type": "array", "maxItems": 10, "items": text},
        "m": {"type": "object", "maxProperties": 10, "additionalProperties": text},
        "tags": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": text},
        "objs": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": text, "v": int}}},
        "b": {"type": "string", "format": "byte"}, "ts": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"}, "dur": {"type": "string", "format": "duration"},
        "ios": {"x-kubernetes-int-or-string": true}, "x-y": int, "namespace": text, "a.b": int,
        "u__n": int,
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true},
    }})
}

fn probed() -> Value {
    json!({
        "i": 3, "d": 2.5, "s": "hello", "ints": [1, 2, 3], "none": [], "strs": ["x", "y"],
        "m": {"a": "x", "b": "y"}, "tags": ["a", "b"],
        "objs": [{"k": "y", "v": 2}, {"k": "x", "v": 1}],
        "b": "YWJj", "ts": "2023-08-26T12:39:00Z", "day": "2023-08-26", "dur": "90m", "ios": 5,
        "x-y": 1, "namespace": "n", "a.b": 2, "u__n": 3,
        "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    })
}

/// Expressions and their results, from the tests of `optik-cel`.
fn cases() -> Vec<(&'static str, String)> {
    let lines: Vec<&str> = CASES.lines().collect();
    let pairs = lines.chunks_exact(2);
    let plain = |text: &str| {
        text.trim_start_matches('\t')
            .replace("\\n", "\n")
            .replace("\\\\", "\\")
    };
    pairs.map(|pair| (pair[0], plain(pair[1]))).collect()
}

async fn cel_functions_match_recorded_results(scope: Scope) -> Outcome {
    let all = cases();
    let taken: Vec<&(&str, String)> = all
        .iter()
        .filter(|(_, result)| !result.starts_with("refused"))
        .collect();
    let rules = taken
        .iter()
        .enumerate()
        .map(|(index, (rule, _))| json!({"rule": rule, "message": format!("#{index}#")}));
    let mut defined = CrdFixture::with_default_schema(&scope).with_names("probes", "Probe");
    let mut schema = probe();
    schema["x-kubernetes-validations"] = rules.collect();
    let at = "/spec/versions/0/schema/openAPIV3Schema";
    set(&mut defined.definition, at, schema);
    defined.serve(&scope).await?;
    let mut object = defined.object("one");
    for (name, value) in probed().as_object().into_iter().flatten() {
        object[name.as_str()] = value.clone();
    }
    let answer = scope
        .client
        .post(&defined.path, &object)
        .await?
        .expect_json(422)?;
    let causes = answer["details"]["causes"].as_array().cloned();
    let messages: Vec<String> = causes
        .into_iter()
        .flatten()
        .filter_map(|cause| Some(cause["message"].as_str()?.to_owned()))
        .collect();
    let mut rows = RowFailures::default();
    for (index, (rule, expected)) in taken.iter().enumerate() {
        let mark = format!("#{index}#");
        let told = messages.iter().find(|message| message.contains(&mark));
        let good = match (expected.as_str(), told) {
            ("true", told) => told.is_none(),
            ("false", Some(told)) => *told == format!("Invalid value: {mark}"),
            (error, Some(told)) => error
                .strip_prefix("error: ")
                .is_some_and(|error| told.contains(error)),
            (_, None) => false,
        };
        let outcome = if good {
            Ok(())
        } else {
            same(
                "result",
                &expected.as_str(),
                &told.map_or("true", String::as_str),
            )
        };
        rows.record(rule, outcome);
    }
    rows.outcome()?;
    defined.delete_definitions(&scope).await
}
