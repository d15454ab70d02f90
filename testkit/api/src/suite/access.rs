//! Who may do what: roles, impersonation, reviews (extension and policy §5).

use super::tokens::token;
use crate::check::checks;
use crate::failure::{Rows, ensure, same_json};
use crate::{Answer, Outcome, Request, Scope, status};
use http::Method;
use serde_json::{Value, json};

checks! { access of Extension:
    [95] strangers_see_little [Authorization],
    [] a_refusal_says_who_what_and_where [Authorization],
    [104] somebody_else_has_a_name [Authorization],
    [] acting_as_somebody_else_is_a_right [Authorization],
    [] service_accounts_have_groups [Authorization],
    [99, 100] names_in_rules [Authorization],
    [] subresources_are_resources_of_their_own [Authorization],
    [101] what_one_does_not_have_cannot_be_given [Authorization],
    [] a_role_is_bound_by_those_who_have_it [Authorization],
    [102] a_binding_keeps_its_role [Authorization],
    [] roles_are_checked [Authorization],
    [] a_missing_role_is_named [Authorization],
    [105] masters_need_no_role [Authorization],
    [103] access_is_reviewed [Authorization],
    [] reviews_are_checked [Authorization],
    [] rules_are_listed [Authorization],
    [] one_learns_who_one_is [Authorization],
    [] an_update_that_creates_needs_both_rights [Authorization],
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

fn by(request: Request, user: &str) -> Request {
    request.header("impersonate-user", user)
}

async fn get_by(scope: &Scope, path: &str, user: &str) -> Outcome<Answer> {
    scope.client.ask(by(Request::get(path), user)).await
}

async fn post_by(scope: &Scope, path: &str, body: &Value, user: &str) -> Outcome<Answer> {
    let request = Request::new(Method::POST, path).json(body);
    scope.client.ask(by(request, user)).await
}

fn forbidden(message: &str, details: Value) -> Value {
    status::failure(403, "Forbidden", message, Some(details))
}

/// A role in the namespace of the check, and a user who has it.
async fn grant(scope: &Scope, name: &str, rules: Value) -> Outcome<String> {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": name}, "rules": rules,
    });
    scope.create("roles", &role).await?;
    let user = scope.unique(name);
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

/// A role takes a moment to be known: waits until a user may do something.
async fn until_may(scope: &Scope, path: &str, user: &str) -> Outcome {
    scope
        .until("the role", || async {
            let answer = get_by(scope, path, user).await?;
            Ok((answer.status != 403).then_some(()))
        })
        .await
}

async fn strangers_see_little(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let user = scope.unique("kim");
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
        rows.row(path, nobody.has_status(anonymous));
        let somebody = get_by(&scope, path, &user).await?;
        rows.row(path, somebody.has_status(known));
    }
    rows.outcome()
}

async fn a_refusal_says_who_what_and_where(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let (user, ns) = (scope.unique("bob"), &scope.namespace);
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
            scope.of("configmaps", "x"),
            said(
                "configmaps \"x\"",
                &format!("get resource \"configmaps\" in API group \"\" in the namespace \"{ns}\""),
            ),
            json!({"name": "x", "kind": "configmaps"}),
        ),
        (
            Method::DELETE,
            scope.at("configmaps"),
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
            scope.of("configmaps", "x"),
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
            scope.at("configmaps"),
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
            format!("{}/scale", scope.of("deployments", "x")),
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
        let request = by(Request::new(method.clone(), path.as_str()), &user);
        let answer = scope.client.ask(request).await?;
        rows.row(
            format!("{method} {path}"),
            answer.fails_with(&forbidden(&message, details)),
        );
    }
    rows.outcome()
}

async fn somebody_else_has_a_name(scope: Scope) -> Outcome {
    let request = Request::get("/api/v1/namespaces").header("impersonate-group", "joe");
    let answer = scope.client.ask(request).await?;
    let message = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"joe\"}, \
                   Extra:map[string][]string(nil)} without impersonating a user name";
    answer.fails_with(&status::failure(400, "BadRequest", message, None))
}

