//! Who sends a request.

use std::collections::BTreeMap;

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Whoever is in this group may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// What else credentials say about a user.
pub type Extra = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: Extra,
}

impl User {
    /// Nobody in particular.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// Somebody on this machine who may do everything.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "system:admin".into(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            ..Self::default()
        }
    }

    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    #[must_use]
    pub fn is_master(&self) -> bool {
        self.has_group(MASTERS)
    }

    /// With another group, if it is not there yet.
    #[must_use]
    pub fn with_group(mut self, group: &str) -> Self {
        if !self.has_group(group) {
            self.groups.push(group.into());
        }
        self
    }

    /// As everybody is who has proven who they are.
    #[must_use]
    pub fn authenticated(self) -> Self {
        self.with_group(AUTHENTICATED)
    }
}

/// `system:serviceaccount:{namespace}:{name}`
#[must_use]
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

#[must_use]
pub fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![
        SERVICE_ACCOUNTS.into(),
        format!("{SERVICE_ACCOUNTS}:{namespace}"),
    ]
}

/// Namespace and name of the service account that is called this.
#[must_use]
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let well_formed = optik_object::dns1123_label(namespace).is_empty()
        && optik_object::dns1123_subdomain(name).is_empty();
    well_formed.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_account_user_names_round_trip() {
        let name = service_account_name("a", "b.c");
        assert_eq!(split_service_account(&name), Some(("a", "b.c")));
        for other in [
            "system:serviceaccount:a",
            "system:serviceaccount:a:b:c",
            "kim",
            "system:serviceaccount::b",
        ] {
            assert_eq!(split_service_account(other), None, "{other}");
        }
    }
}
