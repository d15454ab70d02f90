//! The built-in admission plugins and admission policies for subresources.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same_json};
use crate::{ApiResponse, Failure, Outcome, Scope};
use serde_json::{Value, json};

checks! { admission_plugins:
    [] admission_policies_match_subresources_by_name [Policies, Patch],
    [] admission_policies_see_pod_evictions [Policies],
    [] eviction_by_pdb_reports_disruption_allowed_condition [Admission],
    [] pod_resize_is_checked_by_limit_ranger_and_quota [Admission, Patch],
    [] pvc_expansion_requires_allow_volume_expansion [Admission, Patch],
    [] service_account_plugin_enforces_mountable_secrets [Admission],
    [] mirror_pods_reference_no_service_account_or_secret [Admission],
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MERGE: &str = "application/merge-patch+json";

/// A policy that rejects marked objects, with the subresource in its message.
async fn refuse_marked(scope: &Scope, group: &str, resources: Value) -> Outcome<[String; 2]> {
    let name = format!(
        "{}-{}",
        scope.namespace,
        if group.is_empty() { "core" } else { group }
    );
    let marked = "has(object.metadata.annotations) && 'refuse' in object.metadata.annotations";
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"], "resources": resources}]},
        "validations": [{
            "expression": format!("!({marked} && object.metadata.annotations['refuse'] == '{}')",
                scope.namespace),
            "messageExpression": "'saw ' + request.operation + ' ' + request.subResource + ' of ' + \
                object.kind",
        }],
    }});
    let binding = json!({"metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}});
    let paths = [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    let paths = paths.map(|plural| format!("{GROUP}/{plural}"));
    for (path, object) in paths.iter().zip([policy, binding]) {
        scope.client.post(path, &object).await?.expect_json(201)?;
    }
    Ok(paths.map(|path| format!("{path}/{name}")))
}

fn mark(scope: &Scope) -> Value {
    json!({"metadata": {"annotations": {"refuse": scope.namespace}}})
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i"}]}})
}

/// No controller creates the default service account in this namespace.
async fn make_account(scope: &Scope, account: &Value) -> Outcome {
    let path = scope.collection_path("serviceaccounts");
    let made = scope.client.post(&path, account).await?;
    ensure!([201, 409].contains(&made.status), "{}", made.text());
    Ok(())
}

fn account(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A policy takes a moment to take effect.
async fn until_refused(scope: &Scope, path: &str, patch: &Value) -> Outcome<ApiResponse> {
    scope
        .wait_until("the policy", || async {
            let path = format!("{path}?dryRun=All");
            let answer = scope.client.patch_as(MERGE, &path, patch).await?;
            Ok((answer.status != 200).then_some(answer))
        })
        .await
}

async fn admission_policies_match_subresources_by_name(scope: Scope) -> Outcome {
    make_account(&scope, &account("default")).await?;
    let certificates = "certificates.k8s.io";
    let plural = "certificatesigningrequests";
    let policies = [
        refuse_marked(&scope, "", json!(["pods/*"])).await?,
        refuse_marked(&scope, certificates, json!([format!("{plural}/*")])).await?,
    ];
    scope.create("pods", &pod("p")).await?;
    let request = super::certificate_signing_requests::make(&scope, "named", "example.com/x")
        .await?
        .0;
    let pod = scope.object_path("pods", "p");
    let mut rows = RowFailures::default();
    for (path, name, kind) in [
        (&pod, "status", "Pod"),
        (&request, "status", "CertificateSigningRequest"),
        (&request, "approval", "CertificateSigningRequest"),
    ] {
        let at = format!("{path}/{name}");
        let refused = until_refused(&scope, &at, &mark(&scope)).await?;
        let text = format!("denied request: saw UPDATE {name} of {kind}");
        let told = refused.text();
        let said = match refused.status == 422 && told.contains(&text) {
            true => Ok(()),
            false => Err(Failure::new(format!("expected {text}, got {told}"))),
        };
        rows.record(&at, said);
    }
    rows.outcome()?;
    scope.client.delete(&request).await?.expect_json(200)?;
    for path in policies.iter().flatten() {
        scope.client.delete(path).await?.has_status(200)?;
    }
    Ok(())
}

async fn admission_policies_see_pod_evictions(scope: Scope) -> Outcome {
    make_account(&scope, &account("default")).await?;
    let policies = refuse_marked(&scope, "", json!(["pods/eviction"])).await?;
    scope.create("pods", &pod("p")).await?;
    let path = format!("{}/eviction", scope.object_path("pods", "p"));
    let mut eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "p", "annotations": {"refuse": scope.namespace}}});
    let refused = scope
        .wait_until("the policy", || async {
            let path = format!("{path}?dryRun=All");
            let answer = scope.client.post(&path, &eviction).await?;
            Ok((answer.status != 201).then_some(answer))
        })
        .await?;
    let name = policies[0].rsplit('/').next().unwrap_or_default();
    let message = format!(
        "pods \"p\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied \
         request: saw CREATE eviction of Eviction"
    );
    refused.expect_message(422, "Invalid", &message)?;
    let refused = scope.client.post(&path, &eviction).await?;
    refused.expect_message(422, "Invalid", &message)?;
    scope.get("pods", "p").await?;
    eviction["metadata"]["annotations"] = json!({});
    let mut elsewhere = eviction.clone();
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    let refused = scope.client.post(&path, &elsewhere).await?;
    let message =
        "the namespace of the provided object does not match the namespace sent on the request";
    refused.expect_message(400, "BadRequest", message)?;
    scope
        .client
        .post(&path, &eviction)
        .await?
        .expect_json(201)?;
    scope.is_gone("pods", "p").await?;
    for path in &policies {
        scope.client.delete(path).await?.has_status(200)?;
    }
    Ok(())
}