async fn acting_as_somebody_else_is_a_right(scope: Scope) -> Outcome {
    let ns = &scope.namespace;
    let token = token(&scope, "robot").await?;
    let as_robot = |path: &str, other: &str| {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        by(request, other)
    };
    let robot = format!("system:serviceaccount:{ns}:robot");
    let path = scope.at("configmaps");
    let answer = scope.client.ask(as_robot(&path, "ann")).await?;
    let message = format!(
        "configmaps is forbidden: User \"{robot}\" cannot impersonate-on:user-info:list resource \
         \"configmaps\" in API group \"\" in the namespace \"{ns}\""
    );
    answer.fails_with(&forbidden(&message, json!({"kind": "configmaps"})))?;
    // With the right to act as ann, it is ann who may not.
    let (role, ann) = (scope.unique("acts"), scope.unique("ann"));
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
        .until("the role", || async {
            let answer = scope.client.ask(as_robot(&path, &ann)).await?;
            Ok(answer.fails_with(&expected).ok())
        })
        .await;
    let others = scope
        .client
        .ask(as_robot(&path, &ann).header("impersonate-group", "system:masters"))
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
        .is(201)?;
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
        .is(201)?;
    Ok(())
}

async fn remove_cluster_role(scope: &Scope, name: &str) -> Outcome {
    for plural in ["clusterrolebindings", "clusterroles"] {
        scope
            .client
            .delete(&format!("{RBAC}/{plural}/{name}"))
            .await?
            .is(200)?;
    }
    Ok(())
}

async fn service_accounts_have_groups(scope: Scope) -> Outcome {
    let name = format!("system:serviceaccount:{}:robot", scope.namespace);
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let found = post_by(&scope, path, &review, &name).await?.is(201)?;
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{}", scope.namespace),
        "system:authenticated",
    ]);
    same_json("groups", &groups, &found["status"]["userInfo"]["groups"])
}

async fn names_in_rules(scope: Scope) -> Outcome {
    scope.make("configmaps", "x").await?;
    let rules = json!([{
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"],
        "verbs": ["get", "list", "watch", "create", "deletecollection"],
    }]);
    let user = grant(&scope, "named", rules).await?;
    let at = scope.at("configmaps");
    until_may(&scope, &scope.of("configmaps", "x"), &user).await?;
    let mut rows = Rows::default();
    for (path, code) in [
        (scope.of("configmaps", "x"), 200),
        (scope.of("configmaps", "y"), 403),
        (at.clone(), 403),
        (format!("{at}?fieldSelector=metadata.name%3Dx"), 200),
        (format!("{at}?fieldSelector=metadata.name%3Dy"), 403),
        (format!("{at}?fieldSelector=metadata.name!%3Dx"), 403),
    ] {
        rows.row(&path, get_by(&scope, &path, &user).await?.has_status(code));
    }
    let made = post_by(&scope, &at, &scope.sample("configmaps", "x"), &user).await?;
    rows.row("create", made.has_status(403));
    let all = by(
        Request::new(
            Method::DELETE,
            format!("{at}?fieldSelector=metadata.name%3Dx"),
        ),
        &user,
    );
    rows.row(
        "deletecollection",
        scope.client.ask(all).await?.has_status(403),
    );
    rows.outcome()
}

async fn subresources_are_resources_of_their_own(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
        {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["*"]},
    ]);
    let user = grant(&scope, "parts", rules).await?;
    until_may(&scope, &scope.of("deployments", "x"), &user).await?;
    let mut rows = Rows::default();
    for (path, code) in [
        (scope.of("deployments", "x"), 404),
        (format!("{}/scale", scope.of("deployments", "x")), 404),
        (format!("{}/scale", scope.of("statefulsets", "x")), 404),
        (format!("{}/status", scope.of("deployments", "x")), 403),
        (scope.of("statefulsets", "x"), 403),
        (scope.of("pods", "x"), 403),
    ] {
        rows.row(&path, get_by(&scope, &path, &user).await?.has_status(code));
    }
    rows.outcome()
}

