//! The set of enabled controllers, in the syntax of kube-controller-manager's `--controllers`.

use crate::{
    CaBundles, NamespaceDefault, run_clusterrole_aggregation_controller, run_garbage_collector,
    run_namespace_controller, run_namespace_default, run_quota_controller,
    run_validating_policy_status_controller,
};
use futures::future::{BoxFuture, FutureExt};
use optik_apiserver::ApiServer;
use optik_store::Store;
use optik_supervisor::{Supervisor, Task};
use std::collections::BTreeSet;
use tokio::sync::watch;

const NAMESPACE: &str = "namespace-controller";
const GARBAGE_COLLECTOR: &str = "garbage-collector-controller";
const SERVICE_ACCOUNT: &str = "serviceaccount-controller";
const ROOT_CA_PUBLISHER: &str = "root-ca-certificate-publisher-controller";
const RESOURCE_QUOTA: &str = "resourcequota-controller";
const CLUSTER_ROLE_AGGREGATION: &str = "clusterrole-aggregation-controller";
const VALIDATING_POLICY_STATUS: &str = "validatingadmissionpolicy-status-controller";

/// The names of all controllers.
pub const CONTROLLERS: &[&str] = &[
    NAMESPACE,
    GARBAGE_COLLECTOR,
    SERVICE_ACCOUNT,
    ROOT_CA_PUBLISHER,
    RESOURCE_QUOTA,
    CLUSTER_ROLE_AGGREGATION,
    VALIDATING_POLICY_STATUS,
];

/// The names of the enabled controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledControllers(BTreeSet<&'static str>);

impl Default for EnabledControllers {
    /// All controllers.
    fn default() -> Self {
        Self(CONTROLLERS.iter().copied().collect())
    }
}

impl EnabledControllers {
    /// Parses names: `*` enables all, `name` enables one, `-name` disables one. Order is
    /// irrelevant.
    ///
    /// # Errors
    /// Returns a word that names no controller.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut on, mut off) = (BTreeSet::new(), BTreeSet::new());
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            if word == "*" {
                on.extend(CONTROLLERS);
                continue;
            }
            let (name, target) = match word.strip_prefix('-') {
                Some(name) => (name, &mut off),
                None => (word, &mut on),
            };
            let known = CONTROLLERS.iter().find(|known| **known == name);
            let known = known.ok_or_else(|| {
                format!(
                    "unknown controller {name}; known controllers: {}",
                    CONTROLLERS.join(", ")
                )
            })?;
            target.insert(*known);
        }
        Ok(Self(on.difference(&off).copied().collect()))
    }

    /// Starts the enabled controllers. Pods verify the server with `authorities`.
    pub fn start(
        &self,
        supervisor: &Supervisor,
        api: &ApiServer,
        store: &Store,
        authorities: &watch::Receiver<CaBundles>,
    ) {
        for name in self.0.iter().copied() {
            let (api, store) = (api.clone(), store.clone());
            let own = authorities.clone();
            let start = move || run_controller(name, api.clone(), store.clone(), &own);
            supervisor.spawn(Task::upkeep(name), start);
        }
    }
}

/// Runs a controller, which begins with a list of the whole state.
fn run_controller(
    name: &str,
    api: ApiServer,
    store: Store,
    own: &watch::Receiver<CaBundles>,
) -> BoxFuture<'static, ()> {
    match name {
        CLUSTER_ROLE_AGGREGATION => run_clusterrole_aggregation_controller(api, store).boxed(),
        VALIDATING_POLICY_STATUS => run_validating_policy_status_controller(api, store).boxed(),
        NAMESPACE => run_namespace_controller(api, store).boxed(),
        GARBAGE_COLLECTOR => run_garbage_collector(api, store).boxed(),
        SERVICE_ACCOUNT => {
            run_namespace_default(api, store, NamespaceDefault::service_account()).boxed()
        }
        ROOT_CA_PUBLISHER => {
            run_namespace_default(api, store, NamespaceDefault::root_ca_config_map(own)).boxed()
        }
        _ => run_quota_controller(api, store).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_flag_parses_star_names_and_minus_names() {
        assert_eq!(
            EnabledControllers::parse(["*"]),
            Ok(EnabledControllers::default())
        );
        assert_eq!(EnabledControllers::parse([]).unwrap().0.len(), 0);
        let some = EnabledControllers::parse(["-garbage-collector-controller", "*"]).unwrap();
        assert_eq!(some.0.len(), CONTROLLERS.len() - 1);
        assert!(
            EnabledControllers::parse(["x"])
                .unwrap_err()
                .starts_with("unknown controller x")
        );
    }
}
