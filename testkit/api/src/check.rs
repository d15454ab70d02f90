//! A check of the suite, and the server features that it needs.

use crate::{Outcome, Scope};
use futures::future::BoxFuture;
use std::fmt;

/// A named check: the assertions of the specification that it covers, and the function that tests
/// them.
#[derive(Clone, Copy)]
pub struct Check {
    /// `module::what_must_hold`
    pub name: &'static str,
    /// The assertions of `docs/spec` that it covers; empty for behaviour that only the tables of
    /// the specification define.
    pub ids: &'static [&'static str],
    pub needs: &'static [Need],
    pub run: fn(Scope) -> BoxFuture<'static, Outcome>,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, self.ids.join(", "))
    }
}

/// A feature that a server may lack, or a cost that a caller may not want.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// JSON, merge and strategic merge patches.
    Patch,
    /// Server-side apply, and with it managedFields.
    Apply,
    CustomResources,
    /// Defaulting and validation of built-in kinds.
    Admission,
    /// The store can be compacted on demand: [`ServerCapabilities::compact`](crate::ServerCapabilities).
    Compaction,
    /// The subresource `scale`.
    Scale,
    /// The subresource `status`.
    Status,
    /// Graceful deletion and binding of pods.
    Pods,
    /// Namespaces refuse content while they terminate.
    NamespaceLifecycle,
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    Protobuf,
    Yaml,
    WebSocket,
    /// Large responses are compressed if the client accepts gzip.
    Gzip,
    /// `/metrics`.
    Metrics,
    /// Wrong tokens are refused.
    Authentication,
    /// RBAC: roles and their bindings authorize requests.
    Authorization,
    /// Admission webhooks and conversion webhooks are called.
    Webhooks,
    /// Admission policies in CEL.
    Policies,
    /// The check takes minutes.
    SlowMinutes,
    /// A built-in kind beyond ConfigMap, Secret and Namespace, by its plural.
    Kind(&'static str),
}

const NAMED: &[(&str, Need)] = &[
    ("patch", Need::Patch),
    ("apply", Need::Apply),
    ("custom-resources", Need::CustomResources),
    ("admission", Need::Admission),
    ("compaction", Need::Compaction),
    ("scale", Need::Scale),
    ("status", Need::Status),
    ("pod-lifecycle", Need::Pods),
    ("namespace-lifecycle", Need::NamespaceLifecycle),
    ("table", Need::Table),
    ("metadata", Need::Metadata),
    ("protobuf", Need::Protobuf),
    ("yaml", Need::Yaml),
    ("websocket", Need::WebSocket),
    ("gzip", Need::Gzip),
    ("metrics", Need::Metrics),
    ("authentication", Need::Authentication),
    ("authorization", Need::Authorization),
    ("webhooks", Need::Webhooks),
    ("policies", Need::Policies),
    ("slow-minutes", Need::SlowMinutes),
];

impl Need {
    /// `patch` and so on; a plural means that kind.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let named = NAMED.iter().find(|(known, _)| *known == name);
        named.map(|(_, need)| *need).or_else(|| {
            let kind = crate::kinds::ALL.iter().find(|kind| kind.plural == name);
            kind.map(|kind| Self::Kind(kind.plural))
        })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMED.iter().find(|(_, need)| need == self)) {
            (_, Some((name, _))) => f.write_str(name),
            (Self::Kind(plural), None) => f.write_str(plural),
            (other, None) => write!(f, "{other:?}"),
        }
    }
}

/// A table of the checks of a module: ids, name, needs.
macro_rules! checks {
    ($module:ident: $($ids:tt $check:ident $needs:tt,)*) => {
        pub(crate) const CHECKS: &[$crate::Check] = &[$($crate::Check {
            name: concat!(stringify!($module), "::", stringify!($check)),
            ids: &$ids,
            needs: {
                #[allow(unused_imports, reason = "some tables need nothing")]
                use $crate::Need::*;
                &$needs
            },
            run: |scope| Box::pin($check(scope)),
        },)*];
    };
}
pub(crate) use checks;
