//! The owner graph of the garbage collector. It holds only objects with owner references: their
//! keys and their owners.

use std::collections::{BTreeMap, BTreeSet};

/// The storage key of an object.
pub(super) type Key = String;
type Uid = String;

/// An owner reference of a dependent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) uid: Uid,
    /// `None` while the kind of the owner is unknown.
    pub(super) key: Option<Key>,
    /// `blockOwnerDeletion`: a foreground deletion of the owner waits for this dependent.
    pub(super) blocks_deletion: bool,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    owners: BTreeMap<Key, Vec<Owner>>,
    dependents: BTreeMap<Uid, BTreeSet<Key>>,
    /// For the key of each owner, the uids that its dependents expect there.
    expected_uids: BTreeMap<Key, BTreeSet<Uid>>,
}

impl Graph {
    /// Sets the owners of an object; an empty list removes it. Returns the previous owners if they
    /// differ.
    pub(super) fn set(&mut self, key: &str, owners: Vec<Owner>) -> Vec<Owner> {
        if self.owners.get(key) == Some(&owners) {
            return Vec::new();
        }
        let before = self.forget(key);
        if owners.is_empty() {
            return before;
        }
        for owner in &owners {
            let dependents = self.dependents.entry(owner.uid.clone()).or_default();
            dependents.insert(key.to_owned());
            if let Some(place) = &owner.key {
                let expected = self.expected_uids.entry(place.clone()).or_default();
                expected.insert(owner.uid.clone());
            }
        }
        self.owners.insert(key.to_owned(), owners);
        before
    }

    /// Removes an object as a dependent. Returns its owners.
    pub(super) fn forget(&mut self, key: &str) -> Vec<Owner> {
        let owners = self.owners.remove(key).unwrap_or_default();
        for owner in &owners {
            // An object may name one owner twice, under different names.
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(key);
                if !dependents.is_empty() {
                    continue;
                }
            }
            self.dependents.remove(&owner.uid);
            if let Some(place) = &owner.key
                && let Some(expected) = self.expected_uids.get_mut(place)
            {
                expected.remove(&owner.uid);
                if expected.is_empty() {
                    self.expected_uids.remove(place);
                }
            }
        }
        owners
    }

    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// Returns the dependents that expect an owner at this key.
    pub(super) fn dependents_of_key(&self, place: &str) -> Vec<Key> {
        let uids = self.expected_uids.get(place).into_iter().flatten();
        let keys: BTreeSet<&Key> = uids.flat_map(|uid| self.dependents(uid)).collect();
        keys.into_iter().cloned().collect()
    }

    pub(super) fn has_dependents_of_key(&self, place: &str) -> bool {
        self.expected_uids.contains_key(place)
    }

    /// Returns every object that has an owner of an unknown kind.
    pub(super) fn unresolved(&self) -> Vec<Key> {
        let lost = self.owners.iter();
        let lost = lost.filter(|(_, owners)| owners.iter().any(|owner| owner.key.is_none()));
        lost.map(|(key, _)| key.clone()).collect()
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.dependents.is_empty() && self.expected_uids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner {
            uid: uid.into(),
            key: Some(format!("/{uid}")),
            blocks_deletion: true,
        }
    }

    #[test]
    fn graph_keeps_nothing_of_forgotten_objects() {
        let mut graph = Graph::default();
        assert!(graph.set("/a", vec![owner("x"), owner("y")]).is_empty());
        graph.set("/b", vec![owner("x")]);
        assert_eq!(graph.dependents("x").count(), 2);
        assert_eq!(graph.dependents_of_key("/x"), ["/a", "/b"]);
        let before = graph.set("/a", vec![owner("y")]);
        assert_eq!(before, [owner("x"), owner("y")]);
        assert_eq!(graph.dependents("x").collect::<Vec<_>>(), ["/b"]);
        assert!(graph.has_dependents_of_key("/y"));
        graph.set("/a", Vec::new());
        assert_eq!(graph.forget("/b"), [owner("x")]);
        assert!(graph.is_empty());
    }
}
