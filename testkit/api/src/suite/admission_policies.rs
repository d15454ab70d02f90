//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: denials, warnings and mutations.
//!
//! Policies apply to the whole server, so each is bound to the namespace of its check.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::object::{set, with};
use crate::{ApiResponse, Outcome, Scope};
use serde_json::{Value, json};

checks! { admission_policies:
    ["EXT-77"] validating_admission_policy_denies [Policies],
    ["EXT-78"] validating_admission_policy_warns [Policies],
    [] policy_expressions_see_admission_request [Policies],
    [] policy_match_conditions_and_failure_policy_decide [Policies],
    [] policy_params_are_resolved [Policies, CustomResources],
    [] policies_see_updates_and_deletions [Policies],
    [] invalid_admission_policies_are_rejected [Policies],
    [] mutating_admission_policy_changes_object [Policies],
    [] failing_policy_mutations_are_reported [Policies],
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A policy and its binding, both of one name.
struct PolicyFixture<'s> {
    scope: &'s Scope,
    name: String,
    mutates: bool,
    spec: Value,
    binding: Value,
}

impl<'s> PolicyFixture<'s> {
    fn new(scope: &'s Scope, suffix: &str, mutates: bool) -> Self {
        let name = format!("{}-{suffix}", scope.namespace);
        let operations = json!(["CREATE", "UPDATE"]);
        let spec = json!({"matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scope.namespace}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": operations, "resources": ["configmaps"]}],
        }});
        let mut binding = json!({"policyName": name});
        if !mutates {
            binding["validationActions"] = json!(["Deny"]);
        }
        Self {
            scope,
            name,
            mutates,
            spec,
            binding,
        }
    }

    fn validating(scope: &'s Scope, suffix: &str, validations: Value) -> Self {
        let mut policy = Self::new(scope, suffix, false);
        policy.spec["validations"] = validations;
        policy
    }

    fn mutating(scope: &'s Scope, suffix: &str, mutations: Value) -> Self {
        let mut policy = Self::new(scope, suffix, true);
        policy.spec["mutations"] = mutations;
        policy.spec["reinvocationPolicy"] = json!("Never");
        policy.spec["failurePolicy"] = json!("Fail");
        policy
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.spec[name] = value;
        self
    }

    fn bound(mut self, name: &str, value: Value) -> Self {
        self.binding[name] = value;
        self
    }

    fn paths(&self) -> [(String, &'static str); 2] {
        let (plural, kind) = match self.mutates {
            true => ("mutatingadmissionpolic", "MutatingAdmissionPolicy"),
            false => ("validatingadmissionpolic", "ValidatingAdmissionPolicy"),
        };
        let binding = match self.mutates {
            true => "MutatingAdmissionPolicyBinding",
            false => "ValidatingAdmissionPolicyBinding",
        };
        [
            (format!("{GROUP}/{plural}ies"), kind),
            (format!("{GROUP}/{plural}ybindings"), binding),
        ]
    }

    fn objects(&self) -> [Value; 2] {
        let paths = self.paths();
        let object = |kind: &str, spec: &Value| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": self.name}, "spec": spec,
            })
        };
        [
            object(paths[0].1, &self.spec),
            object(paths[1].1, &self.binding),
        ]
    }

    /// Creates policy and binding and waits until they take effect.
    async fn make(&self, probe: &Value, shows: impl Fn(&ApiResponse) -> bool) -> Outcome {
        for ((path, _), object) in self.paths().iter().zip(self.objects()) {
            self.scope
                .client
                .post(path, &object)
                .await?
                .expect_json(201)?;
        }
        let path = format!("{}?dryRun=All", self.scope.collection_path("configmaps"));
        self.scope
            .wait_until("the policy", || async {
                let answer = self.scope.client.post(&path, probe).await?;
                Ok(shows(&answer).then_some(()))
            })
            .await
    }

    async fn delete_policies(&self) -> Outcome {
        for (path, _) in self.paths().iter().rev() {
            let path = format!("{path}/{}", self.name);
            self.scope.client.delete(&path).await?.has_status(200)?;
        }
        self.scope
            .wait_until("the end of the policy", || async {
                for word in ["bad", "worse", "x"] {
                    let mut probe = config_map("probe", json!({"a": word}));
                    set(&mut probe, "/metadata/labels", json!({"check": "yes"}));
                    let path = format!("{}?dryRun=All", self.scope.collection_path("configmaps"));
                    let answer = self.scope.client.post(&path, &probe).await?;
                    if answer.text().contains(&self.name) {
                        return Ok(None);
                    }
                }
                Ok(Some(()))
            })
            .await
    }
}

