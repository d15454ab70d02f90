//! The RBAC policy: all roles and bindings at one revision, with compiled rules per user.

use super::grants::Grants;
use super::policy_rule::PolicyRule;
use super::roles::{Role, RoleBinding, RoleKind, RoleRef, Subject};
use crate::attributes::AuthorizationAttributes;
use crate::user::{User, service_account_name};
use optik_object::quote;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

/// Number of cached users; above it, the whole cache is cleared.
const USERS_MAX: usize = 10_000;
/// Number of cached namespaces per user.
const NAMESPACES_PER_USER_MAX: usize = 1_000;

/// A decision and its reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RbacDecision {
    pub allowed: bool,
    pub reason: String,
}

/// Namespace and name; the namespace is empty for cluster-scoped objects.
type NamespacedKey = (Box<str>, Box<str>);

/// An RBAC policy. Immutable except for its cache of compiled rules.
#[derive(Debug, Default)]
pub struct Policy {
    table: RoleTable,
    /// Bindings by subject: user, group or service account.
    by_user: BTreeMap<String, BTreeSet<NamespacedKey>>,
    by_group: BTreeMap<String, BTreeSet<NamespacedKey>>,
    users: RwLock<BTreeMap<String, Vec<UserGrants>>>,
}

#[derive(Clone, Debug, Default)]
struct RoleTable {
    roles: BTreeMap<NamespacedKey, Arc<Role>>,
    bindings: BTreeMap<NamespacedKey, Arc<RoleBinding>>,
}

/// The cached rules of a user name. Credentials with the same name may have different groups.
#[derive(Debug)]
struct UserGrants {
    groups: Vec<String>,
    places: BTreeMap<Box<str>, Arc<Grants>>,
}

/// Builds the next policy from an existing one.
#[derive(Debug)]
pub struct PolicyEditor {
    table: RoleTable,
}

impl PolicyEditor {
    pub fn put_role(&mut self, role: Role) {
        let names = namespaced_key(&role.namespace, &role.name);
        self.table.roles.insert(names, Arc::new(role));
    }

    pub fn put_binding(&mut self, binding: RoleBinding) {
        let names = namespaced_key(&binding.namespace, &binding.name);
        self.table.bindings.insert(names, Arc::new(binding));
    }

    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        self.table.roles.remove(&namespaced_key(namespace, name));
    }

    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        self.table.bindings.remove(&namespaced_key(namespace, name));
    }

    #[must_use]
    pub fn finish(self) -> Policy {
        let mut policy = Policy {
            table: self.table,
            ..Policy::default()
        };
        for (names, binding) in &policy.table.bindings {
            for subject in &binding.subjects {
                let (by, name) = match subject.kind.as_str() {
                    "User" => (&mut policy.by_user, subject.name.clone()),
                    "Group" => (&mut policy.by_group, subject.name.clone()),
                    "ServiceAccount" => match service_account_user(subject, &binding.namespace) {
                        Some(name) => (&mut policy.by_user, name),
                        None => continue,
                    },
                    _ => continue,
                };
                by.entry(name).or_default().insert(names.clone());
            }
        }
        policy
    }
}

fn namespaced_key(namespace: &str, name: &str) -> NamespacedKey {
    (namespace.into(), name.into())
}

/// The user name of a service account subject.
fn service_account_user(subject: &Subject, binding_namespace: &str) -> Option<String> {
    let namespace = match subject.namespace.as_str() {
        "" => binding_namespace,
        namespace => namespace,
    };
    (!namespace.is_empty()).then(|| service_account_name(namespace, &subject.name))
}

impl Policy {
    #[must_use]
    pub fn edit(&self) -> PolicyEditor {
        let book = self.table.clone();
        PolicyEditor { table: book }
    }

    pub fn cluster_roles(&self) -> impl Iterator<Item = &Role> + Clone {
        let roles = self.table.roles.iter();
        let roles = roles.filter(|((namespace, _), _)| namespace.is_empty());
        roles.map(|(_, role)| &**role)
    }

    /// Whether a request is allowed. Costs a few lookups once the user's rules are cached.
    #[must_use]
    pub fn allows(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> bool {
        let namespace = asked.namespace();
        user.is_master()
            || self.with_grants(user, "", |grants| grants.allows(asked))
            || (!namespace.is_empty()
                && self.with_grants(user, namespace, |grants| grants.allows(asked)))
    }

    /// Why a request may have been denied: the bound roles that do not exist. Usually empty.
    #[must_use]
    pub fn unresolved_roles(&self, user: &User, namespace: &str) -> String {
        let errors_at = |place: &str| self.with_grants(user, place, |grants| grants.errors.clone());
        let mut errors = errors_at("");
        if !namespace.is_empty() {
            errors.extend(errors_at(namespace));
        }
        // Each message is reported once.
        let mut seen = BTreeSet::new();
        errors.retain(|error| seen.insert(error.clone()));
        match errors.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        }
    }