async fn what_one_does_not_have_cannot_be_given(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["create", "update", "get"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]);
    let user = grant(&scope, "editor", rules).await?;
    until_may(&scope, &scope.of("roles", "none"), &user).await?;
    let role = |name: &str, resource: &str, verbs: Value| {
        json!({
            "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}],
        })
    };
    let at = scope.at("roles");
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
    refused.fails_with(&forbidden(&message, details))?;
    let own = post_by(&scope, &at, &role("own", "pods", json!(["get"])), &user).await?;
    own.has_status(201)?;
    // Nor by changing what is there.
    let put = Request::new(Method::PUT, scope.of("roles", "own")).json(&role(
        "own",
        "pods",
        json!(["get", "list"]),
    ));
    scope.client.ask(by(put, &user)).await?.has_status(403)?;
    // Finalizers are for collectors, who need not have what the role allows.
    let big = scope
        .create("roles", &role("big", "secrets", json!(["*"])))
        .await?;
    let mut held = big.clone();
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    let put = Request::new(Method::PUT, scope.of("roles", "big")).json(&held);
    let answer = scope.client.ask(by(put, &user)).await?;
    answer.has_status(200)?;
    let mut free = answer.is(200)?;
    free["metadata"]["finalizers"] = json!([]);
    scope.replace("roles", &free).await.map(drop)
}

