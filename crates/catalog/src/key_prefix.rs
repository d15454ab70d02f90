//! The storage key prefixes of resources.

use crate::generated::ROWS;

/// The prefix of the keys of all objects.
pub const REGISTRY_PREFIX: &str = "/registry/";

/// The prefix under which node ports of services were stored until version 0.1. kube-apiserver
/// stores a bitmap at this key without the slash.
pub const LEGACY_NODE_PORTS_PREFIX: &str = "/registry/ranges/servicenodeports/";

/// What keys of the objects of a built-in resource begin with: `/registry/minions/` for
/// nodes. A namespace comes next if the resource has them, then the name.
///
/// For constants: a name that is wrong does not compile there.
///
/// ```
/// const NODES: &str = optik_catalog::key_prefix("", "nodes");
/// assert_eq!(NODES, "/registry/minions/");
/// ```
///
/// # Panics
/// If no resource of that name is built in and stored.
#[must_use]
pub const fn key_prefix(group: &str, plural: &str) -> &'static str {
    let mut at = 0;
    while at < ROWS.len() {
        let row = &ROWS[at];
        if is_same(row.group, group)
            && is_same(row.plural, plural)
            && let Some(prefix) = row.key_prefix
        {
            return prefix;
        }
        at += 1;
    }
    panic!("no stored resource of that name is built in");
}

/// Returns the key prefix of the objects of a custom resource.
#[must_use]
pub fn custom_key_prefix(group: &str, plural: &str) -> String {
    format!("{REGISTRY_PREFIX}{group}/{plural}/")
}

/// `==` in constant functions.
const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut at = 0;
    while at < left.len() {
        if left[at] != right[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_prefix_is_that_of_kube_apiserver() {
        for (group, plural, expected) in [
            ("", "pods", "/registry/pods/"),
            ("", "nodes", "/registry/minions/"),
            ("", "services", "/registry/services/specs/"),
            ("", "endpoints", "/registry/services/endpoints/"),
            ("networking.k8s.io", "ingresses", "/registry/ingress/"),
            (
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "/registry/apiextensions.k8s.io/customresourcedefinitions/",
            ),
        ] {
            assert_eq!(key_prefix(group, plural), expected);
        }
        assert_eq!(
            custom_key_prefix("example.com", "things"),
            "/registry/example.com/things/"
        );
    }

    #[test]
    fn key_prefixes_are_directories_below_the_registry() {
        for row in ROWS {
            let prefix = row.key_prefix.unwrap_or("/registry/x/");
            assert!(prefix.starts_with(REGISTRY_PREFIX), "{prefix}");
            assert!(prefix.ends_with('/') && prefix.len() > REGISTRY_PREFIX.len());
        }
    }
}