fn config_map(name: &str, data: impl Into<Value>) -> Value {
    let data = data.into();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn is_refused(answer: &ApiResponse) -> bool {
    answer.status >= 400
}

fn expect_denial(answer: &ApiResponse, text: &str) -> bool {
    answer.text().contains(text)
}

/// A refusal by a policy: its status, reason and words.
fn refused(policy: &str, name: &str, (code, reason): (u16, &str), text: &str) -> Value {
    let tail = format!(
        "ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {text}"
    );
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("configmaps \"{name}\" is forbidden: {tail}"),
        "reason": reason, "code": code,
        "details": {"name": name, "kind": "configmaps", "causes": [{"message": tail}]},
    })
}

async fn validating_admission_policy_denies(scope: Scope) -> Outcome {
    let validations = json!([
        {"expression": "object.data.a != 'bad'"},
        {"expression": "object.data.a != 'worse'", "message": "not worse", "reason": "Forbidden"},
        {"expression": "object.data.a != 'large'", "reason": "RequestEntityTooLarge",
            "messageExpression": "'too large: ' + object.data.a"},
        {"expression": "object.data.a != 'lines'", "messageExpression": "'a\\nb'",
            "message": "one line"},
        {"expression": "object.data.a != 'odd' || object.data.b == 'x'"},
    ]);
    let policy = PolicyFixture::validating(&scope, "deny", validations);
    policy
        .make(&config_map("probe", json!({"a": "bad"})), is_refused)
        .await?;
    let mut rows = RowFailures::default();
    let path = scope.collection_path("configmaps");
    for (data, how, text) in [
        (
            "bad",
            (422, "Invalid"),
            "failed expression: object.data.a != 'bad'",
        ),
        ("worse", (403, "Forbidden"), "not worse"),
        ("large", (413, "RequestEntityTooLarge"), "too large: large"),
        ("lines", (422, "Invalid"), "one line"),
        (
            "odd",
            (422, "Invalid"),
            "expression 'object.data.a != 'odd' || object.data.b == 'x'' resulted in error: no \
             such key: b",
        ),
    ] {
        let body = config_map("x", json!({"a": data}));
        let answer = scope.client.post(&path, &body).await?;
        let expected = refused(&policy.name, "x", how, text);
        rows.record(data, answer.expect_failure(&expected));
    }
    rows.outcome()?;
    let body = config_map("fine", json!({"a": "good"}));
    scope.client.post(&path, &body).await?.expect_json(201)?;
    policy.delete_policies().await
}

async fn validating_admission_policy_warns(scope: Scope) -> Outcome {
    let validations = json!([{"expression": "object.data.a != 'bad'", "message": "it is bad"}]);
    let policy = PolicyFixture::validating(&scope, "warn", validations)
        .bound("validationActions", json!(["Warn", "Audit"]));
    let warned = |answer: &ApiResponse| !answer.header("warning").is_empty();
    policy
        .make(&config_map("probe", json!({"a": "bad"})), warned)
        .await?;
    let body = config_map("x", json!({"a": "bad"}));
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    answer.expect_json(201)?;
    let expected = format!(
        "299 - \"Validation failed for ValidatingAdmissionPolicy '{0}' with binding '{0}': it is \
         bad\"",
        policy.name
    );
    same("warning", expected.as_str(), answer.header("warning"))?;
    policy.delete_policies().await
}

