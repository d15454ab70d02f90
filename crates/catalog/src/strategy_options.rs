//! Per-kind behaviour of built-in kinds, as upstream's registry strategies define it.
//!
//! The tables name exceptions only; a kind that is not named behaves like a ConfigMap.

use optik_object::COST_MAX;

/// Options of a resource that a request handler needs besides its names.
#[derive(Clone, Debug)]
pub struct StrategyOptions {
    pub name: NameRule,
    /// An update may omit `metadata.resourceVersion`.
    pub unconditional_update: bool,
    /// A PUT of an object that does not exist creates it.
    pub create_on_update: bool,
    /// A delete returns the object instead of a `Status`.
    pub delete_returns_object: bool,
    pub generation: GenerationRule,
    pub status: StatusRule,
    pub grace: GracefulDeletion,
    pub finalization: Finalization,
    /// The default propagation policy of a delete is `Orphan`.
    pub orphans_by_default: bool,
    /// Reads behave as if served from a watch cache; false only for events.
    pub cached: bool,
    pub special_kind: SpecialKind,
    /// The kind of review (for example a SubjectAccessReview): created, answered and never stored.
    pub review_kind: Option<ReviewKind>,
    /// A resource that is not stored because it stands for another one.
    pub virtual_resource: Option<VirtualResource>,
    /// Finalizer names need no domain.
    pub unqualified_finalizers: bool,
    /// The metadata of a new object is validated only if nothing else is invalid, because the
    /// validation of the kind does not include it.
    pub validate_metadata_last: bool,
    /// The version from which discovery computes `storageVersionHash`, if it is not the served one.
    pub storage_hash_version: Option<&'static str>,
    /// A warning sent with the response to every request.
    pub deprecation_warning: Option<&'static str>,
    /// A warning sent with a delete that does not set a propagation policy.
    pub orphan_warning: Option<&'static str>,
    /// Seconds after which an object expires.
    pub ttl_seconds: Option<u32>,
    /// The largest cost of an object, in units of `optik_object::cost`.
    pub cost_max: usize,
}

/// Kinds with an effect on the server that the tables cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    None,
    /// `CustomResourceDefinition`.
    CustomResourceDefinition,
    /// `Role`, `ClusterRole`.
    Role,
    /// `RoleBinding`, `ClusterRoleBinding`.
    Binding,
    /// `MutatingWebhookConfiguration`, `ValidatingWebhookConfiguration`.
    Webhooks,
    /// Admission policies and their bindings, which hold CEL expressions.
    Policies,
    /// `APIService`.
    ApiService,
}

/// The kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// `SubjectAccessReview`: whether a user may do something.
    SubjectAccessReview,
    /// `LocalSubjectAccessReview`: a SubjectAccessReview within a namespace.
    LocalSubjectAccessReview,
    /// `SelfSubjectAccessReview`: whether the caller may do something.
    SelfSubjectAccessReview,
    /// `SelfSubjectRulesReview`: the rules that apply to the caller in a namespace.
    SelfSubjectRulesReview,
    /// `SelfSubjectReview`: the caller's user info.
    SelfSubjectReview,
    /// `TokenReview`: the user that a token authenticates.
    TokenReview,
}

/// The meaning of a resource that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualResource {
    /// `Binding`: assigns a pod to a node; superseded by `pods/binding`.
    Binding,
    /// `ComponentStatus`: the health of the components that the server needs.
    ComponentStatus,
}

/// Validation of `metadata.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    DnsSubdomain,
    DnsLabel,
    /// Any valid URL path segment.
    PathSegment,
}

/// The changes that increment `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// The server does not set it.
    Untouched,
    /// Always 1.
    Fixed,
    /// Any change outside metadata.
    Content,
    /// Any change outside metadata and status.
    Spec,
    /// As `Spec`, but a new object keeps the generation that the client sent.
    SpecOnUpdate,
    /// As `Spec`, and changes of annotations.
    SpecOrAnnotations,
    /// As `Spec`, and changes of labels.
    SpecOrLabels,
}

/// How `status` is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRule {
    /// There is no status subresource: no `status`, or `status` is ordinary data.
    None,
    /// Only writes through the status subresource change `status`.
    Split {
        /// The status of a new object as JSON; empty for none. `None` keeps the status that the
        /// client sent.
        initial: Option<&'static str>,
        /// Metadata that a status update cannot change.
        keeps: StatusMetadataReset,
    },
}

