//! The `authorizer` variable of CEL expressions.

use crate::auth::RbacAuthorizer;
use crate::request::http_types::User;
use optik_auth::{AuthorizationAttributes, ResourceAttributes};
use optik_cel::{AuthorizerCheck, AuthorizerDecision, CelAuthorizer, CheckTarget};
use std::sync::Arc;

/// Asks the server's authorizer about the user of the request.
pub(super) struct PolicyAuthorizer {
    pub(super) authorizer: Arc<RbacAuthorizer>,
    pub(super) user: User,
}

impl CelAuthorizer for PolicyAuthorizer {
    fn authorize(&self, ask: &AuthorizerCheck<'_>) -> AuthorizerDecision {
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
        let asked = match &ask.target {
            CheckTarget::Path(path) => AuthorizationAttributes::for_path(ask.verb, path),
            CheckTarget::Resource(resource) => AuthorizationAttributes::for_resource(
                ask.verb,
                ResourceAttributes {
                    group: &resource.group,
                    version: "*",
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                },
            ),
        };
        let decided = self.authorizer.authorize(user, &asked);
        AuthorizerDecision {
            allowed: decided.allowed,
            reason: decided.reason,
            error: None,
        }
    }
}
