//! One resource in one version, as requests and discovery see it.

use crate::field_selectors::SelectableFields;
use crate::scale::ScaleMapping;
use crate::strategy_options::StrategyOptions;
use optik_object::ResourceName;
pub use optik_object::Verb;
use std::borrow::Cow;

/// Borrowed for built-in kinds, owned for kinds made at run time.
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
    /// In the order of discovery.
    pub verb_order: &'static [Verb],
    /// What keys of its objects begin with: `/registry/configmaps/`. `None` if nothing is
    /// kept, as for reviews.
    pub key_prefix: Option<Text>,
    pub strategy_options: StrategyOptions,
    pub selectable_fields: SelectableFields,
    /// What its `scale` shows, if it has one.
    pub scale: Option<ScaleMapping>,
    /// What a table shows besides the name, as a definition says; empty for built-in kinds.
    pub columns: Vec<PrinterColumn>,
}

/// A column of a table that is filled from a path of the object.
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
    /// What it answers with.
    pub kind: ResponseKind,
}

/// What a subresource does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceAction {
    /// Changes `status`.
    Status,
    /// Approves a request for a certificate, or denies it.
    Approve,
    /// Empties the finalizers of `spec`.
    Finalize,
    /// Shows and changes the number of replicas.
    Scale,
    /// Gives a pod to a node.
    Bind,
    /// Takes a pod away if its budget allows that.
    Evict,
    /// Adds containers for a look inside.
    EphemeralContainers,
    /// Changes what containers may use.
    Resize,
    /// Makes a token for a service account.
    Token,
    /// Asks for something that runs on a node.
    Connect(ConnectTarget),
    /// Shows the object itself; writes to it are not served yet.
    ReadOnly,
    /// Not served yet.
    Unserved,
}

/// What on a node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectTarget {
    /// What a container said.
    Log,
    /// A program in a container.
    ExecOrAttach,
    /// A port of a pod.
    PortForward,
    /// HTTP behind an object.
    Proxy,
}

/// A kind; an empty group and version are those of the resource.
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

    /// In another order.
    pub fn iter_as(self, order: &'static [Verb]) -> impl Iterator<Item = Verb> {
        order
            .iter()
            .copied()
            .filter(move |verb| self.contains(*verb))
    }
}

impl ApiResource {
    /// What errors call it.
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
