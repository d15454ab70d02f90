//! What is wrong in two ways is refused for one of them: in which order requests are
//! judged, and which words of a request are not heeded at all.

use crate::check::checks;
use crate::failure::{Rows, ensure, same, same_json};
use crate::kinds::kind;
use crate::object::{has_names, revision, text, with};
use crate::samples::sample;
use crate::status;
use crate::{Answer, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { order:
    [] a_revision_on_create_is_looked_at_last [],
    [] a_dry_create_does_not_look_at_the_revision [],
    [] a_put_that_creates_reads_the_revision [Kind("leases")],
    [] an_apply_that_creates_reads_the_revision [Apply, Kind("leases")],
    [] an_apply_names_the_object_of_its_path [Apply],
    [] no_part_of_nothing_is_applied [Apply, Kind("deployments"), Scale, Status],
    [] what_cannot_be_converted_is_not_applied [Apply],
    [] a_token_is_read_before_the_revision [],
    [] options_of_a_list_come_before_its_fields [],
    [] two_policies_come_before_an_unknown_one [],
    [] a_name_makes_a_page_no_older_than_asked [],
    [] nothing_new_is_about_to_end [Apply],
    [] a_generated_name_may_belong_to_the_dying [],
    [] metadata_is_read_first [],
    [] some_kinds_leave_finalizers_alone [Kind("leases"), Kind("events"), Kind("runtimeclasses")],
    [] some_kinds_look_at_metadata_last [Kind("poddisruptionbudgets"), Admission],
}

const APPLY: &str = "application/apply-patch+yaml";

async fn apply(scope: &Scope, path: &str, config: &Value) -> Outcome<Answer> {
    let path = format!("{path}?fieldManager=m");
    scope.client.patch_as(APPLY, &path, config).await
}

fn message(answer: &Answer) -> Outcome<String> {
    Ok(text(&answer.json()?, "/message")?.to_owned())
}

async fn a_revision_on_create_is_looked_at_last(scope: Scope) -> Outcome {
    let at = scope.at("configmaps");
    let wrong = with(&sample("configmaps", "A"), "/metadata/resourceVersion", "5");
    scope.client.post(&at, &wrong).await?.has_status(422)?;
    let unnamed = json!({"metadata": {"resourceVersion": "5"}});
    scope.client.post(&at, &unnamed).await?.has_status(422)?;
    scope.make("configmaps", "a").await?;
    let again = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "5");
    let answer = scope.client.post(&at, &again).await?;
    answer.fails_with(&status::revision_on_create())
}

async fn a_dry_create_does_not_look_at_the_revision(scope: Scope) -> Outcome {
    let dry = format!("{}?dryRun=All", scope.at("configmaps"));
    let body = with(&sample("configmaps", "a"), "/metadata/resourceVersion", "5");
    scope.client.post(&dry, &body).await?.has_status(201)?;
    scope.make("configmaps", "a").await?;
    let answer = scope.client.post(&dry, &body).await?;
    answer.fails_with(&status::already_exists(kind("configmaps"), "a"))
}

async fn a_put_that_creates_reads_the_revision(scope: Scope) -> Outcome {
    let path = scope.of("leases", "a");
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
        .fails_with(&status::revision_malformed_in_body("x"))?;
    scope.is_gone("leases", "a").await?;
    put("5").await?.has_status(201)
}

async fn an_apply_that_creates_reads_the_revision(scope: Scope) -> Outcome {
    let path = scope.of("leases", "a");
    let config = |revision: &str| {
        with(
            &sample("leases", "a"),
            "/metadata/resourceVersion",
            revision,
        )
    };
    let answer = apply(&scope, &path, &config("x")).await?;
    answer.fails_with(&status::revision_malformed_in_body("x"))?;
    apply(&scope, &path, &config("5")).await?.has_status(201)?;
    // Once it is there, zero is as good as nothing, which is not enough for a lease.
    let answer = apply(&scope, &path, &config("0")).await?;
    answer.fails_with(&status::revision_required(kind("leases"), "a"))
}

async fn an_apply_names_the_object_of_its_path(scope: Scope) -> Outcome {
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
    let mut rows = Rows::default();
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
        let path = scope.of("configmaps", name);
        let answer = apply(&scope, &path, &config(metadata.clone())).await?;
        let outcome = answer.fails_with(&status::bad_request(&expected));
        rows.row(format!("{name} {metadata}"), outcome);
    }
    let answer = apply(&scope, &scope.of("configmaps", "a"), &config(json!({}))).await?;
    rows.row("nothing said", answer.has_status(200));
    rows.outcome()
}

async fn no_part_of_nothing_is_applied(scope: Scope) -> Outcome {
    let missing = status::not_found(kind("deployments"), "none");
    let mut rows = Rows::default();
    for part in ["status", "scale"] {
        for config in ["{", "[]", r#"{"kind": "Other"}"#] {
            let path = format!("{}/{part}?fieldManager=m", scope.of("deployments", "none"));
            let request = Request::new(Method::PATCH, path).body(APPLY, config);
            let answer = scope.client.ask(request).await?;
            rows.row(format!("{part} {config}"), answer.fails_with(&missing));
        }
    }
    rows.outcome()
}