/// Metadata that a status update resets to the stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadataReset {
    Nothing,
    Labels,
    OwnerReferences,
    /// Labels, annotations, finalizers and owner references.
    All,
}

/// Whether a deletion has a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GracefulDeletion {
    None,
    /// `spec.terminationGracePeriodSeconds`, once the pod is running.
    Pod,
}

/// Finalizers that defer the removal of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalization {
    /// `metadata.finalizers`.
    Metadata,
    /// `metadata.finalizers` and `spec.finalizers`; the latter are emptied through `/finalize`.
    Spec,
}

impl Default for StrategyOptions {
    fn default() -> Self {
        Self {
            name: NameRule::DnsSubdomain,
            unconditional_update: true,
            create_on_update: false,
            delete_returns_object: false,
            generation: GenerationRule::Untouched,
            status: StatusRule::None,
            grace: GracefulDeletion::None,
            finalization: Finalization::Metadata,
            orphans_by_default: false,
            cached: true,
            special_kind: SpecialKind::None,
            review_kind: None,
            virtual_resource: None,
            unqualified_finalizers: false,
            validate_metadata_last: false,
            storage_hash_version: None,
            deprecation_warning: None,
            orphan_warning: None,
            ttl_seconds: None,
            cost_max: OBJECT_COST_MAX,
        }
    }
}

/// The cost of 40,000 maps, or of as many members as fit into the store. A write holds two or three
/// copies of an object at a time, each of up to this cost.
const OBJECT_COST_MAX: usize = COST_MAX / 2;

/// Returns the options of a built-in resource.
pub(crate) fn for_resource(group: &str, plural: &str, has_status: bool) -> StrategyOptions {
    let is_in = |list: &[&str]| list.contains(&plural);
    StrategyOptions {
        name: name_rule(group, plural),
        unconditional_update: !is_in(CONDITIONAL_UPDATE_ONLY),
        create_on_update: is_in(CREATE_ON_UPDATE),
        delete_returns_object: is_in(RETURNED_ON_DELETE) || group == "resource.k8s.io",
        generation: generation_rule(plural),
        status: if has_status {
            status_rule(plural)
        } else {
            StatusRule::None
        },
        grace: if plural == "pods" {
            GracefulDeletion::Pod
        } else {
            GracefulDeletion::None
        },
        finalization: if plural == "namespaces" {
            Finalization::Spec
        } else {
            Finalization::Metadata
        },
        orphans_by_default: is_in(&["replicationcontrollers", "jobs"]),
        cached: plural != "events",
        special_kind: match plural {
            "customresourcedefinitions" => SpecialKind::CustomResourceDefinition,
            "apiservices" => SpecialKind::ApiService,
            "roles" | "clusterroles" => SpecialKind::Role,
            "rolebindings" | "clusterrolebindings" => SpecialKind::Binding,
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
                SpecialKind::Webhooks
            }
            "mutatingadmissionpolicies"
            | "mutatingadmissionpolicybindings"
            | "validatingadmissionpolicies"
            | "validatingadmissionpolicybindings" => SpecialKind::Policies,
            _ => SpecialKind::None,
        },
        review_kind: match plural {
            "subjectaccessreviews" => Some(ReviewKind::SubjectAccessReview),
            "localsubjectaccessreviews" => Some(ReviewKind::LocalSubjectAccessReview),
            "selfsubjectaccessreviews" => Some(ReviewKind::SelfSubjectAccessReview),
            "selfsubjectrulesreviews" => Some(ReviewKind::SelfSubjectRulesReview),
            "selfsubjectreviews" => Some(ReviewKind::SelfSubjectReview),
            "tokenreviews" => Some(ReviewKind::TokenReview),
            _ => None,
        },
        virtual_resource: match plural {
            "bindings" => Some(VirtualResource::Binding),
            "componentstatuses" => Some(VirtualResource::ComponentStatus),
            _ => None,
        },
        validate_metadata_last: is_in(&["events", "poddisruptionbudgets"]),
        unqualified_finalizers: is_in(UNQUALIFIED_FINALIZERS)
            || group == "admissionregistration.k8s.io",
        storage_hash_version: match plural {
            "customresourcedefinitions" => Some("apiextensions.k8s.io/v1beta1"),
            "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings" => {
                Some("admissionregistration.k8s.io/v1beta1")
            }
            _ => None,
        },
        deprecation_warning: match plural {
            "endpoints" => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            "componentstatuses" => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        },
        orphan_warning: match plural {
            "jobs" => Some(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                 suppress this warning",
            ),
            _ => None,
        },
        ttl_seconds: match plural {
            "events" => Some(EVENT_TTL_SECONDS),
            _ => None,
        },
        cost_max: match plural {
            // The largest published definitions have 40,000 maps, and more in their managedFields.
            "customresourcedefinitions" => COST_MAX,
            _ => OBJECT_COST_MAX,
        },
    }
}

