//! `ApiObject`: the Rust types of kinds that controllers can use. `KindInfo`: a kind at run time.

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::TypeId;
use std::fmt::Debug;

/// A kind that controllers can use: every type of `k8s-openapi`, every type that derives
/// `kube::CustomResource`, and `PartialObjectMeta` of any of them, of which only the metadata is
/// watched and cached.
///
/// ```
/// fn is_kind<K: optik_controller::ApiObject>() {}
/// is_kind::<k8s_openapi::api::apps::v1::Deployment>();
/// is_kind::<kube::core::PartialObjectMeta<k8s_openapi::api::core::v1::Pod>>();
/// ```
pub trait ApiObject:
    Resource<DynamicType = (), Scope: 'static>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
}

impl<K> ApiObject for K where
    K: Resource<DynamicType = (), Scope: 'static>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// A kind at run time, without its Rust type.
#[derive(Clone, Debug)]
pub(crate) struct KindInfo {
    pub(crate) api_version: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Only metadata is requested from the server.
    pub(crate) metadata_only: bool,
    path: fn(Option<&str>) -> String,
}

impl KindInfo {
    pub(crate) fn for_type<K: ApiObject>() -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespaced: TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>(),
            metadata_only: K::metadata_api(),
            path: |namespace| K::url_path(&(), namespace),
        }
    }

    /// The path of the collection, in one namespace or in all of them.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        (self.path)(namespace.filter(|_| self.namespaced))
    }
}
