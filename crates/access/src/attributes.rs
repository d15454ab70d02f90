//! What somebody wants to do.

use crate::user::User;
use optik_object::{Attempt, ResourceName, Status};

/// A verb, and what it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    Resource(Resource<'a>),
    /// Any other path.
    Path(&'a str),
}

/// Objects of the API. What does not apply is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> Attributes<'a> {
    #[must_use]
    pub fn on(verb: &'a str, resource: Resource<'a>) -> Self {
        let what = What::Resource(resource);
        Self { verb, what }
    }

    #[must_use]
    pub fn path(verb: &'a str, path: &'a str) -> Self {
        let what = What::Path(path);
        Self { verb, what }
    }

    #[must_use]
    pub fn namespace(&self) -> &'a str {
        match self.what {
            What::Resource(resource) => resource.namespace,
            What::Path(_) => "",
        }
    }

    #[must_use]
    pub fn with_verb<'b>(&self, verb: &'b str) -> Attributes<'b>
    where
        'a: 'b,
    {
        Attributes {
            verb,
            what: self.what,
        }
    }

    /// 403 for whoever may not.
    #[must_use]
    pub fn refuse(&self, user: &User, reason: &str) -> Status {
        match self.what {
            What::Path(path) => Status::forbidden_path(&user.name, self.verb, path, reason),
            What::Resource(of) => Status::forbidden_attempt(Attempt {
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

/// Pages that anybody may read: whether the server lives, and what it is.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The rule where there are no roles: whoever has proven who they are may do everything,
/// everybody else may look at the public pages.
#[must_use]
pub fn without_roles(user: &User, asked: &Attributes<'_>) -> bool {
    let public = |path: &str| {
        PUBLIC.iter().any(|page| {
            path.strip_prefix(page)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let anonymous = user.is_anonymous() || user.is_in(crate::UNAUTHENTICATED);
    !anonymous || matches!(asked.what, What::Path(path) if asked.verb == "get" && public(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_see_the_public_pages() {
        let kim = User {
            name: "kim".into(),
            ..User::default()
        };
        let nobody = User::anonymous();
        let pods = Resource {
            resource: "pods",
            namespace: "x",
            ..Resource::default()
        };
        for (user, asked, refusal) in [
            (&nobody, Attributes::path("get", "/healthz"), None),
            (&nobody, Attributes::path("get", "/readyz/ping"), None),
            (
                &nobody,
                Attributes::path("post", "/healthz"),
                Some(r#"forbidden: User "system:anonymous" cannot post path "/healthz""#),
            ),
            (
                &nobody,
                Attributes::path("get", "/versions"),
                Some(r#"forbidden: User "system:anonymous" cannot get path "/versions""#),
            ),
            (
                &nobody,
                Attributes::on("list", pods),
                Some(
                    r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "x""#,
                ),
            ),
            (&kim, Attributes::on("list", pods), None),
            (&kim, Attributes::path("get", "/metrics"), None),
        ] {
            let found = (!without_roles(user, &asked)).then(|| asked.refuse(user, ""));
            let found = found.as_ref().map(Status::message);
            assert_eq!(found, refusal, "{} {asked:?}", user.name);
        }
    }
}
