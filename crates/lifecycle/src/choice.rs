//! Which controllers run, in the words of kube-controller-manager.

use crate::{
    Authorities, Furniture, keep_aggregated_roles, keep_collecting, keep_counting, keep_furnished,
    keep_namespaces, keep_policies_checked,
};
use futures::future::{BoxFuture, FutureExt};
use optik_apiserver::ApiServer;
use optik_store::Store;
use optik_supervisor::{Supervisor, Task};
use std::collections::BTreeSet;
use tokio::sync::watch;

const NAMESPACE: &str = "namespace-controller";
const GARBAGE: &str = "garbage-collector-controller";
const ACCOUNT: &str = "serviceaccount-controller";
const CERTIFICATE: &str = "root-ca-certificate-publisher-controller";
const QUOTA: &str = "resourcequota-controller";
const ROLES: &str = "clusterrole-aggregation-controller";
const POLICIES: &str = "validatingadmissionpolicy-status-controller";

/// Every controller by name.
pub const CONTROLLERS: &[&str] = &[
    NAMESPACE,
    GARBAGE,
    ACCOUNT,
    CERTIFICATE,
    QUOTA,
    ROLES,
    POLICIES,
];

/// The controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice(BTreeSet<&'static str>);

impl Default for Choice {
    /// All of them.
    fn default() -> Self {
        Self(CONTROLLERS.iter().copied().collect())
    }
}

impl Choice {
    /// `*` is all, `name` is one more, `-name` one less. The words count, not their order.
    ///
    /// # Errors
    /// Names a word that is no controller.
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
                    "{name} is no controller; there are: {}",
                    CONTROLLERS.join(", ")
                )
            })?;
            target.insert(*known);
        }
        Ok(Self(on.difference(&off).copied().collect()))
    }

    /// Runs them, each under its name. By `authorities` pods know the server.
    pub fn start(
        &self,
        supervisor: &Supervisor,
        api: &ApiServer,
        store: &Store,
        authorities: &watch::Receiver<Authorities>,
    ) {
        for name in self.0.iter().copied() {
            let (api, store) = (api.clone(), store.clone());
            let own = authorities.clone();
            let start = move || controller(name, api.clone(), store.clone(), &own);
            supervisor.spawn(Task::upkeep(name), start);
        }
    }
}

/// The work of a controller, which begins with a look at the whole state.
fn controller(
    name: &str,
    api: ApiServer,
    store: Store,
    own: &watch::Receiver<Authorities>,
) -> BoxFuture<'static, ()> {
    match name {
        ROLES => keep_aggregated_roles(api, store).boxed(),
        POLICIES => keep_policies_checked(api, store).boxed(),
        NAMESPACE => keep_namespaces(api, store).boxed(),
        GARBAGE => keep_collecting(api, store).boxed(),
        ACCOUNT => keep_furnished(api, store, Furniture::account()).boxed(),
        CERTIFICATE => keep_furnished(api, store, Furniture::certificate(own)).boxed(),
        _ => keep_counting(api, store).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(Choice::parse(["*"]), Ok(Choice::default()));
        assert_eq!(Choice::parse([]).unwrap().0.len(), 0);
        let some = Choice::parse(["-garbage-collector-controller", "*"]).unwrap();
        assert_eq!(some.0.len(), CONTROLLERS.len() - 1);
        assert!(
            Choice::parse(["x"])
                .unwrap_err()
                .starts_with("x is no controller")
        );
    }
}
