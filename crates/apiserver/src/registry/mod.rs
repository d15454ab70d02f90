//! Served resources: built-in kinds and CRDs, label selectors, the scale subresource, conversion.

pub(crate) mod collections;
pub(crate) mod compiled;
pub(crate) mod crd;
pub(crate) mod label_selector;
pub(crate) mod lease_manager;
pub(crate) mod registry_handle;
pub(crate) mod scale;
pub(crate) mod served_resource;
pub(crate) mod storage_conversion;
