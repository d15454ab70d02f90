//! Which changes are worth a reconcile.

use crate::cache_entry::CacheEntry;
use crate::kind::ApiObject;
use crate::kind_cache::CacheChange;
use std::fmt;
use std::sync::Arc;

/// A question about what an object was and what it is. Only changes are asked about:
/// that an object appears, is being deleted, or is gone can never be filtered out.
///
/// ```
/// # use optik_controller::Predicate;
/// let predicate = Predicate::generation().or(Predicate::labels());
/// # let _ = predicate;
/// ```
#[derive(Clone)]
pub struct Predicate(Arc<PredicateFn>);

type PredicateFn = dyn Fn(&CacheEntry, &CacheEntry) -> bool + Send + Sync;

impl Predicate {
    fn new(question: impl Fn(&CacheEntry, &CacheEntry) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(question))
    }

    /// Everything but the status: what a primary object is asked about unless something
    /// else is said. Works for kinds without a generation, too.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::ignore_status()
    /// # ;
    /// ```
    #[must_use]
    pub fn ignore_status() -> Self {
        Self::new(|old, new| old.fingerprints != new.fingerprints)
    }

    /// Any change at all.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::any()
    /// # ;
    /// ```
    #[must_use]
    pub fn any() -> Self {
        Self::new(|old, new| old.revision != new.revision || new.revision == 0)
    }

    /// The generation: what a person, or a controller, asked for.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::generation()
    /// # ;
    /// ```
    #[must_use]
    pub fn generation() -> Self {
        Self::new(|old, new| old.generation != new.generation)
    }

    /// The labels.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::labels()
    /// # ;
    /// ```
    #[must_use]
    pub fn labels() -> Self {
        Self::new(|old, new| old.fingerprints.labels != new.fingerprints.labels)
    }

    /// The annotations.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::annotations()
    /// # ;
    /// ```
    #[must_use]
    pub fn annotations() -> Self {
        Self::new(|old, new| old.fingerprints.annotations != new.fingerprints.annotations)
    }

    /// The finalizers.
    ///
    /// ```
    /// # let _ =
    /// optik_controller::Predicate::finalizers()
    /// # ;
    /// ```
    #[must_use]
    pub fn finalizers() -> Self {
        Self::new(|old, new| old.fingerprints.finalizers != new.fingerprints.finalizers)
    }

    /// A question of your own. It costs two decoded objects for each change.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// let data = Predicate::of(|old: &ConfigMap, new: &ConfigMap| old.data != new.data);
    /// # let _ = data;
    /// ```
    pub fn from_fn<K: ApiObject>(
        question: impl Fn(&K, &K) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |old, new| match (old.decode(), new.decode()) {
            (Ok(old), Ok(new)) => question(&old, &new),
            // Whoever reads it finds out.
            _ => true,
        })
    }

    /// Either is enough.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// let _ = Predicate::labels().or(Predicate::annotations());
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) || (other.0)(old, new))
    }

    /// Both are needed.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// let _ = Predicate::labels().and(Predicate::annotations());
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) && (other.0)(old, new))
    }

    /// The opposite.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// let _ = Predicate::labels().negated();
    /// ```
    #[must_use]
    pub fn negated(self) -> Self {
        Self::new(move |old, new| !(self.0)(old, new))
    }

    pub(crate) fn matches(&self, change: &CacheChange<'_>) -> bool {
        let (Some(old), Some(new)) = (change.old, change.new) else {
            return true;
        };
        let another = old.uid != new.uid;
        let dying = new.deleting && !old.deleting;
        another || dying || (self.0)(old, new)
    }
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}
