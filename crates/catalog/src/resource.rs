//! An API resource in one version, as request handlers and discovery use it.

use crate::field_selectors::SelectableFields;
use crate::scale::ScaleMapping;
use crate::strategy_options::StrategyOptions;
use optik_object::ResourceName;
pub use optik_object::Verb;
use std::borrow::Cow;

/// A string that is borrowed for built-in kinds and owned for custom kinds.
pub type Text = Cow<'static, str>;

#[derive(Clone, Debug)]
pub struct ApiResource {
    /// Empty for the core group.
    pub group: Text,
    pub version: Text,
    /// `deployments`
    pub plural: Text,
    /// `deployment`
    pub singular: Text,
    /// `Deployment`
    pub kind: Text,
    pub scope: Scope,
    pub verbs: Verbs,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub subresources: Vec<Subresource>,
    /// `DeploymentList`
    pub list_kind: Text,
    /// The verbs in discovery order.
    pub verb_order: &'static [Verb],
    /// The prefix of the keys of its objects, for example `/registry/configmaps/`. `None` if it is
    /// not stored, as for reviews.
    pub key_prefix: Option<Text>,
    pub strategy_options: StrategyOptions,
    pub selectable_fields: SelectableFields,
    /// The field mapping of its `scale` subresource, if it has one.
    pub scale: Option<ScaleMapping>,
    /// `additionalPrinterColumns` of a CRD; empty for built-in kinds.
    pub columns: Vec<PrinterColumn>,
}

/// A printer column, filled from a JSON path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    pub name: Text,
    /// `string`, `integer`, `date` and so on.
    pub kind: Text,
    pub format: Text,
    pub description: Text,
    pub priority: i32,
    /// `.spec.replicas`
    pub json_path: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`
    pub name: Text,
    pub verbs: Verbs,
    pub action: SubresourceAction,
    /// The kind of its responses.
    pub kind: ResponseKind,
}

/// The operation of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceAction {
    /// Updates `status`.
    Status,
    /// Approves or denies a CertificateSigningRequest.
    Approve,
    /// Updates `spec.finalizers`.
    Finalize,
    /// Reads and updates the number of replicas.
    Scale,
    /// Assigns a pod to a node.
    Bind,
    /// Evicts a pod if its disruption budget allows it.
    Evict,
    /// Adds ephemeral containers.
    EphemeralContainers,
    /// Changes the resources of containers.
    Resize,
    /// Issues a token for a service account.
    Token,
    /// Connects to something that runs on a node.
    Connect(ConnectTarget),
    /// Reads the whole object; writes are not served.
    ReadOnly,
    /// Not served.
    Unserved,
}

/// The target of a connect request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectTarget {
    /// The log of a container.
    Log,
    /// A process in a container.
    ExecOrAttach,
    /// A port of a pod.
    PortForward,
    /// HTTP proxied to an object.
    Proxy,
}

/// A kind; an empty group and version mean those of the resource.
#[derive(Clone, Debug)]
pub struct ResponseKind {
    pub group: Text,
    pub version: Text,
    pub kind: Text,
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    #[must_use]
    pub const fn from_verbs(verbs: &[Verb]) -> Self {
        let mut bits = 0;
        let mut next = 0;
        while next < verbs.len() {
            bits |= 1 << verbs[next] as u8;
            next += 1;
        }
        Self(bits)
    }

    #[must_use]
    pub const fn contains(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u8) != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Verb> {
        self.iter_as(&Verb::ALL)
    }

    /// Iterates over the verbs in the given order.
    pub fn iter_as(self, order: &'static [Verb]) -> impl Iterator<Item = Verb> {
        order
            .iter()
            .copied()
            .filter(move |verb| self.contains(*verb))
    }
}

impl ApiResource {
    /// Returns the name of the resource in error messages.
    #[must_use]
    pub fn name(&self) -> ResourceName<'_> {
        ResourceName {
            group: &self.group,
            plural: &self.plural,
            kind: &self.kind,
        }
    }

    /// `v1`, `apps/v1`
    #[must_use]
    pub fn api_version(&self) -> Text {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version).into()
        }
    }

    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_set_iterates_in_order() {
        let verbs = Verbs::from_verbs(&[Verb::Watch, Verb::Create, Verb::Get]);
        let names: Vec<_> = verbs.iter().map(Verb::as_str).collect();
        assert_eq!(names, ["create", "get", "watch"]);
        assert!(!verbs.contains(Verb::Delete));
    }
}
