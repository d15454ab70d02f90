//! Decisions about requests.

use super::options::Authorization;
use optik_access::{
    Attributes, Binding, Decision, Policy, Role, User, impersonation, without_roles,
};
use optik_object::Status;
use optik_store::{KeyRange, Revision, Snapshot};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Where roles and bindings are kept.
pub(crate) const DIRECTORIES: [&str; 4] = [
    "/registry/clusterrolebindings/",
    "/registry/clusterroles/",
    "/registry/rolebindings/",
    "/registry/roles/",
];

pub(crate) struct Gate {
    authorization: Authorization,
    policy: watch::Sender<Arc<Policy>>,
    known: Mutex<Known>,
}

/// What the policy is made of.
#[derive(Default)]
struct Known {
    at: Revision,
    /// By key.
    revisions: BTreeMap<Vec<u8>, Revision>,
}

impl Gate {
    pub(crate) fn new(authorization: Authorization) -> Self {
        Self {
            authorization,
            policy: watch::Sender::default(),
            known: Mutex::default(),
        }
    }

    pub(crate) fn has_roles(&self) -> bool {
        self.authorization == Authorization::Rbac
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Policy>> {
        self.policy.subscribe()
    }

    pub(crate) fn allows(&self, user: &User, asked: &Attributes<'_>) -> bool {
        match self.authorization {
            Authorization::AlwaysAllow => without_roles(user, asked),
            Authorization::Rbac => user.is_master() || self.policy.borrow().allows(user, asked),
        }
    }

    /// 403 unless the user may.
    pub(crate) fn check(&self, user: &User, asked: &Attributes<'_>) -> Result<(), Status> {
        if self.allows(user, asked) {
            return Ok(());
        }
        Err(asked.refuse(user, &self.reason_against(user, asked)))
    }

    fn reason_against(&self, user: &User, asked: &Attributes<'_>) -> String {
        match self.authorization {
            Authorization::AlwaysAllow => String::new(),
            Authorization::Rbac => self.policy.borrow().reason_against(user, asked.namespace()),
        }
    }

    /// With the reason, for those who ask.
    pub(crate) fn decide(&self, user: &User, asked: &Attributes<'_>) -> Decision {
        match self.authorization {
            Authorization::Rbac => self.policy.borrow().decide(user, asked),
            Authorization::AlwaysAllow => Decision {
                allowed: without_roles(user, asked),
                reason: String::new(),
            },
        }
    }

    /// Brings the policy to what a snapshot says. Called with any snapshot, at any time,
    /// by anybody; what is known to be newer stays.
    pub(crate) fn catch_up(&self, state: &Snapshot) {
        if !self.has_roles() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if state.revision() < known.at {
            return;
        }
        // What is known changes with the policy, at the end. A panic before that leaves both
        // as they were: otherwise a change would count as seen that is in no policy, and a
        // right that was taken away would be kept for good.
        let before = &known.revisions;
        let mut gone: BTreeMap<&[u8], Revision> =
            before.iter().map(|(key, at)| (&key[..], *at)).collect();
        let mut revisions = BTreeMap::new();
        let mut editor = None;
        let old = self.policy();
        for directory in DIRECTORIES {
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
                    true => Role::read(value).map(|role| editor.put_role(role)),
                    false => Binding::read(value).map(|binding| editor.put_binding(binding)),
                };
                if let Err(error) = read {
                    let key = String::from_utf8_lossy(key);
                    tracing::error!(%key, %error, "what is stored there allows nothing");
                    // What it said before does not count either.
                    remove(editor, directory, version.key());
                }
            }
        }
        for (key, _) in gone {
            let directory = DIRECTORIES
                .iter()
                .find(|directory| key.starts_with(directory.as_bytes()));
            let editor = editor.get_or_insert_with(|| old.edit());
            remove(editor, directory.unwrap_or(&""), key);
        }
        if let Some(editor) = editor {
            self.policy.send_replace(Arc::new(editor.finish()));
        }
        known.at = state.revision();
        known.revisions = revisions;
    }
}

fn remove(editor: &mut optik_access::PolicyEditor, directory: &str, key: &[u8]) {
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

impl impersonation::Judge for Gate {
    fn reason_against(&self, user: &User, asked: &Attributes<'_>) -> Option<String> {
        (!self.allows(user, asked)).then(|| Gate::reason_against(self, user, asked))
    }
}