async fn a_role_is_bound_by_those_who_have_it(scope: Scope) -> Outcome {
    let rules = json!([
        {"apiGroups": [GROUP], "resources": ["rolebindings"], "verbs": ["create", "get"]},
        {"apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["may"], "verbs": ["bind"]},
    ]);
    let user = grant(&scope, "binder", rules).await?;
    until_may(&scope, &scope.of("rolebindings", "none"), &user).await?;
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
    let at = scope.at("rolebindings");
    let refused = scope
        .until("the roles", || async {
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
    refused.fails_with(&forbidden(&message, details))?;
    let missing = post_by(&scope, &at, &binding("c", "missing"), &user).await?;
    let message = "rolebindings.rbac.authorization.k8s.io \"missing\" not found";
    let details = json!({"name": "missing", "group": GROUP, "kind": "rolebindings"});
    missing.fails_with(&status::failure(404, "NotFound", message, Some(details)))?;
    post_by(&scope, &at, &binding("d", "may"), &user)
        .await?
        .has_status(201)
}

async fn a_binding_keeps_its_role(scope: Scope) -> Outcome {
    bind(&scope, "b", "ClusterRole", "view", "kim").await?;
    let mut binding = scope.get("rolebindings", "b").await?;
    let subject = json!([{"kind": "User", "apiGroup": GROUP, "name": "kim"}]);
    same_json("subjects", &subject, &binding["subjects"])?;
    binding["roleRef"]["name"] = json!("edit");
    let answer = scope
        .client
        .put(&scope.of("rolebindings", "b"), &binding)
        .await?;
    let text = "Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\",\
                \"Name\":\"edit\"}: cannot change roleRef";
    answer.fails_with(&status::invalid(
        "RoleBinding",
        GROUP,
        "b",
        &[("FieldValueInvalid", "roleRef", text)],
    ))
}

async fn roles_are_checked(scope: Scope) -> Outcome {
    let role = json!({
        "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"},
        "rules": [
            {"verbs": [], "nonResourceURLs": ["/a", "/b"], "resources": ["x"]}, {"verbs": ["get"]},
        ],
    });
    let answer = scope.client.post(&scope.at("roles"), &role).await?;
    answer.fails_with(&status::invalid("Role", GROUP, "r", &[
        ("FieldValueRequired", "rules[0].verbs", "Required value: verbs must contain at least one value"),
        ("FieldValueInvalid", "rules[0].nonResourceURLs", "Invalid value: [\"/a\",\"/b\"]: namespaced rules cannot apply to non-resource URLs"),
        ("FieldValueInvalid", "rules[0].nonResourceURLs", "Invalid value: [\"/a\",\"/b\"]: rules cannot apply to both regular resources and non-resource URLs"),
        ("FieldValueRequired", "rules[1].apiGroups", "Required value: resource rules must supply at least one api group"),
        ("FieldValueRequired", "rules[1].resources", "Required value: resource rules must supply at least one resource"),
    ]))?;
    let binding = json!({
        "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": scope.unique("b")},
        "roleRef": {"kind": "Role", "name": "a/b", "apiGroup": "x"},
        "subjects": [{"kind": "ServiceAccount", "name": "x"}, {"kind": "Foo"}],
    });
    let answer = scope
        .client
        .post(&format!("{RBAC}/clusterrolebindings"), &binding)
        .await?;
    answer.fails_with(&status::invalid("ClusterRoleBinding", GROUP, &scope.unique("b"), &[
        ("FieldValueNotSupported", "roleRef.apiGroup", "Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\""),
        ("FieldValueNotSupported", "roleRef.kind", "Unsupported value: \"Role\": supported values: \"ClusterRole\""),
        ("FieldValueInvalid", "roleRef.name", "Invalid value: \"a/b\": may not contain '/'"),
        ("FieldValueRequired", "subjects[0].namespace", "Required value"),
        ("FieldValueRequired", "subjects[1].name", "Required value"),
        ("FieldValueNotSupported", "subjects[1].kind", "Unsupported value: \"Foo\": supported values: \"ServiceAccount\", \"User\", \"Group\""),
    ]))
}

async fn a_missing_role_is_named(scope: Scope) -> Outcome {
    let user = scope.unique("bob");
    bind(&scope, "b", "Role", "missing", &user).await?;
    let message = format!(
        "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \
         \"\" in the namespace \"{}\": RBAC: role.rbac.authorization.k8s.io \"missing\" not found",
        scope.namespace
    );
    let expected = forbidden(&message, json!({"kind": "configmaps"}));
    scope
        .until("the binding", || async {
            let answer = get_by(&scope, &scope.at("configmaps"), &user).await?;
            Ok(answer.fails_with(&expected).ok())
        })
        .await
}

async fn masters_need_no_role(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    let user = scope.unique("anybody");
    for (path, alone, master) in [
        (scope.at("configmaps"), 403, 200),
        ("/api/v1/secrets".to_owned(), 403, 200),
        (scope.of("secrets", "none"), 403, 404),
        ("/metrics".to_owned(), 403, 200),
        ("/apis/example.com/v1/nothing".to_owned(), 403, 404),
        ("/nothing".to_owned(), 403, 404),
    ] {
        let answer = get_by(&scope, &path, &user).await?;
        rows.row(&path, answer.has_status(alone));
        let request = by(Request::get(path.as_str()), &user);
        let request = request.header("impersonate-group", "system:masters");
        let answer = scope.client.ask(request).await?;
        rows.row(&path, answer.has_status(master));
    }
    rows.outcome()
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

async fn review(scope: &Scope, plural: &str, spec: Value) -> Outcome<Answer> {
    let body = json!({"spec": spec});
    scope
        .client
        .post(&format!("{REVIEWS}/{plural}"), &body)
        .await
}

async fn access_is_reviewed(scope: Scope) -> Outcome {
    let ns = &scope.namespace;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]);
    let user = grant(&scope, "reader", rules).await?;
    until_may(&scope, &scope.of("configmaps", "x"), &user).await?;
    let about =
        |verb: &str| json!({"verb": verb, "resource": "configmaps", "namespace": ns, "name": "x"});
    let spec = |verb: &str| json!({"user": user, "resourceAttributes": about(verb)});
    let found = review(&scope, "subjectaccessreviews", spec("get"))
        .await?
        .is(201)?;
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
        .is(201)?;
    same_json("refused", &json!({"allowed": false}), &found["status"])?;
    let path = format!("{REVIEWS}/namespaces/{ns}/localsubjectaccessreviews");
    let found = scope
        .client
        .post(&path, &json!({"spec": spec("get")}))
        .await?
        .is(201)?;
    same_json(
        "local",
        &json!({"allowed": true, "reason": reason}),
        &found["status"],
    )?;
    let own = json!({"spec": {"resourceAttributes": about("get")}});
    let path = format!("{REVIEWS}/selfsubjectaccessreviews");
    let found = post_by(&scope, &path, &own, &user).await?.is(201)?;
    same_json(
        "own",
        &json!({"allowed": true, "reason": reason}),
        &found["status"],
    )?;
    let path = json!({"user": user, "nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    let found = review(&scope, "subjectaccessreviews", path)
        .await?
        .is(201)?;
    same_json("path", &json!({"allowed": false}), &found["status"])
}

async fn reviews_are_checked(scope: Scope) -> Outcome {
    let refused = |causes: &[status::Cause<'_>]| {
        let mut expected = status::invalid("", "authorization.k8s.io", "", causes);
        if let Some(details) = expected["details"].as_object_mut() {
            details.retain(|_, value| value != "");
        }
        expected
    };
    let answer = review(&scope, "selfsubjectaccessreviews", json!({})).await?;
    let text = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
    answer.fails_with(&refused(&[(
        "FieldValueInvalid",
        "spec.resourceAttributes",
        text,
    )]))?;
    let both = json!({
        "resourceAttributes": {"verb": "get", "resource": "pods"}, "nonResourceAttributes": {"path": "/"},
    });
    let answer = review(&scope, "subjectaccessreviews", both).await?;
    answer.fails_with(&refused(&[
        ("FieldValueInvalid", "spec.nonResourceAttributes", "Invalid value: {\"Path\":\"/\",\"Verb\":\"\"}: cannot be specified in combination with resourceAttributes"),
        ("FieldValueInvalid", "spec.user", "Invalid value: \"\": at least one of user or group must be specified"),
    ]))?;
    let path = format!(
        "{REVIEWS}/namespaces/{}/localsubjectaccessreviews",
        scope.namespace
    );
    let elsewhere = json!({"spec": {"user": "kim", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "other"}}});
    let answer = scope.client.post(&path, &elsewhere).await?;
    answer.fails_with(&refused(&[(
        "FieldValueInvalid",
        "spec.resourceAttributes.namespace",
        "Invalid value: \"other\": must match metadata.namespace",
    )]))?;
    let answer = review(&scope, "selfsubjectrulesreviews", json!({})).await?;
    answer.fails_with(&status::failure(
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

async fn rules_are_listed(scope: Scope) -> Outcome {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"], "verbs": ["get"]}]);
    let user = grant(&scope, "lister", rules).await?;
    until_may(&scope, &scope.of("configmaps", "x"), &user).await?;
    let path = format!("{REVIEWS}/selfsubjectrulesreviews");
    let body = json!({"spec": {"namespace": scope.namespace}});
    let found = post_by(&scope, &path, &body, &user).await?.is(201)?;
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

async fn one_learns_who_one_is(scope: Scope) -> Outcome {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = Request::new(Method::POST, path)
        .json(&review)
        .header("impersonate-user", "joe")
        .header("impersonate-group", "g")
        .header("impersonate-uid", "7")
        .header("impersonate-extra-foo.bar%2fx", "1");
    let found = scope.client.ask(request).await?.is(201)?;
    let user = json!({
        "username": "joe", "uid": "7", "groups": ["g", "system:authenticated"],
        "extra": {"foo.bar/x": ["1"]},
    });
    same_json("user", &user, &found["status"]["userInfo"])
}

async fn an_update_that_creates_needs_both_rights(scope: Scope) -> Outcome {
    let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}]);
    let user = grant(&scope, "updater", rules).await?;
    let path = scope.of("leases", "a");
    until_may(&scope, &path, &user).await?;
    let lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "a"}, "spec": {},
    });
    let put = by(Request::new(Method::PUT, path).json(&lease), &user);
    let message = format!(
        "leases.coordination.k8s.io \"a\" is forbidden: User \"{user}\" cannot create resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"{}\"",
        scope.namespace
    );
    let details = json!({"name": "a", "group": "coordination.k8s.io", "kind": "leases"});
    scope
        .client
        .ask(put)
        .await?
        .fails_with(&forbidden(&message, details))
}
