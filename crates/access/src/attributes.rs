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
