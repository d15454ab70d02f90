//! The kinds that the suite covers, and the properties in which they differ.

/// A resource of the server. The flags are the columns of the lists of kinds in CONC §2 and §7.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of a table")]
pub struct Kind {
    /// Empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    /// A PUT without resourceVersion is applied to the newest object (CONC §2.2).
    pub unconditional: bool,
    /// A PUT creates a missing object (CONC §2.3).
    pub created_by_put: bool,
    /// The response to a delete is the object, not a `Status` (CONC §2.5).
    pub shown_when_deleted: bool,
    /// A delete that names no policy leaves the dependents (CONC §2.5).
    pub orphans_by_default: bool,
    pub generations: Generations,
}

/// The behaviour of `metadata.generation` (CONC §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// 1 on create, +1 whenever the spec changes.
    Spec,
    /// As `Spec`, and a change of labels counts too.
    SpecAndLabels,
    /// 1 on create, for ever.
    One,
    /// The value that create sent.
    AsSent,
    /// The value that create sent, and +1 whenever the spec changes.
    SpecFromSent,
}

impl Kind {
    pub(crate) const fn new(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            version: "v1",
            plural,
            kind,
            namespaced: true,
            unconditional: true,
            created_by_put: false,
            shown_when_deleted: false,
            orphans_by_default: false,
            generations: Generations::AsSent,
        }
    }

    pub(crate) const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    const fn conditional(mut self) -> Self {
        self.unconditional = false;
        self
    }

    const fn put_creates(mut self) -> Self {
        self.created_by_put = true;
        self
    }

    const fn returned_on_delete(mut self) -> Self {
        self.shown_when_deleted = true;
        self
    }

    const fn orphans_by_default(mut self) -> Self {
        self.orphans_by_default = true;
        self
    }

    const fn counted_by_quota(mut self) -> Self {
        self.generations = Generations::Spec;
        self
    }

    const fn generations(mut self, generations: Generations) -> Self {
        self.generations = generations;
        self
    }

    const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    /// `apps/v1`, `v1`
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `/apis/apps/v1`, `/api/v1`
    #[must_use]
    pub fn root(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    /// `deployments.apps`, `configmaps`
    #[must_use]
    pub fn resource(&self) -> String {
        qualified(self.plural, self.group)
    }

    /// `Deployment.apps`, `ConfigMap`
    #[must_use]
    pub fn qualified_kind(&self) -> String {
        qualified(self.kind, self.group)
    }
}

/// Not in the table of kinds that generic checks cover: the status of a CertificateSigningRequest
/// decides about it.
pub(crate) static SIGNING_REQUESTS: Kind = Kind::new(
    "certificates.k8s.io",
    "certificatesigningrequests",
    "CertificateSigningRequest",
)
.cluster();

pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// The kind with this plural.
///
/// # Panics
/// If the suite has no such kind.
#[must_use]
pub(crate) fn kind(plural: &str) -> &'static Kind {
    let found = ALL.iter().find(|kind| kind.plural == plural);
    found.unwrap_or_else(|| panic!("unknown kind {plural} in the suite"))
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";
/// Defined by the suite itself.
pub(crate) const CUSTOM_GROUP: &str = "checks.optik.test";