async fn eviction_by_pdb_reports_disruption_allowed_condition(scope: Scope) -> Outcome {
    make_account(&scope, &account("default")).await?;
    let mut protected = pod("p");
    protected["metadata"]["labels"] = json!({"app": "a"});
    let mut protected = scope.create("pods", &protected).await?;
    protected["status"]["phase"] = "Running".into();
    protected["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    let status = format!("{}/status", scope.object_path("pods", "p"));
    scope
        .client
        .put(&status, &protected)
        .await?
        .expect_json(200)?;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "a"}}}});
    let path = scope.object_path("poddisruptionbudgets", "b");
    scope.create("poddisruptionbudgets", &budget).await?;
    let noted = |count: usize| -> Value {
        let pods = (0..count).map(|number| (format!("p{number}"), "2026-01-01T00:00:00Z".into()));
        Value::Object(pods.collect())
    };
    let told = |kind: &str, message: &str| {
        json!([{"type": "DisruptionAllowed", "status": "False", "reason": kind,
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    };
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "p"}});
    let evict = format!("{}/eviction", scope.object_path("pods", "p"));
    let violated = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = |text: &str| format!("The disruption budget b {text}");
    let mut rows = RowFailures::default();
    for (status, code, message, told, retry) in [
        (
            json!({"observedGeneration": 0}),
            429,
            violated,
            cause("is still being processed by the server."),
            "10",
        ),
        (
            json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}),
            429,
            violated,
            cause("needs 1 healthy pods and has 1 currently"),
            "",
        ),
        (
            json!({"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1}),
            429,
            violated,
            cause("does not allow evicting pods currently"),
            "",
        ),
        (
            json!({"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1,
                "conditions": told("InsufficientPods", "words")}),
            429,
            violated,
            cause("does not allow evicting pods currently (InsufficientPods): words"),
            "",
        ),
        (
            json!({"observedGeneration": 1, "currentHealthy": 0, "desiredHealthy": 1,
                "conditions": told("SyncFailed", "words")}),
            429,
            violated,
            cause("does not allow evicting pods currently because it failed sync: words"),
            "",
        ),
        (
            json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
                "desiredHealthy": 1, "disruptedPods": noted(2001)}),
            403,
            "poddisruptionbudget.policy \"b\" is forbidden: DisruptedPods map too big - too many \
             evictions not confirmed by PDB controller",
            String::new(),
            "",
        ),
    ] {
        let mut sent = json!({"disruptionsAllowed": 0, "expectedPods": 1});
        if let (Some(sent), Some(status)) = (sent.as_object_mut(), status.as_object()) {
            sent.extend(status.clone());
        }
        let mut budget = scope.get("poddisruptionbudgets", "b").await?;
        budget["status"] = sent;
        let at = format!("{path}/status");
        scope.client.put(&at, &budget).await?.expect_json(200)?;
        // The eviction handler may observe the change a moment later.
        let outcome = scope
            .wait_until("the budget", || async {
                let answer = scope.client.post(&evict, &eviction).await?;
                let body = answer.json()?;
                let got = body["details"]["causes"][0]["message"].as_str();
                let is_so = answer.status == code
                    && body["message"] == message
                    && got.unwrap_or_default() == told
                    && answer.header("retry-after") == retry;
                Ok(is_so.then_some(()))
            })
            .await;
        rows.record(&told, outcome);
    }
    rows.outcome()
}