async fn policy_expressions_see_admission_request(scope: Scope) -> Outcome {
    let namespace = &scope.namespace;
    let all = [
        "request.operation == 'CREATE'".to_owned(),
        "request.kind.kind == 'ConfigMap' && request.kind.group == ''".to_owned(),
        "request.resource.resource == 'configmaps' && request.resource.version == 'v1'".to_owned(),
        format!("request.namespace == '{namespace}' && request.name == 'seen'"),
        "request.dryRun == false && !has(request.subResource)".to_owned(),
        "request.userInfo.username != ''".to_owned(),
        "oldObject == null && object != null".to_owned(),
        format!("namespaceObject.metadata.name == '{namespace}'"),
        "namespaceObject.status.phase == 'Active'".to_owned(),
        "authorizer.group('').resource('pods').check('get').allowed()".to_owned(),
        "object.metadata.name == 'seen' && object.kind == 'ConfigMap'".to_owned(),
        "variables.twice == 'xx' && variables.size == 2".to_owned(),
        "has(object.data) && !has(object.binaryData)".to_owned(),
        "quantity('1').isLessThan(quantity('2')) && ip('10.0.0.1').family() == 4".to_owned(),
    ];
    let validations = all
        .iter()
        .map(|text| json!({"expression": format!("request.name != 'seen' || ({text})")}));
    let mut validations: Vec<Value> = validations.collect();
    validations.push(json!({"expression": "request.name != 'probe'"}));
    let policy = PolicyFixture::validating(&scope, "sees", validations.into()).with(
        "variables",
        json!([
            {"name": "twice", "expression": "object.data.a + object.data.a"},
            {"name": "size", "expression": "variables.twice.size()"},
        ]),
    );
    policy
        .make(&config_map("probe", json!({"a": "x"})), is_refused)
        .await?;
    let body = config_map("seen", json!({"a": "x"}));
    scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?
        .expect_json(201)?;
    policy.delete_policies().await
}

async fn policy_match_conditions_and_failure_policy_decide(scope: Scope) -> Outcome {
    let validations = json!([{"expression": "object.data.a == 'good'", "message": "not good"}]);
    let policy = PolicyFixture::validating(&scope, "when", validations.clone()).with(
        "matchConditions",
        json!([{"name": "marked", "expression": "has(object.metadata.labels) && \
                'check' in object.metadata.labels"}]),
    );
    let marked = |name: &str, data: Value| {
        let mut object = config_map(name, data);
        set(&mut object, "/metadata/labels", json!({"check": "yes"}));
        object
    };
    policy
        .make(&marked("probe", json!({"a": "bad"})), is_refused)
        .await?;
    let path = scope.collection_path("configmaps");
    let body = config_map("free", json!({"a": "bad"}));
    scope.client.post(&path, &body).await?.expect_json(201)?;
    let answer = scope
        .client
        .post(&path, &marked("x", json!({"a": "bad"})))
        .await?;
    answer.expect_failure(&refused(&policy.name, "x", (422, "Invalid"), "not good"))?;
    policy.delete_policies().await?;
    // An expression error is ignored under this failure policy.
    let policy = PolicyFixture::validating(&scope, "open", validations)
        .with("failurePolicy", json!("Ignore"));
    policy
        .make(&config_map("probe", json!({"a": "bad"})), is_refused)
        .await?;
    let body = config_map("silent", json!({"b": "x"}));
    scope.client.post(&path, &body).await?.expect_json(201)?;
    policy.delete_policies().await?;
    let policy = PolicyFixture::validating(&scope, "odd", json!([{"expression": "true"}])).with(
        "matchConditions",
        json!([{"name": "odd", "expression": "object.data.nope == 'x'"}]),
    );
    policy
        .make(&config_map("probe", json!({"a": "bad"})), is_refused)
        .await?;
    let answer = scope
        .client
        .post(&path, &config_map("y", json!({"a": "x"})))
        .await?;
    let text = "expression 'object.data.nope == 'x'' resulted in error: no such key: nope";
    answer.expect_failure(&refused(&policy.name, "y", (422, "Invalid"), text))?;
    policy.delete_policies().await
}

