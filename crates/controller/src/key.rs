//! `ObjectKey`: the namespace and name of the object that a reconcile is for. It contains nothing
//! about events.

use kube::Resource;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The namespace and the name of an object of a known kind.
///
/// ```
/// use optik_controller::ObjectKey;
/// let key = ObjectKey::new("default", "nightly");
/// assert_eq!(key.to_string(), "default/nightly");
/// assert_eq!(ObjectKey::cluster_scoped("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Empty if the kind is cluster-scoped.
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// Creates the key of a namespaced object.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// assert_eq!(ObjectKey::new("default", "nightly").to_string(), "default/nightly");
    /// ```
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Creates the key of a cluster-scoped object.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// assert_eq!(ObjectKey::cluster_scoped("node-1").to_string(), "node-1");
    /// ```
    pub fn cluster_scoped(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }

    /// Returns the key of an object, or `None` if the object has no name.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// let mut map = ConfigMap::default();
    /// assert_eq!(ObjectKey::from_object(&map), None);
    /// map.metadata.name = Some("a".into());
    /// assert_eq!(ObjectKey::from_object(&map), Some(ObjectKey::cluster_scoped("a")));
    /// ```
    pub fn from_object<K: Resource>(object: &K) -> Option<Self> {
        let meta = object.meta();
        let name = meta.name.as_deref()?;
        Some(Self::new(meta.namespace.as_deref().unwrap_or(""), name))
    }

    /// The namespace, or `None` if the kind is cluster-scoped.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// assert_eq!(ObjectKey::new("default", "nightly").namespace(), Some("default"));
    /// ```
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }

    /// The name.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// assert_eq!(ObjectKey::new("default", "nightly").name(), "nightly");
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// A key that sorts before all keys of a namespace.
    pub(crate) fn namespace_start(namespace: &str) -> Self {
        Self::new(namespace, "")
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // Keys of a cache share their namespace strings, so the pointers are often equal.
        let same = Arc::ptr_eq(&self.namespace, &other.namespace);
        let namespaces = if same {
            Ordering::Equal
        } else {
            self.namespace.cmp(&other.namespace)
        };
        namespaces.then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