    /// The same decision as [`Self::allows`], with the binding that allows the request.
    #[must_use]
    pub fn decide(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> RbacDecision {
        if user.is_master() {
            return RbacDecision {
                allowed: true,
                reason: String::new(),
            };
        }
        let namespace = asked.namespace();
        for (binding, subject) in self.bindings_of(user, namespace) {
            let Ok(role) = self.role(&binding.role, &binding.namespace) else {
                continue;
            };
            if role.rules.iter().any(|rule| rule.allows(asked)) {
                let reason = format!("RBAC: allowed by {}", describe_binding(binding, subject));
                return RbacDecision {
                    allowed: true,
                    reason,
                };
            }
        }
        RbacDecision {
            allowed: false,
            reason: self.unresolved_roles(user, namespace),
        }
    }

    /// All rules that apply to a user in a namespace, in the order of the bindings, and the errors
    /// of bindings that could not be resolved.
    #[must_use]
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for (binding, _) in self.bindings_of(user, namespace) {
            match self.role(&binding.role, &binding.namespace) {
                Ok(role) => rules.extend(role.rules.iter().cloned()),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }

    /// Resolves the role reference of a binding in a namespace.
    ///
    /// # Errors
    /// The message, if the role does not exist.
    pub fn role(&self, reference: &RoleRef, namespace: &str) -> Result<&Role, String> {
        let (namespace, plural) = match reference.kind() {
            Some(RoleKind::Role) => (namespace, "role"),
            Some(RoleKind::ClusterRole) => ("", "clusterrole"),
            None => {
                let kind = quote(&reference.kind);
                return Err(format!("unsupported role reference kind: {kind}"));
            }
        };
        let found = self
            .table
            .roles
            .get(&namespaced_key(namespace, &reference.name));
        found.map(|role| &**role).ok_or_else(|| {
            let name = quote(&reference.name);
            format!("{plural}.rbac.authorization.k8s.io {name} not found")
        })
    }

    /// The bindings that apply to a user: cluster-wide ones, then those of a namespace, each with
    /// the first subject that matches the user.
    fn bindings_of<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a RoleBinding, &'a Subject)> {
        let mut found = self.bindings_at(user, "");
        if !namespace.is_empty() {
            found.extend(self.bindings_at(user, namespace));
        }
        found.into_iter().filter_map(|binding| {
            let applies = |subject: &&Subject| is_subject(subject, user, &binding.namespace);
            let subject = binding.subjects.iter().find(applies)?;
            Some((binding, subject))
        })
    }

    fn bindings_at(&self, user: &User, namespace: &str) -> Vec<&RoleBinding> {
        let by_group = user
            .groups
            .iter()
            .filter_map(|group| self.by_group.get(group));
        let sets = self.by_user.get(&user.name).into_iter().chain(by_group);
        let first = namespaced_key(namespace, "");
        let mut found = BTreeSet::new();
        for set in sets {
            let there = set
                .range(&first..)
                .take_while(|(place, _)| **place == *namespace);
            found.extend(there);
        }
        let bindings = found
            .into_iter()
            .filter_map(|names| self.table.bindings.get(names));
        bindings.map(|binding| &**binding).collect()
    }

    /// Calls `then` with the compiled rules of a user in one scope: a namespace, or the whole
    /// cluster.
    fn with_grants<T>(&self, user: &User, place: &str, then: impl Fn(&Grants) -> T) -> T {
        {
            let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
            let known = users.get(&user.name).into_iter().flatten();
            let mut known = known.filter(|known| known.groups == user.groups);
            if let Some(grants) = known.next().and_then(|known| known.places.get(place)) {
                return then(grants);
            }
        }
        let grants = Arc::new(self.compile(user, place));
        let answer = then(&grants);
        self.remember(user, place, grants);
        answer
    }

    fn compile(&self, user: &User, place: &str) -> Grants {
        let mut grants = Grants::default();
        for binding in self.bindings_at(user, place) {
            match self.role(&binding.role, &binding.namespace) {
                Ok(role) => role.rules.iter().for_each(|rule| grants.add(rule)),
                Err(error) => grants.errors.push(error),
            }
        }
        grants
    }

    fn remember(&self, user: &User, place: &str, grants: Arc<Grants>) {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        if users.len() >= USERS_MAX {
            users.clear();
        }
        let of_name = users.entry(user.name.clone()).or_default();
        // Bounds the cache when one user name comes with ever different groups.
        if of_name.len() >= NAMESPACES_PER_USER_MAX {
            of_name.clear();
        }
        let at = of_name.iter().position(|known| known.groups == user.groups);
        let at = at.unwrap_or_else(|| {
            of_name.push(UserGrants {
                groups: user.groups.clone(),
                places: BTreeMap::new(),
            });
            of_name.len() - 1
        });
        let places = &mut of_name[at].places;
        if places.len() >= NAMESPACES_PER_USER_MAX {
            places.clear();
        }
        places.insert(place.into(), grants);
    }
}

fn is_subject(subject: &Subject, user: &User, binding_namespace: &str) -> bool {
    match subject.kind.as_str() {
        "User" => subject.name == user.name,
        "Group" => user.has_group(&subject.name),
        "ServiceAccount" => {
            service_account_user(subject, binding_namespace).is_some_and(|name| name == user.name)
        }
        _ => false,
    }
}

/// `RoleBinding "rb1/default" of Role "r1" to User "bob"`
fn describe_binding(binding: &RoleBinding, subject: &Subject) -> String {
    let (kind, name) = match binding.namespace.as_str() {
        "" => ("ClusterRoleBinding", binding.name.clone()),
        namespace => ("RoleBinding", format!("{}/{namespace}", binding.name)),
    };
    let who = match (subject.kind.as_str(), subject.namespace.as_str()) {
        ("ServiceAccount", "") => format!("{}/{}", subject.name, binding.namespace),
        ("ServiceAccount", namespace) => format!("{}/{namespace}", subject.name),
        _ => subject.name.clone(),
    };
    format!(
        "{kind} {} of {} {} to {} {}",
        quote(&name),
        binding.role.kind,
        quote(&binding.role.name),
        subject.kind,
        quote(&who)
    )
}
