//! Precedence of errors in requests with two errors, and parameters of a request that are ignored.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{has_names, revision, text_at, with};
use crate::samples::sample;
use crate::status;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { validation_order:
    [] create_checks_resource_version_last [],
    [] dry_run_create_ignores_resource_version [],
    [] put_that_creates_parses_resource_version [Kind("leases")],
    [] apply_that_creates_parses_resource_version [Apply, Kind("leases")],
    [] apply_with_other_name_than_path_is_rejected [Apply],
    [] apply_to_subresource_of_missing_object_gets_404_before_parsing [Apply, Kind("deployments"), Scale, Status],
    [] apply_of_unconvertible_object_gets_500 [Apply],
    [] continue_token_is_validated_before_resource_version [],
    [] list_options_are_validated_before_field_selector [],
    [] exclusive_delete_options_are_checked_before_unknown_policy [],
    [] list_by_name_with_limit_is_not_older_than_resource_version [],
    [] create_drops_deletion_timestamp [Apply],
    [] generate_name_collision_with_terminating_object_gets_409 [],
    [] metadata_is_decoded_before_other_fields [],
    [] finalizers_of_some_kinds_are_not_validated [Kind("leases"), Kind("events"), Kind("runtimeclasses")],
    [] metadata_of_some_kinds_is_validated_last [Kind("poddisruptionbudgets"), Admission],
}

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(scope: &Scope, path: &str, config: &Value) -> Outcome<ApiResponse> {
    let path = format!("{path}?fieldManager=m");
    scope.client.patch_as(APPLY, &path, config).await
}

fn message(answer: &ApiResponse) -> Outcome<String> {
    Ok(text_at(&answer.json()?, "/message")?.to_owned())
}

async fn create_checks_resource_version_last(scope: Scope) -> Outcome {
    let at = scope.collection_path("configmaps");
    let wrong = with(&sample("configmaps", "A"), "/metadata/resourceVersion", "5");
    scope.client.post(&at, &wrong).await?.has_status(422)?;
    let unnamed = json!({"metadata": {"resourceVersion": "5"}});
    scope.client.post(&at, &unnamed).await?.has_status(422)?;
    scope.make("configmaps", "a").await?;
    let again = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "5");
    let answer = scope.client.post(&at, &again).await?;
    answer.expect_failure(&status::revision_on_create())
}

async fn dry_run_create_ignores_resource_version(scope: Scope) -> Outcome {
    let dry = format!("{}?dryRun=All", scope.collection_path("configmaps"));
    let body = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "5");
    scope.client.post(&dry, &body).await?.has_status(201)?;
    scope.make("configmaps", "a").await?;
    let answer = scope.client.post(&dry, &body).await?;
    answer.expect_failure(&status::already_exists(kind("configmaps"), "a"))
}

async fn put_that_creates_parses_resource_version(scope: Scope) -> Outcome {
    let path = scope.object_path("leases", "a");
    let put = async |revision: &str| {
        let body = with(
            &sample("leases", "a"),
            "/metadata/resourceVersion",
            revision,
        );
        scope.client.put(&path, &body).await
    };
    put("x")
        .await?
        .expect_failure(&status::revision_malformed_in_body("x"))?;
    scope.is_gone("leases", "a").await?;
    put("5").await?.has_status(201)
}

async fn apply_that_creates_parses_resource_version(scope: Scope) -> Outcome {
    let path = scope.object_path("leases", "a");
    let config = |revision: &str| {
        with(
            &sample("leases", "a"),
            "/metadata/resourceVersion",
            revision,
        )
    };
    let answer = apply(&scope, &path, &config("x")).await?;
    answer.expect_failure(&status::revision_malformed_in_body("x"))?;
    apply(&scope, &path, &config("5")).await?.has_status(201)?;
    // Of an existing object, zero equals an omitted value, which is invalid for a lease.
    let answer = apply(&scope, &path, &config("0")).await?;
    answer.expect_failure(&status::revision_required(kind("leases"), "a"))
}