const UNQUALIFIED_FINALIZERS: &[&str] = &[
    "apiservices",
    "customresourcedefinitions",
    "events",
    "leasecandidates",
    "leases",
    "poddisruptionbudgets",
    "runtimeclasses",
];

/// One hour.
const EVENT_TTL_SECONDS: u32 = 3600;

const CONDITIONAL_UPDATE_ONLY: &[&str] = &[
    "customresourcedefinitions",
    "apiservices",
    "leases",
    "leasecandidates",
    "poddisruptionbudgets",
    "runtimeclasses",
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "volumeattachments",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "clustertrustbundles",
    "podcertificaterequests",
    "storageversionmigrations",
    "storageversions",
    "resourcepoolstatusrequests",
];

const CREATE_ON_UPDATE: &[&str] = &[
    "services",
    "endpoints",
    "events",
    "limitranges",
    "roles",
    "rolebindings",
    "clusterroles",
    "clusterrolebindings",
    "leases",
    "leasecandidates",
    "runtimeclasses",
];

const RETURNED_ON_DELETE: &[&str] = &[
    "pods",
    "services",
    "namespaces",
    "serviceaccounts",
    "persistentvolumes",
    "persistentvolumeclaims",
    "resourcequotas",
    "podtemplates",
    "storageclasses",
    "volumeattributesclasses",
    "csidrivers",
    "csinodes",
    "volumeattachments",
];

const GENERATION_FOLLOWS_SPEC: &[&str] = &[
    "replicasets",
    "statefulsets",
    "daemonsets",
    "replicationcontrollers",
    "jobs",
    "cronjobs",
    "pods",
    "podtemplates",
    "poddisruptionbudgets",
    "ingresses",
    "ingressclasses",
    "networkpolicies",
    "flowschemas",
    "prioritylevelconfigurations",
    "deviceclasses",
    "devicetaintrules",
    "resourceslices",
    "validatingwebhookconfigurations",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "customresourcedefinitions",
];

fn generation_rule(plural: &str) -> GenerationRule {
    match plural {
        "deployments" => GenerationRule::SpecOrAnnotations,
        "endpointslices" => GenerationRule::SpecOrLabels,
        "csidrivers" => GenerationRule::SpecOnUpdate,
        "priorityclasses" => GenerationRule::Fixed,
        _ if GENERATION_FOLLOWS_SPEC.contains(&plural) => GenerationRule::Spec,
        _ => GenerationRule::Untouched,
    }
}

fn name_rule(group: &str, plural: &str) -> NameRule {
    match plural {
        "namespaces" | "services" => NameRule::DnsLabel,
        "apiservices" | "ipaddresses" | "poddisruptionbudgets" => NameRule::PathSegment,
        "events" if group.is_empty() => NameRule::PathSegment,
        _ if group == "rbac.authorization.k8s.io" => NameRule::PathSegment,
        _ => NameRule::DnsSubdomain,
    }
}

fn status_rule(plural: &str) -> StatusRule {
    let initial = match plural {
        "nodes" => None,
        "pods" | "persistentvolumeclaims" | "persistentvolumes" => Some(r#"{"phase":"Pending"}"#),
        "namespaces" => Some(r#"{"phase":"Active"}"#),
        "services" | "ingresses" => Some(r#"{"loadBalancer":{}}"#),
        "replicationcontrollers" | "replicasets" => Some(r#"{"replicas":0}"#),
        _ => Some("{}"),
    };
    let keeps = match plural {
        "deployments" => StatusMetadataReset::Labels,
        "pods" => StatusMetadataReset::OwnerReferences,
        "resourceclaims"
        | "volumeattachments"
        | "servicecidrs"
        | "podgroups"
        | "validatingadmissionpolicies" => StatusMetadataReset::All,
        _ => StatusMetadataReset::Nothing,
    };
    StatusRule::Split { initial, keeps }
}
