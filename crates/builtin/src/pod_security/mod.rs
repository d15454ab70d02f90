//! Pod Security admission: the Pod Security Standards, as set by namespace labels.

mod checks;
mod levels;

pub use checks::violations;
pub use levels::{LevelVersion, NamespacePodSecurity, PodSecurityLevel, from_labels};

use crate::validation::{items, text};
use optik_object::{Object, Value};
use std::collections::BTreeMap;

/// The common prefix of the namespace labels.
pub const LABEL_PREFIX: &str = "pod-security.kubernetes.io/";
/// Limit of existing pods checked when a namespace's enforced level is raised.
const PODS_MAX: usize = 3000;

/// The parts of a pod or of a pod template that the checks read.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    annotations: &'a Value,
    spec: &'a Value,
}

/// Resources with a pod template, and the path to it.
const TEMPLATES: &[(&str, &str, &[&str])] = &[
    ("", "pods", &[]),
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("batch", "jobs", &["spec", "template"]),
    (
        "batch",
        "cronjobs",
        &["spec", "jobTemplate", "spec", "template"],
    ),
];

/// Whether objects of a resource contain a pod or a pod template.
#[must_use]
pub fn has_pod_template(group: &str, plural: &str) -> bool {
    pod_path(group, plural).is_some()
}

fn pod_path(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    let mut kinds = TEMPLATES.iter();
    let found = kinds.find(|(known, name, _)| (*known, *name) == (group, plural));
    found.map(|(_, _, path)| *path)
}

impl<'a> PodView<'a> {
    /// The pod or pod template in an object.
    #[must_use]
    pub fn in_object(group: &str, plural: &str, object: &'a Object) -> Option<Self> {
        let path = pod_path(group, plural)?;
        let [first, rest @ ..] = path else {
            return Some(Self::new(object.get("metadata"), object.get("spec")));
        };
        let mut inner = object.get(first)?;
        for step in rest {
            inner = inner.get(step)?;
        }
        Some(Self::new(inner.get("metadata"), inner.get("spec")))
    }

    fn new(metadata: Option<&'a Value>, spec: Option<&'a Value>) -> Self {
        Self {
            annotations: metadata.map_or(&Value::Null, |metadata| &metadata["annotations"]),
            spec: spec.unwrap_or(&Value::Null),
        }
    }

    /// All containers: init containers, containers, then ephemeral containers.
    fn containers(self) -> impl Iterator<Item = &'a Value> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists
            .into_iter()
            .flat_map(move |list| items(&self.spec[list]))
    }

    fn containers_of(self, list: &str) -> &'a [Value] {
        items(&self.spec[list])
    }
}

/// The violations of a pod: a short reason and the details of each.
#[derive(Debug, Default)]
pub struct Violations(Vec<(&'static str, String)>);

impl Violations {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons only, to group many pods.
    fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|(reason, _)| *reason).collect();
        reasons.join(", ")
    }

    /// Reasons and details, for a single pod.
    #[must_use]
    pub fn details(&self) -> String {
        let told = self.0.iter().map(|(reason, detail)| {
            if detail.is_empty() {
                (*reason).to_owned()
            } else {
                format!("{reason} ({detail})")
            }
        });
        told.collect::<Vec<_>>().join(", ")
    }
}

/// Whether an update must be checked: the number of containers or an image changes.
#[must_use]
pub fn is_significant(new: PodView<'_>, old: PodView<'_>) -> bool {
    let differ = |list: &str| {
        let (new, old) = (new.containers_of(list), old.containers_of(list));
        let mut pairs = new.iter().zip(old);
        new.len() != old.len() || pairs.any(|(new, old)| new["image"] != old["image"])
    };
    let before = old.containers_of("ephemeralContainers");
    let before: BTreeMap<&str, &Value> = before
        .iter()
        .rev()
        .map(|one| (text(&one["name"]), one))
        .collect();
    let mut added = new.containers_of("ephemeralContainers").iter();
    differ("containers")
        || differ("initContainers")
        || added.any(|container| {
            let same = before.get(text(&container["name"]));
            same.is_none_or(|same| same["image"] != container["image"])
        })
}

/// The warnings when the enforced level of a namespace with existing pods is raised.
#[must_use]
pub fn warn_existing_pods(pods: &[Object], namespace: &str, bar: LevelVersion) -> Vec<String> {
    let mut told: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    let first = prioritize_by_controller(pods);
    for pod in first.iter().take(PODS_MAX) {
        let Some(inside) = PodView::in_object("", "pods", pod) else {
            continue;
        };
        let found = violations(bar, inside);
        if !found.is_empty() {
            let (name, count) = told.entry(found.reasons()).or_insert((pod.name(), 0));
            *name = (*name).min(pod.name());
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if pods.len() > PODS_MAX {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {} \
             existing pods",
            pods.len()
        ));
    }
    if !told.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level {}",
            optik_object::quote(namespace),
            optik_object::quote(&bar.to_string())
        ));
    }
    let told = told
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        });
    let mut told: Vec<String> = told.collect();
    told.sort();
    warnings.extend(told);
    warnings
}

/// Orders pods so that one pod per controller comes first, because pods of a controller are alike.
fn prioritize_by_controller(pods: &[Object]) -> Vec<&Object> {
    let mut seen = std::collections::BTreeSet::new();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for pod in pods {
        let owners = pod
            .get("metadata")
            .map(|all| items(&all["ownerReferences"]));
        let mut owners = owners.unwrap_or_default().iter();
        let controller = owners.find(|owner| owner["controller"] == true);
        match controller {
            Some(owner) if !seen.insert(text(&owner["uid"])) => rest.push(pod),
            _ => first.push(pod),
        }
    }
    first.extend(rest);
    first
}
