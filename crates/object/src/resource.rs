use std::borrow::Cow;

/// The resource as error messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// `deployments`
    pub plural: &'a str,
    /// `Deployment`
    pub kind: &'a str,
}

impl<'a> ResourceName<'a> {
    /// `pods`, `deployments.apps`
    #[must_use]
    pub fn qualified(&self) -> Cow<'a, str> {
        qualify(self.plural, self.group)
    }

    /// `Pod`, `Deployment.apps`
    #[must_use]
    pub fn qualified_kind(&self) -> Cow<'a, str> {
        qualify(self.kind, self.group)
    }
}

pub(crate) fn qualify<'a>(name: &'a str, group: &str) -> Cow<'a, str> {
    if group.is_empty() {
        name.into()
    } else {
        format!("{name}.{group}").into()
    }
}