async fn pod_resize_is_checked_by_limit_ranger_and_quota(scope: Scope) -> Outcome {
    make_account(&scope, &account("default")).await?;
    let mut sized = pod("p");
    let resources = |requests: &str, limits: &str| json!({"requests": {"cpu": requests}, "limits": {"cpu": limits}});
    sized["spec"]["containers"][0]["resources"] = resources("1", "2");
    scope.create("pods", &sized).await?;
    let path = format!("{}/resize", scope.object_path("pods", "p"));
    let resized = |requests: &str, limits: &str| {
        json!({"spec": {"containers": [{"name": "c", "image": "i",
            "resources": resources(requests, limits)}]}})
    };
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "5"}}]}});
    scope.create("limitranges", &range).await?;
    let strategic = "application/strategic-merge-patch+json";
    let dry = format!("{path}?dryRun=All");
    let refused = scope
        .wait_until("the range", || async {
            let patch = resized("1", "50");
            let answer = scope.client.patch_as(strategic, &dry, &patch).await?;
            Ok((answer.status != 200).then_some(answer))
        })
        .await?;
    let message = "pods \"p\" is forbidden: maximum cpu usage per Container is 5, but limit is 50";
    refused.expect_message(403, "Forbidden", message)?;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "2"}}});
    scope.create("resourcequotas", &quota).await?;
    // The quota controller may write the status concurrently.
    let counted = json!({"status": {"hard": {"requests.cpu": "2"}, "used": {"requests.cpu": "1"}}});
    let status = format!("{}/status", scope.object_path("resourcequotas", "q"));
    let merge = "application/merge-patch+json";
    let patched = scope.client.patch_as(merge, &status, &counted).await?;
    patched.expect_json(200)?;
    let refused = scope
        .wait_until("the quota", || async {
            let patch = resized("4", "5");
            let answer = scope.client.patch_as(strategic, &dry, &patch).await?;
            let settled = answer.text().contains("exceeded quota");
            Ok(settled.then_some(answer))
        })
        .await?;
    let message = "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=3, used: \
                   requests.cpu=1, limited: requests.cpu=2";
    refused.expect_message(403, "Forbidden", message)?;
    let patch = resized("2", "5");
    let answer = scope.client.patch_as(strategic, &path, &patch).await?;
    answer.expect_json(200)?;
    let quota = scope.get("resourcequotas", "q").await?;
    same_json(
        "used",
        &json!("2"),
        &quota["status"]["used"]["requests.cpu"],
    )
}