async fn policy_params_are_resolved(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    for (name, word) in [("p1", "bad"), ("p2", "worse")] {
        let mut params = scope.sample("gadgets", name);
        set(&mut params, "/spec/color", json!(word));
        set(&mut params, "/metadata/labels", json!({"params": "yes"}));
        scope.create("gadgets", &params).await?;
    }
    let validations = json!([{"expression": "object.data.a != params.spec.color",
        "messageExpression": "'not ' + params.spec.color"}]);
    let sample = scope.sample("gadgets", "x");
    let kind = json!({"apiVersion": sample["apiVersion"], "kind": sample["kind"]});
    let by = |suffix: &str, reference: Value| {
        PolicyFixture::validating(&scope, suffix, validations.clone())
            .with("paramKind", kind.clone())
            .bound("paramRef", reference)
    };
    let policy = by(
        "name",
        json!({"name": "p1", "parameterNotFoundAction": "Deny"}),
    );
    policy
        .make(&config_map("probe", json!({"a": "bad"})), |answer| {
            expect_denial(answer, "not bad")
        })
        .await?;
    let answer = scope
        .client
        .post(&path, &config_map("x", json!({"a": "bad"})))
        .await?;
    answer.expect_failure(&refused(&policy.name, "x", (422, "Invalid"), "not bad"))?;
    let answer = scope
        .client
        .post(&path, &config_map("x", json!({"a": "worse"})))
        .await?;
    answer.expect_json(201)?;
    policy.delete_policies().await?;
    let selector = json!({"selector": {"matchLabels": {"params": "yes"}},
        "parameterNotFoundAction": "Deny"});
    let policy = by("selector", selector);
    policy
        .make(&config_map("probe", json!({"a": "worse"})), |answer| {
            expect_denial(answer, "not worse")
        })
        .await?;
    for word in ["bad", "worse"] {
        let answer = scope
            .client
            .post(&path, &config_map("y", json!({"a": word})))
            .await?;
        let text = format!("not {word}");
        answer.expect_failure(&refused(&policy.name, "y", (422, "Invalid"), &text))?;
    }
    policy.delete_policies().await?;
    let policy = by(
        "none",
        json!({"name": "nope", "parameterNotFoundAction": "Deny"}),
    );
    policy
        .make(&config_map("probe", json!({"a": "x"})), is_refused)
        .await?;
    let answer = scope
        .client
        .post(&path, &config_map("z", json!({"a": "x"})))
        .await?;
    let text = "failed to configure binding: no params found for policy binding with `Deny` \
                parameterNotFoundAction";
    answer.expect_failure(&refused(&policy.name, "z", (422, "Invalid"), text))?;
    policy.delete_policies().await
}

async fn policies_see_updates_and_deletions(scope: Scope) -> Outcome {
    let validations = json!([
        {"expression": "request.operation != 'UPDATE' || object.data.a == oldObject.data.a",
            "message": "a stays"},
        {"expression": "request.operation != 'DELETE' || (object == null && \
            oldObject.data.a != 'keep')", "message": "it is kept"},
        {"expression": "request.name != 'probe'"},
    ]);
    let mut policy = PolicyFixture::validating(&scope, "all", validations);
    let rules = "/matchConstraints/resourceRules/0/operations";
    set(&mut policy.spec, rules, json!(["*"]));
    policy
        .make(&config_map("probe", json!({"a": "x"})), is_refused)
        .await?;
    let path = scope.collection_path("configmaps");
    let made = scope
        .client
        .post(&path, &config_map("c", json!({"a": "keep"})))
        .await?
        .expect_json(201)?;
    let one = scope.object_path("configmaps", "c");
    let answer = scope
        .client
        .put(&one, &with(&made, "/data/a", "other"))
        .await?;
    answer.expect_failure(&refused(&policy.name, "c", (422, "Invalid"), "a stays"))?;
    scope
        .client
        .put(&one, &with(&made, "/data/b", "new"))
        .await?
        .expect_json(200)?;
    let answer = scope.client.delete(&one).await?;
    answer.expect_failure(&refused(&policy.name, "c", (422, "Invalid"), "it is kept"))?;
    policy.delete_policies().await
}

/// The validation errors of a policy or its binding: field and message.
async fn wrong(policy: &PolicyFixture<'_>, binding: bool) -> Outcome<Vec<(String, String)>> {
    let at = usize::from(binding);
    let path = format!("{}?dryRun=All", policy.paths()[at].0);
    let answer = policy
        .scope
        .client
        .post(&path, &policy.objects()[at])
        .await?;
    let causes = answer.expect_json(422)?["details"]["causes"].clone();
    let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
    let causes = causes.as_array().into_iter().flatten();
    Ok(causes
        .map(|cause| (text(cause, "field"), text(cause, "message")))
        .collect())
}

