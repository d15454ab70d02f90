//! Run loops beside requests: CRDs, APIServices, refreshed configurations.

pub(crate) mod admission_refresher;
pub(crate) mod apiservice_controller;
pub(crate) mod auth_refresher;
pub(crate) mod crd_controller;
pub(crate) mod refresher;
