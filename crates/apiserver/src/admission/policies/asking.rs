//! Who may do what, asked from within an expression.

use crate::access::Gate;
use crate::exchange::User;
use optik_access::{Attributes, Resource};
use optik_rules::{Ask, Authorizer, Decision, Of};
use std::sync::Arc;

/// Asks the server's own gate, about whoever made the request.
pub(super) struct AskGate {
    pub(super) gate: Arc<Gate>,
    pub(super) user: User,
}

impl Authorizer for AskGate {
    fn ask(&self, ask: &Ask<'_>) -> Decision {
        let account = ask.service_account.map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            ..User::default()
        });
        let user = account.as_ref().unwrap_or(&self.user);
        let asked = match &ask.of {
            Of::Path(path) => Attributes::path(ask.verb, path),
            Of::Resource(resource) => Attributes::on(
                ask.verb,
                Resource {
                    group: &resource.group,
                    version: "*",
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                },
            ),
        };
        let decided = self.gate.decide(user, &asked);
        Decision {
            allowed: decided.allowed,
            reason: decided.reason,
            error: None,
        }
    }
}
