//! What a reconciler is called for: the name of an object, and nothing about events.

use kube::Resource;
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty if the kind has none.
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectKey {
    /// An object in a namespace.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// An object of a kind without namespaces.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
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
    pub fn of<K: Resource>(object: &K) -> Option<Self> {
        let meta = object.meta();
        let name = meta.name.as_deref()?;
        Some(Self::new(meta.namespace.as_deref().unwrap_or(""), name))
    }

    /// The namespace, if the kind has them.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// The smallest key of a namespace.
    pub(crate) fn first_of(namespace: &str) -> Self {
        Self::new(namespace, "")
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