async fn pvc_expansion_requires_allow_volume_expansion(scope: Scope) -> Outcome {
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    let names = ["grows", "stays"].map(|name| scope.unique_name(name));
    for (name, expands) in names.iter().zip([true, false]) {
        let class = json!({"metadata": {"name": name}, "provisioner": "example.com/p",
            "allowVolumeExpansion": expands});
        scope.client.post(classes, &class).await?.expect_json(201)?;
    }
    let claim = |name: &str, class: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let grown = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    for (name, class) in ["a", "b"].into_iter().zip(&names) {
        let mut made = scope
            .create("persistentvolumeclaims", &claim(name, class))
            .await?;
        made["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"]});
        let path = format!(
            "{}/status",
            scope.object_path("persistentvolumeclaims", name)
        );
        scope.client.put(&path, &made).await?.expect_json(200)?;
    }
    let patch = async |name: &str, size: &str| {
        let path = scope.object_path("persistentvolumeclaims", name);
        scope.client.patch_as(MERGE, &path, &grown(size)).await
    };
    let message = "persistentvolumeclaims \"b\" is forbidden: only dynamically provisioned pvc can be \
                   resized and the storageclass that provisions the pvc must support resize";
    patch("b", "2Gi")
        .await?
        .expect_message(403, "Forbidden", message)?;
    patch("a", "2Gi").await?.expect_json(200)?;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "PersistentVolumeClaim", "max": {"storage": "3Gi"}}]}});
    scope.create("limitranges", &range).await?;
    let refused = scope
        .wait_until("the range", || async {
            let path = format!(
                "{}?dryRun=All",
                scope.object_path("persistentvolumeclaims", "a")
            );
            let answer = scope.client.patch_as(MERGE, &path, &grown("4Gi")).await?;
            Ok((answer.status != 200).then_some(answer))
        })
        .await?;
    let message = "persistentvolumeclaims \"a\" is forbidden: maximum storage usage per \
                   PersistentVolumeClaim is 3Gi, but request is 4Gi";
    refused.expect_message(403, "Forbidden", message)?;
    patch("a", "3Gi").await?.expect_json(200)?;
    for name in &names {
        let path = format!("{classes}/{name}");
        scope.client.delete(&path).await?.expect_json(200)?;
    }
    Ok(())
}

fn refers(secret: &str) -> Value {
    json!([{"name": "V", "valueFrom": {"secretKeyRef": {"name": secret, "key": "k"}}}])
}

fn all_of(secret: &str) -> Value {
    json!([{"secretRef": {"name": secret}}])
}

/// Pod fields that reference objects which the service account does not list, and the message for
/// each.
fn unlisted() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        (
            "volume",
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            "volume with secret.secretName=\"s\" is not allowed because service account strict does \
             not reference that secret",
        ),
        (
            "variable",
            json!({"containers": [{"name": "c", "image": "i", "env": refers("s")}]}),
            "container c with envVar V referencing secret.secretName=\"s\" is not allowed because \
             service account strict does not reference that secret",
        ),
        (
            "all variables",
            json!({"containers": [{"name": "c", "image": "i", "envFrom": all_of("s")}]}),
            "container c with envFrom referencing secret.secretName=\"s\" is not allowed because \
             service account strict does not reference that secret",
        ),
        (
            "variable of an init container",
            json!({"initContainers": [{"name": "d", "image": "i", "env": refers("s")}]}),
            "init container d with envVar V referencing secret.secretName=\"s\" is not allowed \
             because service account strict does not reference that secret",
        ),
        (
            "all variables of an init container",
            json!({"initContainers": [{"name": "d", "image": "i", "envFrom": all_of("s")}]}),
            "init container d with envFrom referencing secret.secretName=\"s\" is not allowed \
             because service account strict does not reference that secret",
        ),
        (
            "for images",
            json!({"imagePullSecrets": [{"name": "mine"}]}),
            "imagePullSecrets[0].name=\"mine\" is not allowed because service account strict does \
             not reference that imagePullSecret",
        ),
    ]
}

fn merged(name: &str, spec: &Value) -> Value {
    let mut pod = pod(name);
    if let (Some(own), Some(more)) = (pod["spec"].as_object_mut(), spec.as_object()) {
        own.extend(more.clone());
    }
    pod
}

