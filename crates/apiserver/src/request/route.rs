//! Routes of non-resource paths: discovery, OpenAPI, OpenID and others.

use optik_auth::NonResourceRequestInfo;

/// The target of a non-resource path.
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
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3` and the path below it.
    OpenApiV3(String),
    /// `/.well-known/openid-configuration`
    OpenIdConfiguration,
    /// `/openid/v1/jwks`
    OpenIdKeys,
    /// An unknown path below `/api/`.
    UnknownOfCore,
    Unknown,
}

impl Route {
    /// Never fails: an unknown path is its own variant.
    #[must_use]
    pub fn from_request(request: &NonResourceRequestInfo) -> Self {
        let path = &request.path;
        let Some(parts) = path.segments() else {
            return match path.is_well_formed() && path.as_str().starts_with("/api/") {
                true => Self::UnknownOfCore,
                false => Self::Unknown,
            };
        };
        match parts[..] {
            [] => Self::Root,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group(group.into()),
            ["api", version] => Self::GroupVersion {
                group: String::new(),
                version: version.into(),
            },
            ["apis", group, version] => Self::GroupVersion {
                group: group.into(),
                version: version.into(),
            },
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3", ref rest @ ..] => Self::OpenApiV3(rest.join("/")),
            [".well-known", "openid-configuration"] => Self::OpenIdConfiguration,
            ["openid", "v1", "jwks"] => Self::OpenIdKeys,
            _ => Self::Unknown,
        }
    }

    /// Whether the document is served for every method.
    pub(crate) fn allows_any_method(&self) -> bool {
        matches!(
            self,
            Self::Groups | Self::Group(_) | Self::OpenApiV2 | Self::OpenApiV3(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_auth::RequestInfo;

    fn found(path: &str) -> String {
        match RequestInfo::new("GET", path, "") {
            RequestInfo::NonResource(request) => format!("{:?}", Route::from_request(&request)),
            RequestInfo::Resource(request) => {
                let t = request.target;
                if t.route != optik_auth::RouteMatch::Matched {
                    return "nowhere".to_owned();
                }
                format!(
                    "{}|{}|{}|{}|{}|{}{}",
                    t.group,
                    t.version,
                    t.namespace.as_deref().unwrap_or("-"),
                    t.plural,
                    t.name.as_deref().unwrap_or("-"),
                    t.subresource.as_deref().unwrap_or("-"),
                    if t.watch { "|watch" } else { "" },
                )
            }
        }
    }

    /// WIRE §1.1.
    #[test]
    fn non_resource_paths_are_routed() {
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
            ("/api/v1/namespaces/a//pods", "nowhere"),
            ("/api/v1//pods", "nowhere"),
            (
                "/api/v1/namespaces/a/configmaps/a%20b",
                "|v1|a|configmaps|a b|-",
            ),
            ("/", "Root"),
            ("/api", "CoreVersions"),
            ("/api/v1", r#"GroupVersion { group: "", version: "v1" }"#),
            ("/apis/", "Groups"),
            ("/apis/apps", "Group(\"apps\")"),
            ("/openapi/v3/apis/apps/v1", "OpenApiV3(\"apis/apps/v1\")"),
            ("//api", "Unknown"),
            ("/api//v1", "nowhere"),
            ("", "Unknown"),
            ("/nothing", "Unknown"),
            ("/api/v1/%ff", "Unknown"),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }
}