#[expect(clippy::too_many_lines, reason = "a table")]
async fn invalid_admission_policies_are_rejected(scope: Scope) -> Outcome {
    let good = || json!([{"expression": "true"}]);
    let plain = || PolicyFixture::validating(&scope, "x", good());
    let cases: Vec<(PolicyFixture<'_>, bool, &str, &str)> = vec![
        (
            PolicyFixture::validating(&scope, "x", json!([])),
            false,
            "spec.validations",
            "Required value: validations or auditAnnotations must contain at least one item",
        ),
        (
            PolicyFixture::validating(&scope, "x", json!([{"expression": "object.x =="}])),
            false,
            "spec.validations[0].expression",
            "compilation failed: ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>'",
        ),
        (
            PolicyFixture::validating(&scope, "x", json!([{"expression": "1"}])),
            false,
            "spec.validations[0].expression",
            "Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            PolicyFixture::validating(&scope, "x", json!([{"expression": "params.x == 1"}])),
            false,
            "spec.validations[0].expression",
            "undeclared reference to 'params' (in container '')",
        ),
        (
            PolicyFixture::validating(&scope, "x", json!([{"expression": "request.nope == 1"}])),
            false,
            "spec.validations[0].expression",
            "undefined field 'nope'",
        ),
        (
            PolicyFixture::validating(
                &scope,
                "x",
                json!([{"expression": "true", "reason": "Odd"}]),
            ),
            false,
            "spec.validations[0].reason",
            "Unsupported value: \"Odd\": supported values: \"Forbidden\", \"Invalid\", \
             \"RequestEntityTooLarge\"",
        ),
        (
            PolicyFixture::validating(
                &scope,
                "x",
                json!([{"expression": "true",
                "messageExpression": "1"}]),
            ),
            false,
            "spec.validations[0].messageExpression",
            "Invalid value: \"1\": must evaluate to string but got int",
        ),
        (
            plain().with("failurePolicy", json!("Odd")),
            false,
            "spec.failurePolicy",
            "Unsupported value: \"Odd\": supported values: \"Fail\", \"Ignore\"",
        ),
        (
            plain().with("paramKind", json!({"apiVersion": "v1"})),
            false,
            "spec.paramKind.kind",
            "Required value",
        ),
        (
            plain().with("variables", json!([{"name": "1x", "expression": "1"}])),
            false,
            "spec.variables[0].name",
            "Invalid value: \"1x\": must be a valid CEL identifier",
        ),
        (
            plain().with(
                "variables",
                json!([{"name": "x", "expression": "variables.y"}]),
            ),
            false,
            "spec.variables[0].expression",
            "compilation failed: ERROR: <input>:1:",
        ),
        (
            plain().with(
                "auditAnnotations",
                json!([{"key": "k", "valueExpression": "1"}]),
            ),
            false,
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
        (
            plain().with(
                "matchConditions",
                json!([{"name": "a", "expression": "'x'"}]),
            ),
            false,
            "spec.matchConditions[0].expression",
            "Invalid value: \"'x'\": must evaluate to bool but got string",
        ),
        (
            plain().bound("validationActions", json!(["Deny", "Warn"])),
            true,
            "spec.validationActions",
            "must not contain both Deny and Warn (repeating the same validation failure \
             information in the API response and headers serves no purpose)",
        ),
        (
            plain().bound("validationActions", json!(["Odd"])),
            true,
            "spec.validationActions[0]",
            "Unsupported value: \"Odd\": supported values: \"Audit\", \"Deny\", \"Warn\"",
        ),
        (
            plain().bound("paramRef", json!({"parameterNotFoundAction": "Deny"})),
            true,
            "spec.paramRef",
            "Required value: one of name or selector must be specified",
        ),
        (
            plain().bound("paramRef", json!({"name": "x"})),
            true,
            "spec.paramRef.parameterNotFoundAction",
            "Required value",
        ),
        (
            PolicyFixture::mutating(&scope, "x", json!([])),
            false,
            "spec.mutations",
            "Required value: mutations must contain at least one item",
        ),
        (
            PolicyFixture::mutating(&scope, "x", json!([{"patchType": "JSONPatch"}])),
            false,
            "spec.mutations[0].jsonPatch",
            "Required value: must be specified when patchType is JSONPatch",
        ),
        (
            PolicyFixture::mutating(
                &scope,
                "x",
                json!([{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "1"}}]),
            ),
            false,
            "spec.mutations[0].applyConfiguration.expression",
            "must evaluate to Object but got int",
        ),
    ];
    let mut rows = RowFailures::default();
    for (policy, binding, field, text) in &cases {
        let found = wrong(policy, *binding).await?;
        let told = found
            .iter()
            .any(|(at, message)| at == field && message.contains(text));
        let outcome = if told {
            Ok(())
        } else {
            same("cause", &format!("{field}: {text}"), &format!("{found:?}"))
        };
        rows.record(text, outcome);
    }
    rows.outcome()?;
    // Omitted fields are defaulted.
    let policy = PolicyFixture::validating(&scope, "x", good());
    let path = format!("{}?dryRun=All", policy.paths()[0].0);
    let made = scope
        .client
        .post(&path, &policy.objects()[0])
        .await?
        .expect_json(201)?;
    same_json(
        "failurePolicy",
        &json!("Fail"),
        &made["spec"]["failurePolicy"],
    )?;
    let constraints = &made["spec"]["matchConstraints"];
    same_json(
        "matchPolicy",
        &json!("Equivalent"),
        &constraints["matchPolicy"],
    )?;
    same_json("objectSelector", &json!({}), &constraints["objectSelector"])?;
    same_json(
        "scope",
        &json!("*"),
        &constraints["resourceRules"][0]["scope"],
    )
}