async fn service_account_plugin_enforces_mountable_secrets(scope: Scope) -> Outcome {
    let strict = json!({
        "metadata": {"name": "strict",
            "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "mine"}], "imagePullSecrets": [{"name": "images"}],
    });
    make_account(&scope, &strict).await?;
    make_account(&scope, &account("free")).await?;
    let path = scope.collection_path("pods");
    let mut rows = RowFailures::default();
    for (what, spec, expected) in unlisted() {
        let mut pod = merged("p", &spec);
        pod["spec"]["serviceAccountName"] = "strict".into();
        let refused = scope.client.post(&path, &pod).await?;
        let message = format!("pods \"p\" is forbidden: {expected}");
        rows.record(what, refused.expect_message(403, "Forbidden", &message));
        pod["spec"]["serviceAccountName"] = "free".into();
        let dry = format!("{path}?dryRun=All");
        rows.record(what, scope.client.post(&dry, &pod).await?.has_status(201));
    }
    rows.outcome()?;
    let listed = json!({"serviceAccountName": "strict", "imagePullSecrets": [{"name": "images"}],
        "volumes": [{"name": "v", "secret": {"secretName": "mine"}}],
        "containers": [{"name": "c", "image": "i", "env": refers("mine"), "envFrom": all_of("mine")}]});
    let mut made = scope.create("pods", &merged("p", &listed)).await?;
    let path = format!("{}/ephemeralcontainers", scope.object_path("pods", "p"));
    for (member, value, what) in [
        ("env", refers("s"), "envVar V"),
        ("envFrom", all_of("s"), "envFrom"),
    ] {
        let mut added = json!({"name": "e", "image": "i", "imagePullPolicy": "Always",
            "terminationMessagePolicy": "File"});
        added[member] = value;
        made["spec"]["ephemeralContainers"] = json!([added]);
        let refused = scope.client.put(&path, &made).await?;
        let message = format!(
            "ephemeral container e with {what} referencing secret.secretName=\"s\" is not allowed \
             because service account strict does not reference that secret"
        );
        let told = refused.json()?;
        same_json(
            what,
            &json!([500, message]),
            &json!([told["code"], told["message"]]),
        )?;
    }
    made["spec"]["ephemeralContainers"][0]["envFrom"] = all_of("mine");
    scope
        .client
        .put(&path, &made)
        .await?
        .expect_json(200)
        .map(drop)
}

async fn mirror_pods_reference_no_service_account_or_secret(scope: Scope) -> Outcome {
    make_account(&scope, &account("free")).await?;
    let path = format!("{}?dryRun=All", scope.collection_path("pods"));
    let token = json!({"sources": [{"serviceAccountToken": {"path": "t"}}]});
    let projected = json!({"sources": [{"secret": {"name": "s"}}]});
    let secrets = "a mirror pod may not reference secrets";
    let mut rows = RowFailures::default();
    for (spec, expected) in [
        (
            json!({"serviceAccountName": "free"}),
            "a mirror pod may not reference service accounts",
        ),
        (
            json!({"serviceAccount": "free"}),
            "a mirror pod may not reference service accounts",
        ),
        (json!({"imagePullSecrets": [{"name": "s"}]}), secrets),
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            secrets,
        ),
        (
            json!({"volumes": [{"name": "v", "projected": projected}]}),
            secrets,
        ),
        (
            json!({"containers": [{"name": "c", "image": "i", "env": refers("s")}]}),
            secrets,
        ),
        (
            json!({"initContainers": [{"name": "d", "image": "i", "envFrom": all_of("s")}]}),
            secrets,
        ),
        (
            json!({"volumes": [{"name": "v", "projected": token}]}),
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
        (json!({}), ""),
    ] {
        let mut pod = merged("p", &spec);
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["spec"]["nodeName"] = "n".into();
        let answer = scope.client.post(&path, &pod).await?;
        let message = format!("pods \"p\" is forbidden: {expected}");
        rows.record(
            &spec,
            match expected {
                "" => answer.has_status(201),
                _ => answer.expect_message(403, "Forbidden", &message),
            },
        );
    }
    rows.outcome()
}
