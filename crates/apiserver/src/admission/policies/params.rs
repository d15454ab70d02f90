//! Resolves the parameter objects that a policy binding names.

use crate::admission::AdmissionAttributes;
use crate::admission::policies::policy::{AdmissionPolicy, ParamRef};
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::read_failed;
use optik_object::{Object, Status};
use optik_store::Snapshot;

/// The parameters with which a policy is evaluated: one `None` if the policy or the binding names
/// none, and an empty list if none are found and the binding allows that. The inner error says why
/// the binding is not usable.
pub(super) async fn resolve_params(
    policy: &AdmissionPolicy,
    reference: Option<&ParamRef>,
    attributes: &AdmissionAttributes<'_>,
) -> Result<Result<Vec<Option<Object>>, String>, Status> {
    let (Some((api_version, kind)), Some(reference)) = (&policy.param_kind, reference) else {
        return Ok(Ok(vec![None]));
    };
    let Some(kind) = attributes.registry.by_kind(api_version, kind) else {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let group = if group.is_empty() { "" } else { group };
        let why = format!("paramKind kind `{group}/{version}, Kind={kind}` not known",);
        return Ok(Err(why));
    };
    let namespace = match params_namespace(kind, reference, attributes) {
        Ok(namespace) => namespace,
        Err(why) => return Ok(Err(why)),
    };
    // Reads the latest state, so that a parameter written a moment ago is found.
    let state = attributes.store.latest().await.map_err(read_failed)?;
    let found = find_params(kind, namespace.as_deref(), reference, &state);
    if found.is_empty() && reference.must_exist {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Ok(Err(why.into()));
    }
    Ok(Ok(found.into_iter().map(Some).collect()))
}

/// The namespace of the parameters; `None` for cluster-scoped ones.
fn params_namespace(
    kind: &ServedResource,
    reference: &ParamRef,
    attributes: &AdmissionAttributes<'_>,
) -> Result<Option<String>, String> {
    match (kind.is_namespaced(), reference.namespace.as_str()) {
        (false, "") => Ok(None),
        (false, _) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into())
        }
        (true, "") if attributes.namespace.is_empty() => Err(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped \
             resources"
                .into(),
        ),
        (true, "") => Ok(Some(attributes.namespace.to_owned())),
        (true, namespace) => Ok(Some(namespace.to_owned())),
    }
}

fn find_params(
    kind: &ServedResource,
    namespace: Option<&str>,
    reference: &ParamRef,
    state: &Snapshot,
) -> Vec<Object> {
    let open = |bytes: &[u8]| {
        let object = kind.decode_stored(bytes).ok()?;
        let mut object = kind.to_client(&object).into_owned();
        object.set_type(&kind.resource.kind, &kind.api_version);
        Some(object)
    };
    match &reference.selector {
        Some(selector) => {
            let all = state.entries(&kind.range(namespace));
            let all = all.filter_map(|stored| open(stored.value()));
            all.filter(|object| selector.matches_with(|key| object.label(key)))
                .collect()
        }
        None => {
            let stored = state.get(kind.key(namespace, &reference.name).as_bytes());
            stored
                .and_then(|stored| open(stored.value()))
                .into_iter()
                .collect()
        }
    }
}
