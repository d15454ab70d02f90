//! CertificateSigningRequests: creation, approval and signing, and their authorization.

use crate::check::checks;
use crate::failure::{RowFailures, ensure, same_json};
use crate::object::text_at;
use crate::{ApiResponse, Failure, Outcome, Request, Scope};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
use serde_json::{Value, json};

checks! { certificate_signing_requests:
    ["IDENT-74"] csr_records_requesting_user [Authorization],
    [] csr_spec_is_immutable [],
    ["IDENT-76"] csr_approval_requires_approve_on_signer [Authorization],
    ["IDENT-76"] csr_signing_requires_sign_on_signer [Authorization],
    ["IDENT-78"] csr_approval_conditions_cannot_be_changed [],
    ["IDENT-75"] csr_with_invalid_signature_is_rejected [],
    ["IDENT-77"] csr_for_system_masters_is_forbidden [],
}

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const MERGE: &str = "application/merge-patch+json";

/// PEM in base64, as a field of type bytes.
fn armored(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap_or_default())
        .collect();
    let lines = lines.join("\n");
    STANDARD.encode(format!(
        "-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
    ))
}

fn pem(params: &CertificateParams) -> Outcome<String> {
    let key = KeyPair::generate().map_err(broken)?;
    let request = params.serialize_request(&key).map_err(broken)?;
    Ok(armored("CERTIFICATE REQUEST", request.der()))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: rcgen::Error) -> Failure {
    Failure::new(format!("rcgen: {error}"))
}

fn of_organizations(organizations: &[DnValue]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "kim");
    // `distinguished_name` holds one entry of a type, so the second uses the OID of that type.
    let types = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    for (of, organization) in types.into_iter().zip(organizations) {
        params.distinguished_name.push(of, organization.clone());
    }
    params
}

fn request(name: &str, signer: &str, pem: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": pem, "signerName": signer, "usages": ["client auth"]},
    })
}

/// A request of the check; its name is unique in the cluster.
pub(super) async fn make(scope: &Scope, name: &str, signer: &str) -> Outcome<(String, Value)> {
    let name = scope.unique_name(name);
    let body = request(&name, signer, &pem(&of_organizations(&[]))?);
    let made = scope.client.post(REQUESTS, &body).await?.expect_json(201)?;
    Ok((format!("{REQUESTS}/{name}"), made))
}

/// A user of the cluster with some rules.
async fn grant(scope: &Scope, name: &str, rules: Value) -> Outcome<String> {
    let name = scope.unique_name(name);
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let path = format!("{RBAC}/clusterroles");
    scope.client.post(&path, &role).await?.expect_json(201)?;
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": name}],
    });
    let path = format!("{RBAC}/clusterrolebindings");
    scope.client.post(&path, &binding).await?.expect_json(201)?;
    Ok(name)
}

async fn forget(scope: &Scope, users: &[&str], paths: &[&str]) -> Outcome {
    for user in users {
        for plural in ["clusterrolebindings", "clusterroles"] {
            let path = format!("{RBAC}/{plural}/{user}");
            scope.client.delete(&path).await?.expect_json(200)?;
        }
    }
    for path in paths {
        scope.client.delete(path).await?.expect_json(200)?;
    }
    Ok(())
}

async fn patch_by(scope: &Scope, path: &str, patch: &Value, user: &str) -> Outcome<ApiResponse> {
    let request = Request::new(Method::PATCH, path).body(MERGE, patch.to_string());
    scope
        .client
        .execute(request.header("impersonate-user", user))
        .await
}

/// The same until a role is known.
async fn patch_once_known(
    scope: &Scope,
    path: &str,
    patch: &Value,
    user: &str,
) -> Outcome<ApiResponse> {
    scope
        .wait_until("the role", || async {
            let answer = patch_by(scope, path, patch, user).await?;
            let unknown = answer.text().contains("cannot patch resource");
            Ok((!unknown).then_some(answer))
        })
        .await
}

fn decision(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "x"}]}})
}

fn update_of(resource: &str) -> Value {
    json!({"apiGroups": ["certificates.k8s.io"], "verbs": ["get", "update", "patch"],
        "resources": [format!("certificatesigningrequests/{resource}")]})
}

