//! Background loops: CRD controller, APIService controller, refreshers of compiled configuration.

pub(crate) mod admission_refresher;
pub(crate) mod apiservice_controller;
pub(crate) mod auth_refresher;
pub(crate) mod crd_controller;
pub(crate) mod refresher;