async fn mutating_admission_policy_changes_object(scope: Scope) -> Outcome {
    let mutations = json!([
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
            "Object{metadata: Object.metadata{labels: {'applied': 'yes'}}, data: {'b': object.data.a + '!'}}"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'test', path: '/data/a', value: 'x'}, \
              JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/x'), value: 'y'}]"}},
        {"patchType": "JSONPatch", "jsonPatch": {"expression":
            "[JSONPatch{op: 'test', path: '/data/a', value: 'never'}, \
              JSONPatch{op: 'remove', path: '/data/a'}]"}},
    ]);
    let policy = PolicyFixture::mutating(&scope, "change", mutations).with(
        "matchConditions",
        json!([{"name": "a", "expression": "has(object.data) && 'a' in object.data"}]),
    );
    let changed = |answer: &ApiResponse| {
        let made = answer.expect_json(201);
        made.is_ok_and(|made| made["metadata"]["labels"]["applied"] == "yes")
    };
    policy
        .make(&config_map("probe", json!({"a": "x"})), changed)
        .await?;
    let body = config_map("c", json!({"a": "x"}));
    let made = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?
        .expect_json(201)?;
    let labels = json!({"applied": "yes", "example.com/x": "y"});
    same_json("labels", &labels, &made["metadata"]["labels"])?;
    same_json("data", &json!({"a": "x", "b": "x!"}), &made["data"])?;
    let body = config_map("d", json!({"z": "x"}));
    let made = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?
        .expect_json(201)?;
    ensure!(made["metadata"]["labels"].is_null(), "{made}");
    policy.delete_policies().await
}

async fn failing_policy_mutations_are_reported(scope: Scope) -> Outcome {
    let path = scope.collection_path("configmaps");
    for (suffix, mutation, text) in [
        (
            "key",
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{data: {'b': object.data.nope}}"}}),
            "expression 'Object{data: {'b': object.data.nope}}' resulted in error: no such key: \
             nope",
        ),
        (
            "type",
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.spec{labels: {'a': 'b'}}}"}}),
            "type mismatch: unexpected type name \"Object.spec\", expected \"Object.metadata\", \
             which matches field name path from root Object type",
        ),
        (
            "atomic",
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{ownerReferences: [\
                 Object.metadata.ownerReferences{apiVersion: 'v1', kind: 'Pod', name: 'p', \
                 uid: 'u'}]}}"}}),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, \
             maps or structs: .metadata.ownerReferences[0]",
        ),
    ] {
        let policy = PolicyFixture::mutating(&scope, suffix, json!([mutation]));
        policy
            .make(&config_map("probe", json!({"a": "x"})), is_refused)
            .await?;
        let answer = scope
            .client
            .post(&path, &config_map("x", json!({"a": "x"})))
            .await?;
        let message = format!(
            "policy '{0}' with binding '{0}' denied request: {text}",
            policy.name
        );
        answer.expect_failure(&json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": "Invalid", "code": 403,
            "details": {"name": "x", "kind": "configmaps", "causes": [{"message": message}]},
        }))?;
        policy.delete_policies().await?;
    }
    Ok(())
}