fn on_signer(verb: &str, name: &str) -> Value {
    json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": [name], "verbs": [verb]})
}

async fn csr_records_requesting_user(scope: Scope) -> Outcome {
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "verbs": ["create"],
        "resources": ["certificatesigningrequests"]}]);
    let user = grant(&scope, "asks", rules).await?;
    let name = scope.unique_name("asked");
    let mut body = request(&name, CLIENT, &pem(&of_organizations(&[]))?);
    body["spec"]["username"] = "system:admin".into();
    body["spec"]["uid"] = "0".into();
    body["spec"]["groups"] = json!(["system:masters"]);
    body["spec"]["extra"] = json!({"a": ["forged"]});
    body["status"] = json!({"certificate": "Zm9yZ2Vk", "conditions": [
        {"type": "Approved", "status": "True"}]});
    let made = scope
        .wait_until("the role", || async {
            let request = Request::new(Method::POST, REQUESTS).json(&body);
            let request = request
                .header("impersonate-user", &user)
                .header("impersonate-group", "devs")
                .header("impersonate-extra-team", "x");
            let answer = scope.client.execute(request).await?;
            Ok((answer.status != 403).then_some(answer))
        })
        .await?
        .expect_json(201)?;
    let spec = &made["spec"];
    let expected = json!([user, ["devs", "system:authenticated"], {"team": ["x"]}, null]);
    let got = json!([spec["username"], spec["groups"], spec["extra"], spec["uid"]]);
    same_json("who asked", &expected, &got)?;
    same_json("status", &json!({}), &made["status"])?;
    forget(&scope, &[&user], &[&format!("{REQUESTS}/{name}")]).await
}

async fn csr_spec_is_immutable(scope: Scope) -> Outcome {
    let (path, made) = make(&scope, "fixed", CLIENT).await?;
    let forged = json!({"spec": {"username": "system:admin", "groups": ["system:masters"],
        "signerName": "example.com/other", "usages": ["any"]}});
    let mut forged_more = forged.clone();
    forged_more["metadata"] = json!({"labels": {"a": "b"}});
    for at in ["", "/status", "/approval"] {
        let patch = match at {
            "" => &forged_more,
            _ => &forged,
        };
        let path = format!("{path}{at}");
        let changed = scope
            .client
            .patch_as(MERGE, &path, patch)
            .await?
            .expect_json(200)?;
        same_json(at, &made["spec"], &changed["spec"])?;
        same_json("labels", &json!({"a": "b"}), &changed["metadata"]["labels"])?;
    }
    forget(&scope, &[], &[&path]).await
}

async fn csr_approval_requires_approve_on_signer(scope: Scope) -> Outcome {
    let (path, made) = make(&scope, "decided", CLIENT).await?;
    let name = text_at(&made, "/metadata/name")?;
    let approval = format!("{path}/approval");
    let user = grant(&scope, "decides", json!([update_of("approval")])).await?;
    let patch = decision("Approved");
    let refused = patch_once_known(&scope, &approval, &patch, &user).await?;
    let message = format!(
        "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: user not permitted \
         to approve requests with signerName \"{CLIENT}\""
    );
    refused.expect_message(403, "Forbidden", &message)?;
    // The stored signerName decides, not the one in the patch.
    let elsewhere = grant(
        &scope,
        "elsewhere",
        json!([update_of("approval"), on_signer("approve", "example.com/x")]),
    )
    .await?;
    let mut forged = patch.clone();
    forged["spec"] = json!({"signerName": "example.com/x"});
    let refused = patch_once_known(&scope, &approval, &forged, &elsewhere).await?;
    refused.expect_message(403, "Forbidden", &message)?;
    let by_domain = grant(
        &scope,
        "domain",
        json!([
            update_of("approval"),
            on_signer("approve", "kubernetes.io/*")
        ]),
    )
    .await?;
    let mut more = patch.clone();
    more["status"]["certificate"] = "Zm9yZ2Vk".into();
    let approved = patch_once_known(&scope, &approval, &more, &by_domain).await?;
    let approved = approved.expect_json(200)?;
    let status = &approved["status"];
    ensure!(
        status["certificate"].is_null(),
        "who decides does not sign: {status}"
    );
    let condition = &status["conditions"][0];
    for member in ["lastUpdateTime", "lastTransitionTime"] {
        ensure!(condition[member].is_string(), "{member}: {condition}");
    }
    forget(&scope, &[&user, &elsewhere, &by_domain], &[&path]).await
}