async fn apply_with_other_name_than_path_is_rejected(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let config =
        |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let elsewhere = "the namespace of the provided object does not match the namespace sent on \
                     the request";
    let unnamed = |name| {
        format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    };
    let mut rows = RowFailures::default();
    for (name, metadata, expected) in [
        ("a", json!({"name": ""}), unnamed("a")),
        ("new", json!({}), unnamed("new")),
        ("new", json!({"namespace": "other"}), elsewhere.to_owned()),
        (
            "a",
            json!({"name": "b", "namespace": "other"}),
            elsewhere.to_owned(),
        ),
    ] {
        let path = scope.object_path("configmaps", name);
        let answer = apply(&scope, &path, &config(metadata.clone())).await?;
        let outcome = answer.expect_failure(&status::bad_request(&expected));
        rows.record(format!("{name} {metadata}"), outcome);
    }
    let answer = apply(
        &scope,
        &scope.object_path("configmaps", "a"),
        &config(json!({})),
    )
    .await?;
    rows.record("nothing said", answer.has_status(200));
    rows.outcome()
}

async fn apply_to_subresource_of_missing_object_gets_404_before_parsing(scope: Scope) -> Outcome {
    let missing = status::not_found(kind("deployments"), "none");
    let mut rows = RowFailures::default();
    for part in ["status", "scale"] {
        for config in ["{", "[]", r#"{"kind": "Other"}"#] {
            let path = format!(
                "{}/{part}?fieldManager=m",
                scope.object_path("deployments", "none")
            );
            let request = Request::new(Method::PATCH, path).body(APPLY, config);
            let answer = scope.client.execute(request).await?;
            rows.record(format!("{part} {config}"), answer.expect_failure(&missing));
        }
    }
    rows.outcome()
}

async fn apply_of_unconvertible_object_gets_500(scope: Scope) -> Outcome {
    let config = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "!"},
    });
    let answer = apply(&scope, &scope.object_path("secrets", "a"), &config).await?;
    answer.has_status(500)?;
    let expected = "failed to convert new object (/a; /v1, Kind=Secret) to proper version: unable \
                    to convert unstructured object to /v1, Kind=Secret: error decoding from json: \
                    illegal base64 data at input byte 0";
    same("message", expected, &*message(&answer)?)
}

async fn continue_token_is_validated_before_resource_version(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let page = scope.list(&[("limit", "1")]).await?;
    let at = scope.collection_path("configmaps");
    let list = async |token: &str| {
        let path = format!(
            "{at}?continue={token}&resourceVersion={}",
            revision(&made[0])?
        );
        scope.client.get(&path).await
    };
    let token = crate::object::continue_token(&page);
    list(token)
        .await?
        .expect_failure(&status::revision_with_continue())?;
    let text = "invalid continue token: continue key is not valid: invalid character 'i' looking \
                for beginning of value";
    list("abc")
        .await?
        .expect_failure(&status::bad_request(text))
}

async fn list_options_are_validated_before_field_selector(scope: Scope) -> Outcome {
    let at = scope.collection_path("configmaps");
    let text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let cause = ("FieldValueForbidden", "resourceVersionMatch", text);
    let path = format!("{at}?resourceVersionMatch=Exact&fieldSelector=no.such%3Dx");
    let answer = scope.client.get(&path).await?;
    answer.expect_failure(&status::list_options(&[cause]))?;
    // An undecodable value is reported first.
    let path = format!("{at}?resourceVersionMatch=Exact&labelSelector=%21%21");
    scope.client.get(&path).await?.has_status(400)
}

async fn exclusive_delete_options_are_checked_before_unknown_policy(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.object_path("configmaps", "a");
    let path = format!("{path}?propagationPolicy=x&orphanDependents=true");
    let answer = scope.client.delete(&path).await?.expect_json(422)?;
    let fields = [
        text_at(&answer, "/details/causes/0/reason")?,
        text_at(&answer, "/details/causes/1/reason")?,
    ];
    same(
        "reasons",
        &["FieldValueInvalid", "FieldValueNotSupported"],
        &fields,
    )
}

