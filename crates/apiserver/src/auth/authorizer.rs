//! The authorizer: decides requests by the compiled RBAC policy.

use crate::auth::auth_options::AuthorizationMode;
use optik_auth::{
    AuthorizationAttributes, Policy, RbacDecision, Role, RoleBinding, User, authorize_without_rbac,
    impersonation,
};
use optik_catalog::key_prefix;
use optik_object::Status;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The directories of roles and bindings in the store.
pub(crate) const RBAC_DIRECTORIES: [&str; 4] = [
    key_prefix("rbac.authorization.k8s.io", "clusterrolebindings"),
    key_prefix("rbac.authorization.k8s.io", "clusterroles"),
    key_prefix("rbac.authorization.k8s.io", "rolebindings"),
    key_prefix("rbac.authorization.k8s.io", "roles"),
];

pub(crate) struct RbacAuthorizer {
    mode: AuthorizationMode,
    policy: watch::Sender<Arc<Policy>>,
    compiled: Mutex<PolicyRevisions>,
}

/// The revisions of the roles and bindings that the policy was compiled from.
#[derive(Default)]
struct PolicyRevisions {
    at: Revision,
    /// By key.
    revisions: BTreeMap<Vec<u8>, Revision>,
}

impl RbacAuthorizer {
    pub(crate) fn new(authorization: AuthorizationMode) -> Self {
        Self {
            mode: authorization,
            policy: watch::Sender::default(),
            compiled: Mutex::default(),
        }
    }

    pub(crate) fn uses_rbac(&self) -> bool {
        self.mode == AuthorizationMode::Rbac
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }

    pub(crate) fn allows(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> bool {
        match self.mode {
            AuthorizationMode::AlwaysAllow => authorize_without_rbac(user, asked),
            AuthorizationMode::Rbac => user.is_master() || self.policy.borrow().allows(user, asked),
        }
    }

    /// Returns 403 Forbidden if the user is not allowed to make the request.
    pub(crate) fn check(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<(), Status> {
        if self.allows(user, asked) {
            return Ok(());
        }
        Err(asked.forbidden(user, &self.denial_reason(user, asked)))
    }

    fn denial_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> String {
        match self.mode {
            AuthorizationMode::AlwaysAllow => String::new(),
            AuthorizationMode::Rbac => self
                .policy
                .borrow()
                .unresolved_roles(user, asked.namespace()),
        }
    }

    /// Authorizes a request and gives the reason.
    pub(crate) fn authorize(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> RbacDecision {
        match self.mode {
            AuthorizationMode::Rbac => self.policy.borrow().decide(user, asked),
            AuthorizationMode::AlwaysAllow => RbacDecision {
                allowed: authorize_without_rbac(user, asked),
                reason: String::new(),
            },
        }
    }

    /// Updates the policy to a snapshot. May be called concurrently and with any snapshot; a
    /// snapshot older than the policy is ignored.
    pub(crate) fn refresh(&self, state: &Snapshot) {
        if !self.uses_rbac() {
            return;
        }
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if state.revision() < known.at {
            return;
        }
        // The revisions change together with the policy, at the end. A panic before that leaves
        // both as they were: otherwise a change would count as processed that is not in the policy,
        // and a revoked right would be kept for good.
        let before = &known.revisions;
        let mut gone: BTreeMap<&[u8], Revision> =
            before.iter().map(|(key, at)| (&key[..], *at)).collect();
        let mut revisions = BTreeMap::new();
        let mut editor = None;
        let old = self.policy();
        for directory in RBAC_DIRECTORIES {
            for version in state.entries(&KeyRange::prefix(directory)) {
                let (key, revision) = (version.key(), version.mod_revision());
                let before = gone.remove(&key[..]);
                revisions.insert(key.to_vec(), revision);
                if before == Some(revision) {
                    continue;
                }
                let editor = editor.get_or_insert_with(|| old.edit());
                let value = version.value();
                let read = match directory.ends_with("roles/") {
                    true => Role::from_json(value).map(|role| editor.put_role(role)),
                    false => {
                        RoleBinding::from_json(value).map(|binding| editor.put_binding(binding))
                    }
                };
                if let Err(error) = read {
                    let key = String::from_utf8_lossy(key);
                    tracing::error!(%key, %error, "stored RBAC object cannot be decoded; it grants no permissions");
                    // The previous version of the object no longer counts either.
                    remove_from_policy(editor, directory, version.key());
                }
            }
        }
        for (key, _) in gone {
            let directory = RBAC_DIRECTORIES
                .iter()
                .find(|directory| key.starts_with(directory.as_bytes()));
            let editor = editor.get_or_insert_with(|| old.edit());
            remove_from_policy(editor, directory.unwrap_or(&""), key);
        }
        if let Some(editor) = editor {
            self.policy.send_replace(Arc::new(editor.finish()));
        }
        known.at = state.revision();
        known.revisions = revisions;
    }
}

fn remove_from_policy(editor: &mut optik_auth::PolicyEditor, directory: &str, key: &[u8]) {
    let rest = key.get(directory.len()..).unwrap_or_default();
    let rest = String::from_utf8_lossy(rest);
    let (namespace, name) = match directory.contains("/cluster") {
        true => ("", &*rest),
        false => rest.split_once('/').unwrap_or(("", &rest)),
    };
    match directory.ends_with("roles/") {
        true => editor.remove_role(namespace, name),
        false => editor.remove_binding(namespace, name),
    }
}

impl impersonation::ImpersonationAuthorizer for RbacAuthorizer {
    fn denial_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Option<String> {
        (!self.allows(user, asked)).then(|| RbacAuthorizer::denial_reason(self, user, asked))
    }
}
