//! Authorization: RBAC roles, impersonation, access reviews (EXT §5).

use super::service_account_tokens::token;
use crate::check::checks;
use crate::failure::{RowFailures, ensure, same_json};
use crate::{ApiResponse, Outcome, Request, Scope, status};
use http::Method;
use serde_json::{Value, json};

checks! { rbac_and_impersonation:
    ["EXT-95", "WIRE-83"] anonymous_user_reads_only_health_and_version [Authorization],
    ["WIRE-62"] forbidden_message_names_user_verb_resource_and_scope [Authorization],
    ["EXT-104"] impersonating_a_group_requires_a_user_name [Authorization],
    [] impersonation_requires_the_impersonate_verb [Authorization],
    [] impersonated_service_account_gets_its_groups [Authorization],
    ["EXT-99", "EXT-100"] resource_names_limit_rbac_rules [Authorization],
    [] rbac_rule_for_resource_does_not_cover_subresources [Authorization],
    ["EXT-101"] creating_role_beyond_own_permissions_is_forbidden [Authorization],
    [] binding_role_requires_its_permissions_or_bind_verb [Authorization],
    ["EXT-102"] role_ref_of_a_binding_is_immutable [Authorization],
    [] invalid_roles_and_bindings_are_rejected [Authorization],
    [] binding_to_a_missing_role_names_it_in_the_error [Authorization],
    ["EXT-105"] system_masters_is_authorized_without_roles [Authorization],
    ["EXT-103"] access_reviews_return_the_authorizer_decision [Authorization],
    [] invalid_access_reviews_are_rejected [Authorization],
    [] self_subject_rules_review_lists_rules [Authorization],
    [] self_subject_review_returns_user_info [Authorization],
    [] put_that_creates_requires_create_and_update [Authorization],
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

fn request_as(request: Request, user: &str) -> Request {
    request.header("impersonate-user", user)
}

async fn get_by(scope: &Scope, path: &str, user: &str) -> Outcome<ApiResponse> {
    scope
        .client
        .execute(request_as(Request::get(path), user))
        .await
}

async fn post_by(scope: &Scope, path: &str, body: &Value, user: &str) -> Outcome<ApiResponse> {
    let request = Request::new(Method::POST, path).json(body);
    scope.client.execute(request_as(request, user)).await
}

fn forbidden(message: &str, details: Value) -> Value {
    status::failure(403, "Forbidden", message, Some(details))
}

/// A role in the namespace of the check, and a user bound to it.
async fn grant(scope: &Scope, name: &str, rules: Value) -> Outcome<String> {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name}, "rules": rules,
    });
    scope.create("roles", &role).await?;
    let user = scope.unique_name(name);
    bind(scope, name, "Role", name, &user).await?;
    Ok(user)
}

async fn bind(scope: &Scope, name: &str, kind: &str, role: &str, user: &str) -> Outcome {
    let binding = json!({
        "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user}],
    });
    scope.create("rolebindings", &binding).await.map(drop)
}

/// A role takes a moment to take effect: waits until a user may send a request.
async fn wait_until_allowed(scope: &Scope, path: &str, user: &str) -> Outcome {
    scope
        .wait_until("the role", || async {
            let answer = get_by(scope, path, user).await?;
            Ok((answer.status != 403).then_some(()))
        })
        .await
}

async fn anonymous_user_reads_only_health_and_version(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let user = scope.unique_name("kim");
    for (path, anonymous, known) in [
        ("/healthz", 200, 200),
        ("/livez", 200, 200),
        ("/readyz", 200, 200),
        ("/version", 200, 200),
        ("/metrics", 403, 403),
        ("/", 403, 403),
        ("/api", 403, 200),
        ("/apis", 403, 200),
        ("/api/v1", 403, 200),
        ("/openapi/v2", 403, 200),
        ("/openapi/v3", 403, 200),
        ("/openid/v1/jwks", 403, 403),
        ("/nothing", 403, 403),
        ("/api/v1/pods", 403, 403),
        ("/apis/example.com/v1/nothing", 403, 403),
    ] {
        let nobody = get_by(&scope, path, "system:anonymous").await?;
        rows.record(path, nobody.has_status(anonymous));
        let somebody = get_by(&scope, path, &user).await?;
        rows.record(path, somebody.has_status(known));
    }
    rows.outcome()
}

