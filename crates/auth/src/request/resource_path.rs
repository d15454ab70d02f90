//! The objects that a path names.

/// Parts of a namespace. Any other word behind its name is a resource inside it.
pub(super) const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];
/// Before a resource, it asks for a watch. Deprecated upstream, and still served.
const WATCH_PREFIX: &str = "watch";

/// What stands in a path of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    /// Empty if the path has a place for it and nothing is there.
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
    /// What follows the subresource, as in `pods/p/proxy/a/b`.
    pub subpath: Option<String>,
    /// `/watch/` stood in the path: the old way to ask for a watch.
    pub watch: bool,
    pub route: RouteMatch,
}

/// The authorizer reads more paths than lead anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteMatch {
    #[default]
    Matched,
    /// Below `/api/`, where what is missing is said in a `Status`.
    UnmatchedCore,
    Unmatched,
}

/// The shape of a path of resources, whatever its words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathShape {
    pub scope: PathScope,
    pub depth: PathDepth,
    pub watch: bool,
}

/// Whether a path names a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathScope {
    /// `/api/v1/nodes`, and a resource with namespaces across all of them.
    Cluster,
    /// `/api/v1/namespaces/NAMESPACE/pods`
    Namespaced,
    /// `/api/v1/namespaces//pods`
    EmptyNamespace,
}

/// How far a path goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathDepth {
    Collection,
    Object,
    Subresource,
    /// Beyond the subresource.
    Subpath,
}

impl PathShape {
    /// Every shape there is.
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
    /// The resources that these segments name; `None` if they are no path of resources.
    pub(super) fn parse(segments: &[&str]) -> Option<Self> {
        // Fewer segments name a group or a version.
        if segments.len() < 3 {
            return None;
        }
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (watch, rest) = match rest {
            // With nothing behind it, it is the name of a resource like any other.
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