async fn csr_signing_requires_sign_on_signer(scope: Scope) -> Outcome {
    let (path, made) = make(&scope, "signed", CLIENT).await?;
    let name = text_at(&made, "/metadata/name")?;
    let status = format!("{path}/status");
    let user = grant(&scope, "writes", json!([update_of("status")])).await?;
    let failed = decision("Failed");
    let refused = patch_once_known(&scope, &status, &failed, &user).await?;
    let message = format!(
        "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: user not permitted \
         to sign requests with signerName \"{CLIENT}\""
    );
    refused.expect_message(403, "Forbidden", &message)?;
    // A change of other fields than certificate and conditions needs no permission for the signer.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    patch_by(&scope, &status, &label, &user)
        .await?
        .expect_json(200)?;
    let signer = grant(
        &scope,
        "signs",
        json!([update_of("status"), on_signer("sign", CLIENT)]),
    )
    .await?;
    let refused = patch_once_known(&scope, &status, &decision("Approved"), &signer).await?;
    let message = format!(
        "CertificateSigningRequest.certificates.k8s.io \"{name}\" is invalid: status.conditions: \
         Forbidden: updates may not add a condition of type \"Approved\""
    );
    refused.expect_message(422, "Invalid", &message)?;
    let written = patch_by(&scope, &status, &failed, &signer)
        .await?
        .expect_json(200)?;
    same_json(
        "type",
        &json!("Failed"),
        &written["status"]["conditions"][0]["type"],
    )?;
    forget(&scope, &[&user, &signer], &[&path]).await
}

async fn csr_approval_conditions_cannot_be_changed(scope: Scope) -> Outcome {
    let (path, made) = make(&scope, "stays", CLIENT).await?;
    let name = text_at(&made, "/metadata/name")?;
    let invalid = |text: &str| {
        format!("CertificateSigningRequest.certificates.k8s.io \"{name}\" is invalid: {text}")
    };
    let patch = async |at: &str, patch: Value| {
        let path = format!("{path}{at}");
        scope.client.patch_as(MERGE, &path, &patch).await
    };
    let mut rows = RowFailures::default();
    for (what, conditions, expected) in [
        (
            "a decision is made or not",
            json!([{"type": "Approved", "status": "False"}]),
            "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
        ),
        (
            "conditions have a status",
            json!([{"type": "x"}]),
            "status.conditions[0].status: Required value",
        ),
        (
            "decisions exclude each other",
            json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]),
            "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are \
             mutually exclusive",
        ),
        (
            "a condition is there once",
            json!([{"type": "x", "status": "True"}, {"type": "x", "status": "True"}]),
            "status.conditions[1].type: Duplicate value: \"x\"",
        ),
    ] {
        let body = json!({"status": {"conditions": conditions}});
        let answer = patch("/approval", body).await?;
        rows.record(
            what,
            answer.expect_message(422, "Invalid", &invalid(expected)),
        );
    }
    let approved = patch("/approval", decision("Approved"))
        .await?
        .expect_json(200)?;
    let decided = &approved["status"]["conditions"];
    let none = json!({"status": {"conditions": []}});
    let removed = "status.conditions: Forbidden: updates may not remove a condition of type \
                   \"Approved\"";
    for at in ["/approval", "/status"] {
        let answer = patch(at, none.clone()).await?;
        rows.record(at, answer.expect_message(422, "Invalid", &invalid(removed)));
    }
    // An update of /status keeps the approval conditions; an update of the object keeps the whole
    // status.
    let forged = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "forged"}]}});
    for at in ["/status", ""] {
        let kept = patch(at, forged.clone()).await?.expect_json(200)?;
        rows.record(
            at,
            same_json("kept", decided, &kept["status"]["conditions"]),
        );
    }
    let words = json!({"status": {"certificate": STANDARD.encode("words")}});
    let answer = patch("/status", words).await?;
    let text = "status.certificate: Invalid value: \"<certificate data>\": must contain at least one \
                CERTIFICATE PEM block";
    rows.record(
        "words",
        answer.expect_message(422, "Invalid", &invalid(text)),
    );
    let body = json!({"status": {"certificate": certificate()?}});
    patch("/status", body).await?.expect_json(200)?;
    let another = json!({"status": {"certificate": certificate()?}});
    let answer = patch("/status", another).await?;
    let text = "status.certificate: Forbidden: updates may not modify existing certificate content";
    rows.record(
        "another",
        answer.expect_message(422, "Invalid", &invalid(text)),
    );
    rows.outcome()?;
    forget(&scope, &[], &[&path]).await
}

