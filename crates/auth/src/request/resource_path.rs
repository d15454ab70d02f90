//! Resource paths: group, version, namespace, resource, name and subresource in a URL path.

/// Subresources of namespaces. Any other segment behind a namespace's name is a resource in it.
pub(super) const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
/// A path prefix that requests a watch. Deprecated upstream, and still served.
const WATCH_PREFIX: &str = "watch";

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Empty if the path has a namespace segment that is empty.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// The segments behind the subresource, as in `pods/p/proxy/a/b`.
    pub subpath: Option<String>,
    /// The path has the deprecated `/watch/` prefix.
    pub watch: bool,
    pub route: RouteMatch,
}

/// How a path matches the routes. The authorizer parses more paths than are routed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteMatch {
    #[default]
    Matched,
    /// Below `/api/`, where a 404 has a `Status` body.
    UnmatchedCore,
    Unmatched,
}

/// The shape of a resource path, regardless of its segments' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathShape {
    pub scope: PathScope,
    pub depth: PathDepth,
    pub watch: bool,
}

/// The namespace scope of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathScope {
    /// `/api/v1/nodes`, or a namespaced resource across all namespaces.
    Cluster,
    /// `/api/v1/namespaces/NAMESPACE/pods`
    Namespaced,
    /// `/api/v1/namespaces//pods`
    EmptyNamespace,
}

/// The last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathDepth {
    Collection,
    Object,
    Subresource,
    /// Segments behind the subresource.
    Subpath,
}

impl PathShape {
    /// All possible shapes.
    pub fn all() -> impl Iterator<Item = Self> {
        let scopes = [
            PathScope::Cluster,
            PathScope::Namespaced,
            PathScope::EmptyNamespace,
        ];
        let depths = [
            PathDepth::Collection,
            PathDepth::Object,
            PathDepth::Subresource,
            PathDepth::Subpath,
        ];
        let of_scope = move |scope| {
            depths.into_iter().flat_map(move |depth| {
                [false, true].map(|watch| Self {
                    scope,
                    depth,
                    watch,
                })
            })
        };
        scopes.into_iter().flat_map(of_scope)
    }
}

impl ResourcePath {
    /// Parses resource path segments; `None` if it is not a resource path.
    pub(super) fn parse(segments: &[&str]) -> Option<Self> {
        // Shorter paths name an API group or version.
        if segments.len() < 3 {
            return None;
        }
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (watch, rest) = match rest {
            // Without further segments, `watch` is a resource name like any other.
            [WATCH_PREFIX, rest @ ..] if !rest.is_empty() => (true, rest),
            _ => (false, rest),
        };
        let (namespace, rest) = split_namespace(rest);
        let (plural, rest) = rest.split_first()?;
        let owned = |text: &&str| (*text).to_owned();
        Some(Self {
            group: group.to_owned(),
            version: owned(version),
            namespace: namespace.map(str::to_owned),
            plural: owned(plural),
            name: rest.first().map(owned),
            subresource: rest.get(1).map(owned),
            subpath: rest
                .get(2..)
                .filter(|it| !it.is_empty())
                .map(|it| it.join("/")),
            watch,
            route: RouteMatch::Matched,
        })
    }

    #[must_use]
    pub fn shape(&self) -> PathShape {
        PathShape {
            scope: match self.namespace.as_deref() {
                None => PathScope::Cluster,
                Some("") => PathScope::EmptyNamespace,
                Some(_) => PathScope::Namespaced,
            },
            depth: match (&self.name, &self.subresource, &self.subpath) {
                (None, ..) => PathDepth::Collection,
                (_, None, _) => PathDepth::Object,
                (.., None) => PathDepth::Subresource,
                (.., Some(_)) => PathDepth::Subpath,
            },
            watch: self.watch,
        }
    }
}

fn split_namespace<'a, 's>(rest: &'a [&'s str]) -> (Option<&'s str>, &'a [&'s str]) {
    match rest {
        ["namespaces", _, sub, ..] if NAMESPACE_SUBRESOURCES.contains(sub) => (None, rest),
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some(namespace), inside),
        _ => (None, rest),
    }
}