async fn what_cannot_be_converted_is_not_applied(scope: Scope) -> Outcome {
    let config = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "!"},
    });
    let answer = apply(&scope, &scope.of("secrets", "a"), &config).await?;
    answer.has_status(500)?;
    let expected = "failed to convert new object (/a; /v1, Kind=Secret) to proper version: unable \
                    to convert unstructured object to /v1, Kind=Secret: error decoding from json: \
                    illegal base64 data at input byte 0";
    same("message", expected, &*message(&answer)?)
}

async fn a_token_is_read_before_the_revision(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let page = scope.list(&[("limit", "1")]).await?;
    let at = scope.at("configmaps");
    let list = async |token: &str| {
        let path = format!(
            "{at}?continue={token}&resourceVersion={}",
            revision(&made[0])?
        );
        scope.client.get(&path).await
    };
    let token = crate::object::token(&page);
    list(token)
        .await?
        .fails_with(&status::revision_with_continue())?;
    let text = "invalid continue token: continue key is not valid: invalid character 'i' looking \
                for beginning of value";
    list("abc").await?.fails_with(&status::bad_request(text))
}

async fn options_of_a_list_come_before_its_fields(scope: Scope) -> Outcome {
    let at = scope.at("configmaps");
    let text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let cause = ("FieldValueForbidden", "resourceVersionMatch", text);
    let path = format!("{at}?resourceVersionMatch=Exact&fieldSelector=no.such%3Dx");
    let answer = scope.client.get(&path).await?;
    answer.fails_with(&status::list_options(&[cause]))?;
    // But what cannot be read at all comes first.
    let path = format!("{at}?resourceVersionMatch=Exact&labelSelector=%21%21");
    scope.client.get(&path).await?.has_status(400)
}

async fn two_policies_come_before_an_unknown_one(scope: Scope) -> Outcome {
    scope.make("configmaps", "a").await?;
    let path = scope.of("configmaps", "a");
    let path = format!("{path}?propagationPolicy=x&orphanDependents=true");
    let answer = scope.client.delete(&path).await?.is(422)?;
    let fields = [
        text(&answer, "/details/causes/0/reason")?,
        text(&answer, "/details/causes/1/reason")?,
    ];
    same(
        "reasons",
        &["FieldValueInvalid", "FieldValueNotSupported"],
        &fields,
    )
}

/// A limit makes a revision exact, but not if only one object can match.
async fn a_name_makes_a_page_no_older_than_asked(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    scope
        .client
        .delete(&scope.of("configmaps", "a"))
        .await?
        .is(200)?;
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

async fn nothing_new_is_about_to_end(scope: Scope) -> Outcome {
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

async fn a_generated_name_may_belong_to_the_dying(scope: Scope) -> Outcome {
    super::delete::make_held(&scope, "a").await?;
    scope
        .client
        .delete(&scope.of("configmaps", "a"))
        .await?
        .is(200)?;
    let body = with(&sample("configmaps", "a"), "/metadata/generateName", "g-");
    let answer = scope.client.post(&scope.at("configmaps"), &body).await?;
    answer.has_status(409)?;
    let expected = "object is being deleted: configmaps \"a\" already exists, the server was not \
                    able to generate a unique name for the object";
    same("message", expected, &*message(&answer)?)
}

async fn metadata_is_read_first(scope: Scope) -> Outcome {
    let at = scope.at("configmaps");
    let typed = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot \
                 unmarshal number into Go struct field ObjectMeta.metadata.resourceVersion of type \
                 string";
    let instant = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: parsing time \"x\" \
                   as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"";
    let mut rows = Rows::default();
    for (metadata, expected) in [
        (r#"{"resourceVersion":5}"#, typed),
        (r#"{"resourceVersion":5,"creationTimestamp":"x"}"#, instant),
    ] {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{{"a":1}}}}"#
        );
        let request = Request::new(Method::POST, &at).body("application/json", body);
        let answer = scope.client.ask(request).await?;
        rows.row(metadata, answer.fails_with(&status::bad_request(expected)));
    }
    rows.outcome()
}

async fn some_kinds_leave_finalizers_alone(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (plural, code) in [
        ("leases", 201),
        ("events", 201),
        ("runtimeclasses", 201),
        ("configmaps", 422),
        ("serviceaccounts", 422),
    ] {
        let name = scope.unique("f");
        let body = with(
            &scope.sample(plural, &name),
            "/metadata/finalizers",
            json!(["plain"]),
        );
        let path = format!("{}?dryRun=All", scope.at(plural));
        let answer = scope.client.post(&path, &body).await?;
        rows.row(plural, answer.has_status(code));
    }
    rows.outcome()
}

async fn some_kinds_look_at_metadata_last(scope: Scope) -> Outcome {
    let at = scope.at("poddisruptionbudgets");
    let body = with(
        &sample("poddisruptionbudgets", "a"),
        "/metadata/labels",
        json!({"l": "no good"}),
    );
    let fields = async |body: &Value| {
        let answer = scope.client.post(&at, body).await?.is(422)?;
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
