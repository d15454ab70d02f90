//! Paths and store keys of collections, for controllers and other parts that follow objects.

use crate::registry::served_resource::ServedResource;
use crate::server::ApiServer;
use optik_catalog::Verb;
use std::collections::BTreeSet;

/// The paths and store keys of the objects of a kind.
#[derive(Clone, Debug)]
pub struct Collection {
    /// `/api/v1`, `/apis/apps/v1`
    api_path: String,
    pub group: String,
    pub plural: String,
    pub kind: String,
    pub namespaced: bool,
    /// The key prefix of the collection.
    pub directory: String,
}

impl Collection {
    fn for_resource(kind: &ServedResource) -> Self {
        Self {
            api_path: kind.api_path(),
            group: kind.resource.group.to_string(),
            plural: kind.resource.plural.to_string(),
            kind: kind.resource.kind.to_string(),
            namespaced: kind.is_namespaced(),
            directory: kind.collection(None),
        }
    }

    /// The API path of the collection in a namespace.
    #[must_use]
    pub fn path(&self, namespace: &str) -> String {
        let Self {
            api_path, plural, ..
        } = self;
        format!("{api_path}/namespaces/{namespace}/{plural}")
    }

    /// The API path of the collection across namespaces.
    #[must_use]
    pub fn cluster_path(&self) -> String {
        format!("{}/{}", self.api_path, self.plural)
    }

    /// The API path of an object; the namespace is ignored for cluster-scoped kinds.
    #[must_use]
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        match self.namespaced {
            true => format!("{}/{name}", self.path(namespace)),
            false => format!("{}/{name}", self.cluster_path()),
        }
    }

    /// The store key of an object.
    #[must_use]
    pub fn object_key(&self, namespace: &str, name: &str) -> String {
        match self.namespaced {
            true => format!("{}{namespace}/{name}", self.directory),
            false => format!("{}{name}", self.directory),
        }
    }

    #[must_use]
    pub fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }
}

impl ApiServer {
    /// Every collection that can be deleted, each once.
    #[must_use]
    pub fn collections(&self) -> Vec<Collection> {
        self.collections_where(|kind| kind.resource.verbs.contains(Verb::DeleteCollection))
    }

    /// The collection of a custom resource; `None` for built-in kinds.
    #[must_use]
    pub fn custom_collection(&self, group: &str, plural: &str) -> Option<Collection> {
        let mut found = self
            .collections_where(|kind| kind.custom.is_some())
            .into_iter();
        found.find(|one| one.is_resource(group, plural))
    }

    /// Every collection, each once.
    #[must_use]
    pub fn all_collections(&self) -> Vec<Collection> {
        self.collections_where(|_| true)
    }

    fn collections_where(&self, wanted: impl Fn(&ServedResource) -> bool) -> Vec<Collection> {
        let mut directories = BTreeSet::new();
        let kinds = self.current_registry();
        let kinds = kinds.all.iter();
        let kinds = kinds.filter(|kind| {
            kind.is_stored() && wanted(kind) && directories.insert(kind.resource.key_prefix.clone())
        });
        kinds.map(|kind| Collection::for_resource(kind)).collect()
    }

    /// The collection of the objects with this apiVersion and kind; any version is accepted.
    #[must_use]
    pub fn collection_of(&self, api_version: &str, kind: &str) -> Option<Collection> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let kinds = self.current_registry();
        let mut all = kinds.all.iter();
        let found = all.find(|known| {
            known.is_stored() && known.resource.group == group && known.resource.kind == kind
        });
        found.map(|kind| Collection::for_resource(kind))
    }
}