pub(crate) const ALL: &[Kind] = &[
    Kind::new("", "configmaps", "ConfigMap"),
    Kind::new("", "secrets", "Secret"),
    Kind::new("", "services", "Service")
        .put_creates()
        .returned_on_delete(),
    Kind::new("", "endpoints", "Endpoints").put_creates(),
    Kind::new("", "events", "Event").put_creates(),
    Kind::new("", "limitranges", "LimitRange").put_creates(),
    Kind::new("", "persistentvolumeclaims", "PersistentVolumeClaim").returned_on_delete(),
    Kind::new("", "persistentvolumes", "PersistentVolume")
        .cluster()
        .returned_on_delete(),
    Kind::new("", "pods", "Pod")
        .returned_on_delete()
        .counted_by_quota(),
    Kind::new("", "podtemplates", "PodTemplate")
        .returned_on_delete()
        .counted_by_quota(),
    Kind::new("", "replicationcontrollers", "ReplicationController")
        .counted_by_quota()
        .orphans_by_default(),
    Kind::new("", "resourcequotas", "ResourceQuota").returned_on_delete(),
    Kind::new("", "serviceaccounts", "ServiceAccount").returned_on_delete(),
    Kind::new("", "nodes", "Node").cluster(),
    Kind::new("", "namespaces", "Namespace")
        .cluster()
        .returned_on_delete(),
    Kind::new("apps", "deployments", "Deployment").counted_by_quota(),
    Kind::new("apps", "replicasets", "ReplicaSet").counted_by_quota(),
    Kind::new("apps", "statefulsets", "StatefulSet").counted_by_quota(),
    Kind::new("apps", "daemonsets", "DaemonSet").counted_by_quota(),
    Kind::new("apps", "controllerrevisions", "ControllerRevision"),
    Kind::new(
        "autoscaling",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
    )
    .version("v2"),
    Kind::new("batch", "jobs", "Job")
        .counted_by_quota()
        .orphans_by_default(),
    Kind::new("batch", "cronjobs", "CronJob").counted_by_quota(),
    Kind::new(NETWORKING, "ingresses", "Ingress").counted_by_quota(),
    Kind::new(NETWORKING, "ingressclasses", "IngressClass")
        .cluster()
        .counted_by_quota(),
    Kind::new(NETWORKING, "networkpolicies", "NetworkPolicy").counted_by_quota(),
    Kind::new("policy", "poddisruptionbudgets", "PodDisruptionBudget")
        .conditional()
        .counted_by_quota(),
    Kind::new(RBAC, "roles", "Role").put_creates(),
    Kind::new(RBAC, "rolebindings", "RoleBinding").put_creates(),
    Kind::new(RBAC, "clusterroles", "ClusterRole")
        .cluster()
        .put_creates(),
    Kind::new(RBAC, "clusterrolebindings", "ClusterRoleBinding")
        .cluster()
        .put_creates(),
    Kind::new(STORAGE, "csidrivers", "CSIDriver")
        .cluster()
        .conditional()
        .returned_on_delete()
        .generations(Generations::SpecFromSent),
    Kind::new(STORAGE, "csinodes", "CSINode")
        .cluster()
        .conditional()
        .returned_on_delete(),
    Kind::new(STORAGE, "csistoragecapacities", "CSIStorageCapacity").conditional(),
    Kind::new(STORAGE, "storageclasses", "StorageClass")
        .cluster()
        .returned_on_delete(),
    Kind::new(STORAGE, "volumeattachments", "VolumeAttachment")
        .cluster()
        .conditional()
        .returned_on_delete(),
    Kind::new(STORAGE, "volumeattributesclasses", "VolumeAttributesClass")
        .cluster()
        .returned_on_delete(),
    Kind::new(
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        ADMISSION,
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        ADMISSION,
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
    )
    .cluster()
    .conditional()
    .counted_by_quota(),
    Kind::new("scheduling.k8s.io", "priorityclasses", "PriorityClass")
        .cluster()
        .generations(Generations::One),
    Kind::new("coordination.k8s.io", "leases", "Lease")
        .conditional()
        .put_creates(),
    Kind::new("node.k8s.io", "runtimeclasses", "RuntimeClass")
        .cluster()
        .conditional()
        .put_creates(),
    Kind::new("discovery.k8s.io", "endpointslices", "EndpointSlice")
        .generations(Generations::SpecAndLabels),
    Kind::new(RESOURCE, "deviceclasses", "DeviceClass")
        .cluster()
        .returned_on_delete()
        .counted_by_quota(),
    Kind::new(RESOURCE, "resourceclaims", "ResourceClaim").returned_on_delete(),
    Kind::new(RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate").returned_on_delete(),
    Kind::new(RESOURCE, "resourceslices", "ResourceSlice")
        .cluster()
        .returned_on_delete()
        .counted_by_quota(),
    Kind::new(FLOW, "flowschemas", "FlowSchema")
        .cluster()
        .counted_by_quota(),
    Kind::new(
        FLOW,
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
    )
    .cluster()
    .counted_by_quota(),
    // Custom resources: with the status subresource, and without.
    Kind::new(CUSTOM_GROUP, "widgets", "Widget")
        .conditional()
        .counted_by_quota(),
    Kind::new(CUSTOM_GROUP, "gadgets", "Gadget")
        .conditional()
        .counted_by_quota(),
];