async fn forbidden_message_names_user_verb_resource_and_scope(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let (user, ns) = (scope.unique_name("bob"), &scope.namespace);
    let said =
        |what: &str, text: &str| format!("{what} is forbidden: User \"{user}\" cannot {text}");
    for (method, path, message, details) in [
        (
            Method::GET,
            "/api/v1/pods".to_owned(),
            said(
                "pods",
                "list resource \"pods\" in API group \"\" at the cluster scope",
            ),
            json!({"kind": "pods"}),
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=1".to_owned(),
            said(
                "pods",
                "watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            json!({"kind": "pods"}),
        ),
        (
            Method::GET,
            "/api/v1/watch/pods".to_owned(),
            said(
                "pods",
                "watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            json!({"kind": "pods"}),
        ),
        (
            Method::GET,
            scope.object_path("configmaps", "x"),
            said(
                "configmaps \"x\"",
                &format!("get resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""),
            ),
            json!({"name": "x", "kind": "configmaps"}),
        ),
        (
            Method::DELETE,
            scope.collection_path("configmaps"),
            said(
                "configmaps",
                &format!(
                    "deletecollection resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""
                ),
            ),
            json!({"kind": "configmaps"}),
        ),
        (
            Method::DELETE,
            scope.object_path("configmaps", "x"),
            said(
                "configmaps \"x\"",
                &format!(
                    "delete resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""
                ),
            ),
            json!({"name": "x", "kind": "configmaps"}),
        ),
        (
            Method::POST,
            scope.collection_path("configmaps"),
            said(
                "configmaps",
                &format!(
                    "create resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""
                ),
            ),
            json!({"kind": "configmaps"}),
        ),
        (
            Method::PUT,
            format!("{}/scale", scope.object_path("deployments", "x")),
            said(
                "deployments.apps \"x\"",
                &format!(
                    "update resource \"deployments/scale\" in API group \"apps\" in the namespace \"{ns}\""
                ),
            ),
            json!({"name": "x", "group": "apps", "kind": "deployments"}),
        ),
        (
            Method::PATCH,
            format!("/api/v1/namespaces/{ns}/status"),
            said(
                &format!("namespaces \"{ns}\""),
                &format!(
                    "patch resource \"namespaces/status\" in API group \"\" in the namespace \"{ns}\""
                ),
            ),
            json!({"name": ns, "kind": "namespaces"}),
        ),
        (
            Method::GET,
            "/apis/example.com/v1/nothing".to_owned(),
            said(
                "nothing.example.com",
                "list resource \"nothing\" in API group \"example.com\" at the cluster scope",
            ),
            json!({"group": "example.com", "kind": "nothing"}),
        ),
        (
            Method::GET,
            "/foo".to_owned(),
            format!("forbidden: User \"{user}\" cannot get path \"/foo\""),
            json!({}),
        ),
        (
            Method::POST,
            "/version".to_owned(),
            format!("forbidden: User \"{user}\" cannot post path \"/version\""),
            json!({}),
        ),
    ] {
        let request = request_as(Request::new(method.clone(), path.as_str()), &user);
        let answer = scope.client.execute(request).await?;
        rows.record(
            format!("{method} {path}"),
            answer.expect_failure(&forbidden(&message, details)),
        );
    }
    rows.outcome()
}

async fn impersonating_a_group_requires_a_user_name(scope: Scope) -> Outcome {
    let request = Request::get("/api/v1/namespaces").header("impersonate-group", "joe");
    let answer = scope.client.execute(request).await?;
    let message = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"joe\"}, \
                   Extra:map[string][]string(nil)} without impersonating a user name";
    answer.expect_failure(&status::failure(400, "BadRequest", message, None))
}

async fn impersonation_requires_the_impersonate_verb(scope: Scope) -> Outcome {
    let ns = &scope.namespace;
    let token = token(&scope, "robot").await?;
    let as_robot = |path: &str, other: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        request_as(request, other)
    };
    let robot = format!("system:serviceaccount:{ns}:robot");
    let path = scope.collection_path("configmaps");
    let answer = scope.client.execute(as_robot(&path, "ann")).await?;
    let message = format!(
        "configmaps is forbidden: User \"{robot}\" cannot impersonate-on:user-info:list resource \
         \"configmaps\" in API group \"\" in the namespace \"{ns}\""
    );
    answer.expect_failure(&forbidden(&message, json!({"kind": "configmaps"})))?;
    // The request is authorized as the impersonated user ann, who lacks the permission.
    let (role, ann) = (scope.unique_name("acts"), scope.unique_name("ann"));
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": [ann], "verbs": ["impersonate"]}]);
    cluster_role(
        &scope,
        &role,
        rules,
        json!({"kind": "ServiceAccount", "name": "robot", "namespace": ns}),
    )
    .await?;
    let message = format!(
        "configmaps is forbidden: User \"{ann}\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"{ns}\""
    );
    let expected = forbidden(&message, json!({"kind": "configmaps"}));
    let done = scope
        .wait_until("the role", || async {
            let answer = scope.client.execute(as_robot(&path, &ann)).await?;
            Ok(answer.expect_failure(&expected).ok())
        })
        .await;
    let others = scope
        .client
        .execute(as_robot(&path, &ann).header("impersonate-group", "system:masters"))
        .await?;
    remove_cluster_role(&scope, &role).await?;
    done?;
    others.has_status(403)
}

async fn cluster_role(scope: &Scope, name: &str, rules: Value, subject: Value) -> Outcome {
    let role = json!({
        "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name}, "rules": rules,
    });
    scope
        .client
        .post(&format!("{RBAC}/clusterroles"), &role)
        .await?
        .expect_json(201)?;
    let binding = json!({
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [subject],
    });
    scope
        .client
        .post(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await?
        .expect_json(201)?;
    Ok(())
}

async fn remove_cluster_role(scope: &Scope, name: &str) -> Outcome {
    for plural in ["clusterrolebindings", "clusterroles"] {
        scope
            .client
            .delete(&format!("{RBAC}/{plural}/{name}"))
            .await?
            .expect_json(200)?;
    }
    Ok(())
}

async fn impersonated_service_account_gets_its_groups(scope: Scope) -> Outcome {
    let name = format!("system:serviceaccount:{}:robot", scope.namespace);
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let found = post_by(&scope, path, &review, &name)
        .await?
        .expect_json(201)?;
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", scope.namespace),
        "system:authenticated",
    ]);
    same_json("groups", &groups, &found["status"]["userInfo"]["groups"])
}

async fn resource_names_limit_rbac_rules(scope: Scope) -> Outcome {
    scope.make("configmaps", "x").await?;
    let rules = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"],
        "verbs": ["get", "list", "watch", "create", "deletecollection"],
    }]);
    let user = grant(&scope, "named", rules).await?;
    let at = scope.collection_path("configmaps");
    wait_until_allowed(&scope, &scope.object_path("configmaps", "x"), &user).await?;
    let mut rows = RowFailures::default();
    for (path, code) in [
        (scope.object_path("configmaps", "x"), 200),
        (scope.object_path("configmaps", "y"), 403),
        (at.clone(), 403),
        (format!("{at}?fieldSelector=metadata.name%3Dx"), 200),
        (format!("{at}?fieldSelector=metadata.name%3Dy"), 403),
        (format!("{at}?fieldSelector=metadata.name!%3Dx"), 403),
    ] {
        rows.record(&path, get_by(&scope, &path, &user).await?.has_status(code));
    }
    let made = post_by(&scope, &at, &scope.sample("configmaps", "x"), &user).await?;
    rows.record("create", made.has_status(403));
    let all = request_as(
        Request::new(
            Method::DELETE,
            format!("{at}?fieldSelector=metadata.name%3Dx"),
        ),
        &user,
    );
    rows.record(
        "deletecollection",
        scope.client.execute(all).await?.has_status(403),
    );
    rows.outcome()
}

