//! What a path is about.

use optik_access::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/`
    Root,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`
    GroupVersion {
        group: String,
        version: String,
    },
    /// Objects.
    Objects(Target),
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3`, and what follows it.
    OpenApiV3(String),
    /// `/.well-known/openid-configuration`
    OpenIdConfiguration,
    /// `/openid/v1/jwks`
    OpenIdKeys,
    /// Below `/api/`, but nothing.
    UnknownOfCore,
    Unknown,
}

/// Which objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Empty if the path has a place for it and nothing is there.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// `/watch/` stood in the path: the old way to ask for a watch.
    pub watch: bool,
}

/// Reads a path as it was sent. Never fails: what makes no sense is unknown.
#[must_use]
pub fn route(path: &str) -> Route {
    let path = Path::decode(path);
    let Some(parts) = split(&path) else {
        return match path.is_well_formed() && path.text().starts_with("/api/") {
            true => Route::UnknownOfCore,
            false => Route::Unknown,
        };
    };
    match parts[..] {
        [] => Route::Root,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group(group.into()),
        ["api", version, ref rest @ ..] => below("", version, rest),
        ["apis", group, version, ref rest @ ..] => below(group, version, rest),
        ["openapi", "v2"] => Route::OpenApiV2,
        ["openapi", "v3", ref rest @ ..] => Route::OpenApiV3(rest.join("/")),
        [".well-known", "openid-configuration"] => Route::OpenIdConfiguration,
        ["openid", "v1", "jwks"] => Route::OpenIdKeys,
        _ => Route::Unknown,
    }
}

/// The segments; none of the root.
fn split<'p>(path: &'p Path<'_>) -> Option<Vec<&'p str>> {
    match path.text() {
        "/" => Some(Vec::new()),
        _ => path.segments().map(Iterator::collect),
    }
}

fn below(group: &str, version: &str, rest: &[&str]) -> Route {
    let (watch, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    let target = Target {
        group: group.into(),
        version: version.into(),
        watch,
        ..Target::default()
    };
    match rest {
        [] => Route::GroupVersion {
            group: group.into(),
            version: version.into(),
        },
        ["namespaces", namespace] => objects(target, None, &["namespaces", namespace]),
        ["namespaces", name, sub @ ("status" | "finalize")] if !name.is_empty() => {
            objects(target, None, &["namespaces", name, sub])
        }
        ["namespaces", namespace, rest @ ..] => objects(target, Some(namespace), rest),
        rest => objects(target, None, rest),
    }
}

fn objects(mut target: Target, namespace: Option<&str>, rest: &[&str]) -> Route {
    target.namespace = namespace.map(str::to_owned);
    let (plural, name, subresource) = match *rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        // What follows belongs to the subresource (a proxied path).
        [plural, name, subresource, ..] => (plural, Some(name), Some(subresource)),
        [] => return Route::Unknown,
    };
    target.plural = plural.into();
    target.name = name.map(str::to_owned);
    target.subresource = subresource.map(str::to_owned);
    Route::Objects(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> String {
        match route(path) {
            Route::Objects(t) => format!(
                "{}|{}|{}|{}|{}|{}{}",
                t.group,
                t.version,
                t.namespace.as_deref().unwrap_or("-"),
                t.plural,
                t.name.as_deref().unwrap_or("-"),
                t.subresource.as_deref().unwrap_or("-"),
                if t.watch { "|watch" } else { "" },
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn grammar_wire_1_1() {
        for (path, expected) in [
            ("/api/v1/configmaps", "|v1|-|configmaps|-|-"),
            ("/api/v1/configmaps/", "|v1|-|configmaps|-|-"),
            ("/api/v1/namespaces/a/configmaps/b", "|v1|a|configmaps|b|-"),
            ("/api/v1/namespaces", "|v1|-|namespaces|-|-"),
            ("/api/v1/namespaces/a", "|v1|-|namespaces|a|-"),
            ("/api/v1/namespaces/a/status", "|v1|-|namespaces|a|status"),
            (
                "/api/v1/namespaces/a/finalize",
                "|v1|-|namespaces|a|finalize",
            ),
            ("/api/v1/namespaces/a/pods/b/log", "|v1|a|pods|b|log"),
            (
                "/apis/apps/v1/namespaces/a/deployments",
                "apps|v1|a|deployments|-|-",
            ),
            ("/api/v1/watch/namespaces/a/pods", "|v1|a|pods|-|-|watch"),
            ("/api/v1/watch/pods", "|v1|-|pods|-|-|watch"),
            ("/api/v1/namespaces//pods", "|v1||pods|-|-"),
            ("/api/v1/namespaces//pods/a", "|v1||pods|a|-"),
            (
                "/apis/apps/v1/watch/namespaces//deployments",
                "apps|v1||deployments|-|-|watch",
            ),
            ("/api/v1/namespaces/a//pods", "UnknownOfCore"),
            ("/api/v1//pods", "UnknownOfCore"),
            (
                "/api/v1/namespaces/a/configmaps/a%20b",
                "|v1|a|configmaps|a b|-",
            ),
            ("/", "Root"),
            ("/api", "CoreVersions"),
            ("/apis/", "Groups"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/openapi/v3/apis/apps/v1", "OpenApiV3(\"apis/apps/v1\")"),
            ("//api", "Unknown"),
            ("/api//v1", "UnknownOfCore"),
            ("", "Unknown"),
            ("/nothing", "Unknown"),
            ("/api/v1/%ff", "Unknown"),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }
}