fn certificate() -> Outcome<String> {
    let key = KeyPair::generate().map_err(broken)?;
    let made = of_organizations(&[]).self_signed(&key).map_err(broken)?;
    Ok(armored("CERTIFICATE", made.der()))
}

async fn csr_with_invalid_signature_is_rejected(scope: Scope) -> Outcome {
    let path = format!("{REQUESTS}?dryRun=All");
    let name = scope.unique_name("tampered");
    let mut rows = RowFailures::default();
    for (algorithm, expected) in [
        (
            &rcgen::PKCS_ECDSA_P256_SHA256,
            "x509: ECDSA verification failure",
        ),
        (
            &rcgen::PKCS_ECDSA_P384_SHA384,
            "x509: ECDSA verification failure",
        ),
        (&rcgen::PKCS_ED25519, "x509: Ed25519 verification failure"),
    ] {
        let key = KeyPair::generate_for(algorithm).map_err(broken)?;
        let made = of_organizations(&[]).serialize_request(&key);
        let made = made.map_err(broken)?;
        let mut der = made.der().to_vec();
        let good = request(&name, CLIENT, &armored("CERTIFICATE REQUEST", &der));
        let answer = scope.client.post(&path, &good).await?;
        rows.record(expected, answer.has_status(201));
        let at = der.windows(3).position(|window| window == b"kim");
        let at = at.ok_or_else(|| Failure::new("the subject is not there"))?;
        der[at + 2] = b'n';
        let pem = armored("CERTIFICATE REQUEST", &der);
        let answer = scope
            .client
            .post(&path, &request(&name, CLIENT, &pem))
            .await?;
        let message = format!(
            "CertificateSigningRequest.certificates.k8s.io \"{name}\" is invalid: spec.request: \
             Invalid value: \"{pem}\": {expected}"
        );
        rows.record(expected, answer.expect_message(422, "Invalid", &message));
    }
    rows.outcome()
}

async fn csr_for_system_masters_is_forbidden(scope: Scope) -> Outcome {
    let masters = "system:masters";
    let bmp = rcgen::string::BmpString::try_from(masters).map_err(broken)?;
    let printable = rcgen::string::PrintableString::try_from(masters).map_err(broken)?;
    let mut rows = RowFailures::default();
    for (what, organizations) in [
        ("alone", vec![DnValue::Utf8String(masters.into())]),
        (
            "beside another",
            vec![
                DnValue::Utf8String("devs".into()),
                DnValue::PrintableString(printable),
            ],
        ),
        ("in another alphabet", vec![DnValue::BmpString(bmp)]),
    ] {
        let name = scope.unique_name("masters");
        let pem = pem(&of_organizations(&organizations))?;
        let message = format!(
            "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: use of {CLIENT} \
             signer with system:masters group is not allowed"
        );
        let body = request(&name, CLIENT, &pem);
        for path in [REQUESTS.to_owned(), format!("{REQUESTS}?dryRun=All")] {
            let answer = scope.client.post(&path, &body).await?;
            rows.record(what, answer.expect_message(403, "Forbidden", &message));
        }
        // With another signer the defaults differ.
        let body = request(&name, "example.com/x", &pem);
        let path = format!("{REQUESTS}?dryRun=All");
        let answer = scope.client.post(&path, &body).await?;
        rows.record(what, answer.has_status(201));
    }
    rows.outcome()
}
