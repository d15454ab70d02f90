//! The authenticated user of a request: name, UID, groups and extra fields.

use std::collections::BTreeMap;

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED: &str = "system:authenticated";
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// Members of this group are allowed everything, regardless of RBAC.
pub const MASTERS: &str = "system:masters";
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Extra fields of the user info.
pub type Extra = BTreeMap<String, Vec<String>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: Extra,
}

impl User {
    /// The user of requests without credentials, `system:anonymous`.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..Self::default()
        }
    }

    /// A local administrator, who is allowed everything.
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

    /// Adds a group unless the user has it already.
    #[must_use]
    pub fn with_group(mut self, group: &str) -> Self {
        if !self.has_group(group) {
            self.groups.push(group.into());
        }
        self
    }

    /// Adds the group `system:authenticated`.
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

/// The namespace and name of a service account, from its user name.
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
