//! RBAC privilege escalation check: a user can create or bind only roles whose rules the user has.
//! The verbs `escalate` and `bind` lift this.

use crate::admission::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};
use crate::auth::authorizer::RbacAuthorizer;
use futures::future::{BoxFuture, FutureExt, ready};
use optik_auth::{
    AuthorizationAttributes as Asked, FULL_AUTHORITY_NEEDED, Policy, PolicyRule,
    ResourceAttributes, Role, RoleBinding, RoleKind, User, escalation, full_authority,
};
use optik_catalog::SpecialKind;
use optik_object::{Map, Object, Status, Value};
use std::sync::Arc;

pub(crate) struct Escalation {
    pub(crate) authorizer: Arc<RbacAuthorizer>,
}

const GROUP: &str = "rbac.authorization.k8s.io";

impl AdmissionPlugin for Escalation {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let hook = attributes.resource.resource.strategy_options.special_kind;
        matches!(hook, SpecialKind::Role | SpecialKind::Binding) && self.authorizer.uses_rbac()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        ready(self.check(attributes, object)).boxed()
    }
}

impl Escalation {
    fn check(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let user = attributes.user;
        let (Some(object), false) = (object, user.is_master()) else {
            return Ok(());
        };
        if attributes.operation == AdmissionOperation::Delete {
            return Ok(());
        }
        if attributes
            .old
            .is_some_and(|old| is_only_mutating_gc_fields(object, old))
        {
            return Ok(());
        }
        // One policy decides the whole check, even if it changes meanwhile.
        let policy = self.authorizer.policy();
        match attributes.resource.resource.strategy_options.special_kind {
            SpecialKind::Binding => self.check_binding(&policy, attributes, object),
            _ => self.check_role(&policy, attributes, object),
        }
    }

    fn check_role(
        &self,
        policy: &Policy,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let (user, namespace) = (attributes.user, attributes.namespace);
        let escalate = ResourceAttributes {
            group: GROUP,
            resource: &attributes.resource.resource.plural,
            namespace,
            // For a create, the name in the body does not count: the path has none.
            name: match attributes.operation {
                AdmissionOperation::Create => "",
                _ => attributes.name,
            },
            ..ResourceAttributes::default()
        };
        if policy.allows(user, &Asked::for_resource("escalate", escalate)) {
            return Ok(());
        }
        let role = read_role(object)?;
        check_covers(policy, user, namespace, &role.rules)
            .map_err(|text| forbidden(attributes, object, &text))?;
        let old = attributes.old.map(read_role).transpose()?;
        let gathers = role.is_aggregated() || old.is_some_and(|old| old.is_aggregated());
        if gathers && check_covers(policy, user, namespace, &full_authority()).is_err() {
            return Err(forbidden(attributes, object, FULL_AUTHORITY_NEEDED));
        }
        Ok(())
    }

    fn check_binding(
        &self,
        policy: &Policy,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let (user, namespace) = (attributes.user, attributes.namespace);
        let bytes = object.encode().unwrap_or_default();
        let binding = RoleBinding::from_json(&bytes).map_err(|_| unreadable())?;
        let role = &binding.role;
        let bind = ResourceAttributes {
            group: GROUP,
            resource: match role.kind() {
                Some(RoleKind::Role) => "roles",
                _ => "clusterroles",
            },
            namespace,
            name: &role.name,
            ..ResourceAttributes::default()
        };
        if policy.allows(user, &Asked::for_resource("bind", bind)) {
            return Ok(());
        }
        let Ok(role) = policy.role(role, namespace) else {
            // Upstream reports the binding's resource, not that of the role.
            return Err(Status::not_found(
                attributes.resource.resource.name(),
                &role.name,
            ));
        };
        check_covers(policy, user, namespace, &role.rules)
            .map_err(|text| forbidden(attributes, object, &text))
    }
}

fn check_covers(
    policy: &Policy,
    user: &User,
    namespace: &str,
    rules: &[PolicyRule],
) -> Result<(), String> {
    escalation(policy, user, namespace, rules).map_or(Ok(()), Err)
}

fn forbidden(attributes: &AdmissionAttributes<'_>, object: &Object, text: &str) -> Status {
    Status::forbidden(attributes.resource.resource.name(), object.name(), text)
}

fn unreadable() -> Status {
    Status::internal("cannot decode role or role binding")
}

fn read_role(object: &Object) -> Result<Role, Status> {
    let bytes = object.encode().unwrap_or_default();
    Role::from_json(&bytes).map_err(|_| unreadable())
}

/// Whether an update changes only finalizers, owner references and managed fields (upstream's
/// `IsOnlyMutatingGCFields`).
pub(crate) fn is_only_mutating_gc_fields(object: &Object, old: &Object) -> bool {
    let rest = |object: &Object| {
        let mut rest: Map = object.members().clone();
        if let Some(Value::Object(metadata)) = rest.get_mut("metadata") {
            for member in [
                "finalizers",
                "ownerReferences",
                "managedFields",
                "resourceVersion",
            ] {
                metadata.remove(member);
            }
        }
        rest
    };
    rest(object) == rest(old)
}