/// A limit makes a revision exact, but not if only one object can match.
async fn list_by_name_with_limit_is_not_older_than_resource_version(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?
        .expect_json(200)?;
    let then = revision(&made[1])?.to_string();
    let named = [
        ("resourceVersion", then.as_str()),
        ("limit", "1"),
        ("fieldSelector", "metadata.name=a"),
    ];
    has_names(&scope.list(&named).await?, &[])?;
    let exact = [
        named[0],
        named[1],
        named[2],
        ("resourceVersionMatch", "Exact"),
    ];
    has_names(&scope.list(&exact).await?, &["a"])?;
    has_names(&scope.list(&named[..2]).await?, &["a"])
}

async fn create_drops_deletion_timestamp(scope: Scope) -> Outcome {
    let mut body = sample("configmaps", "a");
    body["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
    body["metadata"]["deletionGracePeriodSeconds"] = 5.into();
    let made = scope.create("configmaps", &body).await?;
    let metadata = &made["metadata"];
    ensure!(metadata.get("deletionTimestamp").is_none(), "dying: {made}");
    let owned = &metadata["managedFields"][0]["fieldsV1"];
    ensure!(owned["f:metadata"].is_null(), "owned: {owned}");
    Ok(())
}

async fn generate_name_collision_with_terminating_object_gets_409(scope: Scope) -> Outcome {
    super::delete::make_held(&scope, "a").await?;
    scope
        .client
        .delete(&scope.object_path("configmaps", "a"))
        .await?
        .expect_json(200)?;
    let body = with(&sample("configmaps", "a"), "/metadata/generateName", "g-");
    let answer = scope
        .client
        .post(&scope.collection_path("configmaps"), &body)
        .await?;
    answer.has_status(409)?;
    let expected = "object is being deleted: configmaps \"a\" already exists, the server was not \
                    able to generate a unique name for the object";
    same("message", expected, &*message(&answer)?)
}

async fn metadata_is_decoded_before_other_fields(scope: Scope) -> Outcome {
    let at = scope.collection_path("configmaps");
    let typed = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot \
                 unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion of type \
                 string";
    let instant = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: parsing time \"x\" \
                   as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"";
    let mut rows = RowFailures::default();
    for (metadata, expected) in [
        (r#"{"resourceVersion":5}"#, typed),
        (r#"{"resourceVersion":5,"creationTimestamp":"x"}"#, instant),
    ] {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"a":1}}}}"#
        );
        let request = Request::new(Method::POST, &at).body("application/json", body);
        let answer = scope.client.execute(request).await?;
        rows.record(
            metadata,
            answer.expect_failure(&status::bad_request(expected)),
        );
    }
    rows.outcome()
}

async fn finalizers_of_some_kinds_are_not_validated(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (plural, code) in [
        ("leases", 201),
        ("events", 201),
        ("runtimeclasses", 201),
        ("configmaps", 422),
        ("serviceaccounts", 422),
    ] {
        let name = scope.unique_name("f");
        let body = with(
            &scope.sample(plural, &name),
            "/metadata/finalizers",
            json!(["plain"]),
        );
        let path = format!("{}?dryRun=All", scope.collection_path(plural));
        let answer = scope.client.post(&path, &body).await?;
        rows.record(plural, answer.has_status(code));
    }
    rows.outcome()
}

async fn metadata_of_some_kinds_is_validated_last(scope: Scope) -> Outcome {
    let at = scope.collection_path("poddisruptionbudgets");
    let body = with(
        &sample("poddisruptionbudgets", "a"),
        "/metadata/labels",
        json!({"l": "no good"}),
    );
    let fields = async |body: &Value| {
        let answer = scope.client.post(&at, body).await?.expect_json(422)?;
        let causes = answer["details"]["causes"].as_array().cloned();
        let fields = causes
            .into_iter()
            .flatten()
            .map(|cause| cause["field"].clone());
        Ok::<Value, crate::Failure>(fields.collect())
    };
    same_json(
        "metadata",
        &json!(["metadata.labels"]),
        &fields(&body).await?,
    )?;
    let both = with(&body, "/spec/minAvailable", -1);
    same_json("both", &json!(["spec.minAvailable"]), &fields(&both).await?)
}