async fn rbac_rule_for_resource_does_not_cover_subresources(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["*"]},
    ]);
    let user = grant(&scope, "parts", rules).await?;
    wait_until_allowed(&scope, &scope.object_path("deployments", "x"), &user).await?;
    let mut rows = RowFailures::default();
    for (path, code) in [
        (scope.object_path("deployments", "x"), 404),
        (
            format!("{}/scale", scope.object_path("deployments", "x")),
            404,
        ),
        (
            format!("{}/scale", scope.object_path("statefulsets", "x")),
            404,
        ),
        (
            format!("{}/status", scope.object_path("deployments", "x")),
            403,
        ),
        (scope.object_path("statefulsets", "x"), 403),
        (scope.object_path("pods", "x"), 403),
    ] {
        rows.record(&path, get_by(&scope, &path, &user).await?.has_status(code));
    }
    rows.outcome()
}

async fn creating_role_beyond_own_permissions_is_forbidden(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["create", "update", "get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    let user = grant(&scope, "editor", rules).await?;
    wait_until_allowed(&scope, &scope.object_path("roles", "none"), &user).await?;
    let role = |name: &str, resource: &str, verbs: Value| {
        json!({
            "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}],
        })
    };
    let at = scope.collection_path("roles");
    let refused = post_by(
        &scope,
        &at,
        &role("esc", "secrets", json!(["get", "list"])),
        &user,
    )
    .await?;
    let message = format!(
        "roles.rbac.authorization.k8s.io \"esc\" is forbidden: user \"{user}\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\"]}}"
    );
    let details = json!({"name": "esc", "group": GROUP, "kind": "roles"});
    refused.expect_failure(&forbidden(&message, details))?;
    let own = post_by(&scope, &at, &role("own", "pods", json!(["get"])), &user).await?;
    own.has_status(201)?;
    // An update must not escalate either.
    let put = Request::new(Method::PUT, scope.object_path("roles", "own")).json(&role(
        "own",
        "pods",
        json!(["get", "list"]),
    ));
    scope
        .client
        .execute(request_as(put, &user))
        .await?
        .has_status(403)?;
    // The garbage collector may change finalizers without the permissions of the role.
    let big = scope
        .create("roles", &role("big", "secrets", json!(["*"])))
        .await?;
    let mut held = big.clone();
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    let put = Request::new(Method::PUT, scope.object_path("roles", "big")).json(&held);
    let answer = scope.client.execute(request_as(put, &user)).await?;
    answer.has_status(200)?;
    let mut free = answer.expect_json(200)?;
    free["metadata"]["finalizers"] = json!([]);
    scope.replace("roles", &free).await.map(drop)
}

async fn binding_role_requires_its_permissions_or_bind_verb(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create", "get"]},
        {"apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["may"], "verbs": ["bind"]},
    ]);
    let user = grant(&scope, "binder", rules).await?;
    wait_until_allowed(&scope, &scope.object_path("rolebindings", "none"), &user).await?;
    for name in ["may", "may-not"] {
        let role = json!({
            "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
        });
        scope.create("roles", &role).await?;
    }
    let binding = |name: &str, role: &str| {
        json!({
            "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        })
    };
    let at = scope.collection_path("rolebindings");
    let refused = scope
        .wait_until("the roles", || async {
            let answer = post_by(&scope, &at, &binding("b", "may-not"), &user).await?;
            Ok((answer.status != 404).then_some(answer))
        })
        .await?;
    let message = format!(
        "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"{user}\" \
         (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n{{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}"
    );
    let details = json!({"name": "b", "group": GROUP, "kind": "rolebindings"});
    refused.expect_failure(&forbidden(&message, details))?;
    let missing = post_by(&scope, &at, &binding("c", "missing"), &user).await?;
    let message = "rolebindings.rbac.authorization.k8s.io \"missing\" not found";
    let details = json!({"name": "missing", "group": GROUP, "kind": "rolebindings"});
    missing.expect_failure(&status::failure(404, "NotFound", message, Some(details)))?;
    post_by(&scope, &at, &binding("d", "may"), &user)
        .await?
        .has_status(201)
}

async fn role_ref_of_a_binding_is_immutable(scope: Scope) -> Outcome {
    bind(&scope, "b", "ClusterRole", "view", "kim").await?;
    let mut binding = scope.get("rolebindings", "b").await?;
    let subject = json!([{"kind": "User", "apiGroup": GROUP, "name": "kim"}]);
    same_json("subjects", &subject, &binding["subjects"])?;
    binding["roleRef"]["name"] = json!("edit");
    let answer = scope
        .client
        .put(&scope.object_path("rolebindings", "b"), &binding)
        .await?;
    let text = "Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\
                \"Name\":\"edit\"}: cannot change roleRef";
    answer.expect_failure(&status::invalid(
        "RoleBinding",
        GROUP,
        "b",
        &[("FieldValueInvalid", "roleRef", text)],
    ))
}

async fn invalid_roles_and_bindings_are_rejected(scope: Scope) -> Outcome {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"},
        "rules": [
            {"verbs": [], "nonResourceURLs": ["/a", "/b"], "resources": ["x"]}, {"verbs": ["get"]},
        ],
    });
    let answer = scope
        .client
        .post(&scope.collection_path("roles"), &role)
        .await?;
    answer.expect_failure(&status::invalid("Role", GROUP, "r", &[
        ("FieldValueRequired", "rules[0].verbs", "Required value: verbs must contain at least one value"),
        ("FieldValueInvalid", "rules[0].nonResourceURLs", "Invalid value: [\"/a\",\"/b\"]: namespaced rules cannot apply to non-resource URLs"),
        ("FieldValueInvalid", "rules[0].nonResourceURLs", "Invalid value: [\"/a\",\"/b\"]: rules cannot apply to both regular resources and non-resource URLs"),
        ("FieldValueRequired", "rules[1].apiGroups", "Required value: resource rules must supply at least one api group"),
        ("FieldValueRequired", "rules[1].resources", "Required value: resource rules must supply at least one resource"),
    ]))?;
    let binding = json!({
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": scope.unique_name("b")},
        "roleRef": {"kind": "Role", "name": "a/b", "apiGroup": "x"},
        "subjects": [{"kind": "ServiceAccount", "name": "x"}, {"kind": "Foo"}],
    });
    let answer = scope
        .client
        .post(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await?;
    answer.expect_failure(&status::invalid("ClusterRoleBinding", GROUP, &scope.unique_name("b"), &[
        ("FieldValueNotSupported", "roleRef.apiGroup", "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\""),
        ("FieldValueNotSupported", "roleRef.kind", "Unsupported value: \"Role\": supported values: \"ClusterRole\""),
        ("FieldValueInvalid", "roleRef.name", "Invalid value: \"a/b\": may not contain '/'"),
        ("FieldValueRequired", "subjects[0].namespace", "Required value"),
        ("FieldValueRequired", "subjects[1].name", "Required value"),
        ("FieldValueNotSupported", "subjects[1].kind", "Unsupported value: \"Foo\": supported values: \"ServiceAccount\", \"User\", \"Group\""),
    ]))
}

async fn binding_to_a_missing_role_names_it_in_the_error(scope: Scope) -> Outcome {
    let user = scope.unique_name("bob");
    bind(&scope, "b", "Role", "missing", &user).await?;
    let message = format!(
        "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"{}\": RBAC: role.rbac.authorization.k8s.io \"missing\" not found",
        scope.namespace
    );
    let expected = forbidden(&message, json!({"kind": "configmaps"}));
    scope
        .wait_until("the binding", || async {
            let answer = get_by(&scope, &scope.collection_path("configmaps"), &user).await?;
            Ok(answer.expect_failure(&expected).ok())
        })
        .await
}

async fn system_masters_is_authorized_without_roles(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    let user = scope.unique_name("anybody");
    for (path, alone, master) in [
        (scope.collection_path("configmaps"), 403, 200),
        ("/api/v1/secrets".to_owned(), 403, 200),
        (scope.object_path("secrets", "none"), 403, 404),
        ("/metrics".to_owned(), 403, 200),
        ("/apis/example.com/v1/nothing".to_owned(), 403, 404),
        ("/nothing".to_owned(), 403, 404),
    ] {
        let answer = get_by(&scope, &path, &user).await?;
        rows.record(&path, answer.has_status(alone));
        let request = request_as(Request::get(path.as_str()), &user);
        let request = request.header("impersonate-group", "system:masters");
        let answer = scope.client.execute(request).await?;
        rows.record(&path, answer.has_status(master));
    }
    rows.outcome()
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

async fn review(scope: &Scope, plural: &str, spec: Value) -> Outcome<ApiResponse> {
    let body = json!({"spec": spec});
    scope
        .client
        .post(&format!("{REVIEWS}/{plural}"), &body)
        .await
}

async fn access_reviews_return_the_authorizer_decision(scope: Scope) -> Outcome {
    let ns = &scope.namespace;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let user = grant(&scope, "reader", rules).await?;
    wait_until_allowed(&scope, &scope.object_path("configmaps", "x"), &user).await?;
    let about =
        |verb: &str| json!({"verb": verb, "resource": "configmaps", "namespace": ns, "name": "x"});
    let spec = |verb: &str| json!({"user": user, "resourceAttributes": about(verb)});
    let found = review(&scope, "subjectaccessreviews", spec("get"))
        .await?
        .expect_json(201)?;
    let reason = format!(
        "RBAC: allowed by RoleBinding \"reader/{ns}\" of Role \"reader\" to User \"{user}\""
    );
    same_json(
        "allowed",
        &json!({"allowed": true, "reason": reason}),
        &found["status"],
    )?;
    same_json("asked", &spec("get"), &found["spec"])?;
    let found = review(&scope, "subjectaccessreviews", spec("list"))
        .await?
        .expect_json(201)?;
    same_json("refused", &json!({"allowed": false}), &found["status"])?;
    let path = format!("{REVIEWS}/namespaces/{ns}/localsubjectaccessreviews");
    let found = scope
        .client
        .post(&path, &json!({"spec": spec("get")}))
        .await?
        .expect_json(201)?;
    same_json(
        "local",
        &json!({"allowed": true, "reason": reason}),
        &found["status"],
    )?;
    let own = json!({"spec": {"resourceAttributes": about("get")}});
    let path = format!("{REVIEWS}/selfsubjectaccessreviews");
    let found = post_by(&scope, &path, &own, &user)
        .await?
        .expect_json(201)?;
    same_json(
        "own",
        &json!({"allowed": true, "reason": reason}),
        &found["status"],
    )?;
    let path = json!({"user": user, "nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    let found = review(&scope, "subjectaccessreviews", path)
        .await?
        .expect_json(201)?;
    same_json("path", &json!({"allowed": false}), &found["status"])
}

async fn invalid_access_reviews_are_rejected(scope: Scope) -> Outcome {
    let refused = |causes: &[status::Cause<'_>]| {
        let mut expected = status::invalid("", "authorization.k8s.io", "", causes);
        if let Some(details) = expected["details"].as_object_mut() {
            details.retain(|_, value| value != "");
        }
        expected
    };
    let answer = review(&scope, "selfsubjectaccessreviews", json!({})).await?;
    let text = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    answer.expect_failure(&refused(&[(
        "FieldValueInvalid",
        "spec.resourceAttributes",
        text,
    )]))?;
    let both = json!({
        "resourceAttributes": {"verb": "get", "resource": "pods"}, "nonResourceAttributes": {"path": "/"},
    });
    let answer = review(&scope, "subjectaccessreviews", both).await?;
    answer.expect_failure(&refused(&[
        ("FieldValueInvalid", "spec.nonResourceAttributes", "Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes"),
        ("FieldValueInvalid", "spec.user", "Invalid value: \"\": at least one of user or group must be specified"),
    ]))?;
    let path = format!(
        "{REVIEWS}/namespaces/{}/localsubjectaccessreviews",
        scope.namespace
    );
    let elsewhere = json!({"spec": {"user": "kim", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}});
    let answer = scope.client.post(&path, &elsewhere).await?;
    answer.expect_failure(&refused(&[(
        "FieldValueInvalid",
        "spec.resourceAttributes.namespace",
        "Invalid value: \"other\": must match metadata.namespace",
    )]))?;
    let answer = review(&scope, "selfsubjectrulesreviews", json!({})).await?;
    answer.expect_failure(&status::failure(
        400,
        "BadRequest",
        "no namespace on request",
        None,
    ))?;
    let read = scope
        .client
        .get(&format!("{REVIEWS}/selfsubjectaccessreviews"))
        .await?;
    read.has_status(405)
}

async fn self_subject_rules_review_lists_rules(scope: Scope) -> Outcome {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"], "verbs": ["get"]}]);
    let user = grant(&scope, "lister", rules).await?;
    wait_until_allowed(&scope, &scope.object_path("configmaps", "x"), &user).await?;
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let body = json!({"spec": {"namespace": scope.namespace}});
    let found = post_by(&scope, &path, &body, &user)
        .await?
        .expect_json(201)?;
    let status = &found["status"];
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"]});
    let listed = status["resourceRules"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(listed.contains(&rule), "no {rule} in {status}");
    same_json("complete", &json!(false), &status["incomplete"])?;
    let paths = status["nonResourceRules"].to_string();
    ensure!(paths.contains("\"/version\""), "no /version in {paths}");
    Ok(())
}

async fn self_subject_review_returns_user_info(scope: Scope) -> Outcome {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = Request::new(Method::POST, path)
        .json(&review)
        .header("impersonate-user", "joe")
        .header("impersonate-group", "g")
        .header("impersonate-uid", "7")
        .header("impersonate-extra-foo.bar%2fx", "1");
    let found = scope.client.execute(request).await?.expect_json(201)?;
    let user = json!({
        "username": "joe", "uid": "7", "groups": ["g", "system:authenticated"],
        "extra": {"foo.bar/x": ["1"]},
    });
    same_json("user", &user, &found["status"]["userInfo"])
}

async fn put_that_creates_requires_create_and_update(scope: Scope) -> Outcome {
    let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}]);
    let user = grant(&scope, "updater", rules).await?;
    let path = scope.object_path("leases", "a");
    wait_until_allowed(&scope, &path, &user).await?;
    let lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "a"}, "spec": {},
    });
    let put = request_as(Request::new(Method::PUT, path).json(&lease), &user);
    let message = format!(
        "leases.coordination.k8s.io \"a\" is forbidden: User \"{user}\" cannot create resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"{}\"",
        scope.namespace
    );
    let details = json!({"name": "a", "group": "coordination.k8s.io", "kind": "leases"});
    scope
        .client
        .execute(put)
        .await?
        .expect_failure(&forbidden(&message, details))
}
