//! What the runtime must know of a kind.

use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::TypeId;
use std::fmt::Debug;

/// A kind that controllers work with: everything in `k8s-openapi`, every type that
/// derives `kube::CustomResource`, and `PartialObjectMeta` of any of them, of which only
/// the metadata is watched and kept.
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

/// A kind without its Rust type.
#[derive(Clone, Debug)]
pub(crate) struct KindInfo {
    pub(crate) api_version: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
    /// Only metadata is asked for.
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

    /// Where the objects are, of one namespace or of all.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        (self.path)(namespace.filter(|_| self.namespaced))
    }
}
