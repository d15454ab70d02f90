use crate::sync::Arc;
use std::collections::BTreeSet;

/// The origin of a write, stored with its revision.
///
/// The store does not interpret it; it answers the question "who changed this?".
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    pub user: String,
    pub agent: String,
    pub manager: String,
    pub verb: String,
}

/// The maximum length of a part; longer ones are truncated. An origin must not cost more than the
/// write it describes.
pub(crate) const ORIGIN_PART_BYTES_MAX: usize = 256;

impl Origin {
    /// The origin of a write by the system itself, such as a lease expiry.
    #[must_use]
    pub fn system(verb: &str) -> Self {
        Self {
            user: "system:optik".into(),
            agent: "optik".into(),
            manager: String::new(),
            verb: verb.into(),
        }
    }

    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn parts(&self) -> [&str; 4] {
        [&self.user, &self.agent, &self.manager, &self.verb].map(|part| {
            let mut end = part.len().min(ORIGIN_PART_BYTES_MAX);
            while !part.is_char_boundary(end) {
                end -= 1;
            }
            &part[..end]
        })
    }

    fn truncate(&mut self) {
        let [user, agent, manager, verb] = self.parts().map(str::len);
        self.user.truncate(user);
        self.agent.truncate(agent);
        self.manager.truncate(manager);
        self.verb.truncate(verb);
    }

    pub(crate) fn from_parts(parts: [&str; 4]) -> Self {
        let [user, agent, manager, verb] = parts.map(str::to_owned);
        Self {
            user,
            agent,
            manager,
            verb,
        }
    }
}

/// Deduplicates origins: a cluster has few writers and many writes.
#[derive(Debug, Default)]
pub(crate) struct OriginInterner {
    interned: BTreeSet<Arc<Origin>>,
}

/// The set is cleared when it exceeds this size; origins in use stay alive.
const ORIGINS_MAX: usize = 4096;

impl OriginInterner {
    pub(crate) fn intern(&mut self, mut origin: Origin) -> Option<Arc<Origin>> {
        if origin.is_unknown() {
            return None;
        }
        // Truncated here, so that it is the same before and after a restart.
        origin.truncate();
        if let Some(known) = self.interned.get(&origin) {
            return Some(Arc::clone(known));
        }
        if self.interned.len() >= ORIGINS_MAX {
            self.interned.clear();
        }
        let fresh = Arc::new(origin);
        self.interned.insert(Arc::clone(&fresh));
        Some(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_origins_share_one_allocation() {
        let mut origins = OriginInterner::default();
        let first = origins.intern(Origin::system("expire")).expect("known");
        let second = origins.intern(Origin::system("expire")).expect("known");
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(origins.intern(Origin::default()), None);
    }

    #[test]
    fn long_origin_parts_are_truncated_at_char_boundary() {
        let long = Origin {
            user: "é".repeat(400),
            ..Origin::default()
        };
        assert_eq!(long.parts()[0].len(), ORIGIN_PART_BYTES_MAX);
        assert!(long.parts()[0].chars().all(|c| c == 'é'));
    }
}
