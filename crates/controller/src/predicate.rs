//! Predicates: which updates of an object lead to a reconcile. Counterpart of controller-runtime's
//! predicates.

use crate::cache_entry::CacheEntry;
use crate::kind::ApiObject;
use crate::kind_cache::CacheChange;
use std::fmt;
use std::sync::Arc;

/// A filter on the old and the new version of an object. It applies only to updates: that an object
/// is created, starts to be deleted, or is gone cannot be filtered out.
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

    /// Matches all changes except of the status. This is the default for primary objects. It works
    /// for kinds without a generation, too.
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

    /// Matches all changes.
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

    /// Matches changes of `metadata.generation`, that is, of the desired state.
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

    /// Matches changes of the labels.
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

    /// Matches changes of the annotations.
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

    /// Matches changes of the finalizers.
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

    /// Matches if a function of the old and the new object returns `true`. It decodes two objects
    /// for each update.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// let data = Predicate::from_fn(|old: &ConfigMap, new: &ConfigMap| old.data != new.data);
    /// # let _ = data;
    /// ```
    pub fn from_fn<K: ApiObject>(
        question: impl Fn(&K, &K) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |old, new| match (old.decode(), new.decode()) {
            (Ok(old), Ok(new)) => question(&old, &new),
            // The reconcile that decodes the object reports the error.
            _ => true,
        })
    }

    /// Matches if at least one of the two predicates matches.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// let _ = Predicate::labels().or(Predicate::annotations());
    /// ```
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) || (other.0)(old, new))
    }

    /// Matches if both predicates match.
    ///
    /// ```
    /// # use optik_controller::Predicate;
    /// let _ = Predicate::labels().and(Predicate::annotations());
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |old, new| (self.0)(old, new) && (other.0)(old, new))
    }

    /// Matches if this predicate does not match.
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
