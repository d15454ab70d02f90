//! Nobody makes a role, or binds one, that allows more than they may themselves.

use super::gate::Gate;
use crate::admission::{Attributes, Operation, Step};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_access::{
    Attributes as Asked, Binding, FULL_AUTHORITY_NEEDED, Policy, Resource, Role, RoleKind, Rule,
    User, escalation, full_authority,
};
use optik_catalog::Hook;
use optik_object::{Map, Object, Status, Value};
use std::sync::Arc;

pub(crate) struct Escalation {
    pub(crate) gate: Arc<Gate>,
}

const GROUP: &str = "rbac.authorization.k8s.io";

impl Step for Escalation {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        let hook = attributes.kind.resource.behaviour.hook;
        matches!(hook, Hook::Role | Hook::Binding) && self.gate.has_roles()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        ready(self.check(attributes, object)).boxed()
    }
}

impl Escalation {
    fn check(&self, attributes: &Attributes<'_>, object: Option<&Object>) -> Result<(), Status> {
        let user = attributes.user;
        let (Some(object), false) = (object, user.is_master()) else {
            return Ok(());
        };
        if attributes.operation == Operation::Delete {
            return Ok(());
        }
        if attributes
            .old
            .is_some_and(|old| only_for_collectors(object, old))
        {
            return Ok(());
        }
        // Decided from one policy, whatever happens meanwhile.
        let policy = self.gate.policy();
        match attributes.kind.resource.behaviour.hook {
            Hook::Binding => self.check_binding(&policy, attributes, object),
            _ => self.check_role(&policy, attributes, object),
        }
    }

    fn check_role(
        &self,
        policy: &Policy,
        attributes: &Attributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let (user, namespace) = (attributes.user, attributes.namespace);
        let escalate = Resource {
            group: GROUP,
            resource: &attributes.kind.resource.plural,
            namespace,
            // A name in the body is not one that was asked for.
            name: match attributes.operation {
                Operation::Create => "",
                _ => attributes.name,
            },
            ..Resource::default()
        };
        if policy.allows(user, &Asked::on("escalate", escalate)) {
            return Ok(());
        }
        let role = read_role(object)?;
        refuse(policy, user, namespace, &role.rules)
            .map_err(|text| forbidden(attributes, object, &text))?;
        let old = attributes.old.map(read_role).transpose()?;
        let gathers = role.is_aggregated() || old.is_some_and(|old| old.is_aggregated());
        if gathers && refuse(policy, user, namespace, &full_authority()).is_err() {
            return Err(forbidden(attributes, object, FULL_AUTHORITY_NEEDED));
        }
        Ok(())
    }

    fn check_binding(
        &self,
        policy: &Policy,
        attributes: &Attributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let (user, namespace) = (attributes.user, attributes.namespace);
        let bytes = object.encode().unwrap_or_default();
        let binding = Binding::read(&bytes).map_err(|_| unreadable())?;
        let role = &binding.role;
        let bind = Resource {
            group: GROUP,
            resource: match role.kind() {
                Some(RoleKind::Role) => "roles",
                _ => "clusterroles",
            },
            namespace,
            name: &role.name,
            ..Resource::default()
        };
        if policy.allows(user, &Asked::on("bind", bind)) {
            return Ok(());
        }
        let Ok(role) = policy.role(role, namespace) else {
            // Upstream says so of the binding.
            return Err(Status::not_found(
                attributes.kind.resource.name(),
                &role.name,
            ));
        };
        refuse(policy, user, namespace, &role.rules)
            .map_err(|text| forbidden(attributes, object, &text))
    }
}

fn refuse(policy: &Policy, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), String> {
    escalation(policy, user, namespace, rules).map_or(Ok(()), Err)
}

fn forbidden(attributes: &Attributes<'_>, object: &Object, text: &str) -> Status {
    Status::forbidden(attributes.kind.resource.name(), object.name(), text)
}

fn unreadable() -> Status {
    Status::internal("the object cannot be read")
}

fn read_role(object: &Object) -> Result<Role, Status> {
    let bytes = object.encode().unwrap_or_default();
    Role::read(&bytes).map_err(|_| unreadable())
}

/// Whether nothing changes but what a deletion waits for.
pub(crate) fn only_for_collectors(object: &Object, old: &Object) -> bool {
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
