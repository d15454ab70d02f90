//! Authorization attributes: the verb and the target that an authorizer decides about.

use crate::user::User;
use optik_object::{ForbiddenRequest, ResourceName, Status};

/// The verb of a request and its target (upstream: `authorizer.Attributes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorizationAttributes<'a> {
    pub verb: &'a str,
    pub target: AccessTarget<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTarget<'a> {
    Resource(ResourceAttributes<'a>),
    /// A non-resource URL path.
    NonResource(&'a str),
}

/// The resource attributes of a request. Fields that do not apply are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> AuthorizationAttributes<'a> {
    #[must_use]
    pub fn for_resource(verb: &'a str, resource: ResourceAttributes<'a>) -> Self {
        let what = AccessTarget::Resource(resource);
        Self { verb, target: what }
    }

    #[must_use]
    pub fn for_path(verb: &'a str, path: &'a str) -> Self {
        let what = AccessTarget::NonResource(path);
        Self { verb, target: what }
    }

    #[must_use]
    pub fn namespace(&self) -> &'a str {
        match self.target {
            AccessTarget::Resource(resource) => resource.namespace,
            AccessTarget::NonResource(_) => "",
        }
    }

    #[must_use]
    pub fn with_verb<'b>(&self, verb: &'b str) -> AuthorizationAttributes<'b>
    where
        'a: 'b,
    {
        AuthorizationAttributes {
            verb,
            target: self.target,
        }
    }

    /// The 403 Forbidden `Status` for a denied request.
    #[must_use]
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        match self.target {
            AccessTarget::NonResource(path) => {
                Status::forbidden_path(&user.name, self.verb, path, reason)
            }
            AccessTarget::Resource(of) => Status::forbidden_request(ForbiddenRequest {
                user: &user.name,
                verb: self.verb,
                resource: ResourceName {
                    group: of.group,
                    plural: of.resource,
                    kind: "",
                },
                subresource: of.subresource,
                namespace: of.namespace,
                name: of.name,
                reason,
            }),
        }
    }
}

/// Health and version endpoints that unauthenticated requests may read (GET only).
const PUBLIC_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The authorizer without RBAC: authenticated users may do everything, anonymous users may read the
/// public paths.
#[must_use]
pub fn authorize_without_rbac(user: &User, asked: &AuthorizationAttributes<'_>) -> bool {
    let public = |path: &str| {
        PUBLIC_PATHS.iter().any(|page| {
            path.strip_prefix(page)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let anonymous = user.is_anonymous() || user.has_group(crate::UNAUTHENTICATED);
    !anonymous
        || matches!(asked.target, AccessTarget::NonResource(path) if asked.verb == "get" && public(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_gets_only_public_paths_without_rbac() {
        let kim = User {
            name: "kim".into(),
            ..User::default()
        };
        let nobody = User::anonymous();
        let pods = ResourceAttributes {
            resource: "pods",
            namespace: "x",
            ..ResourceAttributes::default()
        };
        for (user, asked, refusal) in [
            (
                &nobody,
                AuthorizationAttributes::for_path("get", "/healthz"),
                None,
            ),
            (
                &nobody,
                AuthorizationAttributes::for_path("get", "/readyz/ping"),
                None,
            ),
            (
                &nobody,
                AuthorizationAttributes::for_path("post", "/healthz"),
                Some(r#"forbidden: User "system:anonymous" cannot post path "/healthz""#),
            ),
            (
                &nobody,
                AuthorizationAttributes::for_path("get", "/versions"),
                Some(r#"forbidden: User "system:anonymous" cannot get path "/versions""#),
            ),
            (
                &nobody,
                AuthorizationAttributes::for_resource("list", pods),
                Some(
                    r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "x""#,
                ),
            ),
            (
                &kim,
                AuthorizationAttributes::for_resource("list", pods),
                None,
            ),
            (
                &kim,
                AuthorizationAttributes::for_path("get", "/metrics"),
                None,
            ),
        ] {
            let found = (!authorize_without_rbac(user, &asked)).then(|| asked.forbidden(user, ""));
            let found = found.as_ref().map(Status::message);
            assert_eq!(found, refusal, "{} {asked:?}", user.name);
        }
    }
}
