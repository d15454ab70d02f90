//! What a reconciler is called for: the name of an object, and nothing about events.

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
/// assert_eq!(ObjectKey::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Empty if the kind has none.
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// An object in a namespace.
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

    /// An object of a kind without namespaces.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// assert_eq!(ObjectKey::cluster("node-1").to_string(), "node-1");
    /// ```
    pub fn cluster_scoped(name: impl Into<Arc<str>>) -> Self {
        Self::new("", name)
    }

    /// The key of an object that has a name.
    ///
    /// ```
    /// # use optik_controller::ObjectKey;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// let mut map = ConfigMap::default();
    /// assert_eq!(ObjectKey::of(&map), None);
    /// map.metadata.name = Some("a".into());
    /// assert_eq!(ObjectKey::of(&map), Some(ObjectKey::cluster("a")));
    /// ```
    pub fn from_object<K: Resource>(object: &K) -> Option<Self> {
        let meta = object.meta();
        let name = meta.name.as_deref()?;
        Some(Self::new(meta.namespace.as_deref().unwrap_or(""), name))
    }

    /// The namespace, if the kind has them.
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

    /// The smallest key of a namespace.
    pub(crate) fn namespace_start(namespace: &str) -> Self {
        Self::new(namespace, "")
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        // Keys of a cache share the names of their namespaces.
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
