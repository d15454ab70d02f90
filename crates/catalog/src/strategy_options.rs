//! How kinds differ where the API treats them differently.
//!
//! Every list here is short and names exceptions; what is not named behaves like a
//! ConfigMap.

use optik_object::COST_MAX;

/// What a handler needs to know about a kind beyond its names.
#[derive(Clone, Debug)]
pub struct StrategyOptions {
    pub name: NameRule,
    /// An update may leave out the revision it is based on.
    pub unconditional_update: bool,
    /// A PUT of an object that does not exist makes it.
    pub create_on_update: bool,
    /// A delete answers with the object instead of a `Status`.
    pub delete_returns_object: bool,
    pub generation: GenerationRule,
    pub status: StatusRule,
    pub grace: GracefulDeletion,
    pub finalization: Finalization,
    /// Dependents are orphaned unless the client says otherwise.
    pub orphans_by_default: bool,
    /// Reads behave as if they came from a watch cache; only events do not.
    pub cached: bool,
    pub special_kind: SpecialKind,
    /// A question that is posted and answered, and of which nothing is kept.
    pub review_kind: Option<ReviewKind>,
    /// Nothing is kept of it either, because it stands for something else.
    pub virtual_resource: Option<VirtualResource>,
    /// Finalizers need no domain.
    pub unqualified_finalizers: bool,
    /// The metadata of a new object is only looked at if there is nothing else to complain
    /// of: the rules of the kind do not mention it.
    pub validate_metadata_last: bool,
    /// The version that discovery names the storage after, if another.
    pub storage_hash_version: Option<&'static str>,
    /// What every request is told.
    pub deprecation_warning: Option<&'static str>,
    /// What is told to who deletes an object without a word about its dependents.
    pub orphan_warning: Option<&'static str>,
    /// Seconds after which an object is gone.
    pub ttl_seconds: Option<u32>,
    /// What an object may cost, in units of `optik_object::cost`.
    pub cost_max: usize,
}

/// What a kind does that data cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialKind {
    None,
    /// It defines other kinds.
    CustomResourceDefinition,
    /// It allows things.
    Role,
    /// It says to whom a role allows things.
    Binding,
    /// It says who is asked about writes.
    Webhooks,
    /// It says what writes must be, in a language of its own.
    Policies,
    /// It names a group that is served.
    ApiService,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewKind {
    /// Whether somebody may do something.
    SubjectAccessReview,
    /// The same within a namespace.
    LocalSubjectAccessReview,
    /// Whether one may oneself.
    SelfSubjectAccessReview,
    /// What one may do in a namespace.
    SelfSubjectRulesReview,
    /// Who one is.
    SelfSubjectReview,
    /// Whose token it is.
    TokenReview,
}

/// What a kind stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualResource {
    /// A pod that is given to a node: the old way to do it.
    Binding,
    /// What the server needs, and how it is.
    ComponentStatus,
}

/// What may be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    DnsSubdomain,
    DnsLabel,
    /// Anything that can stand in a URL.
    PathSegment,
}

/// When `metadata.generation` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// The server leaves it alone.
    Untouched,
    /// 1 for ever.
    Fixed,
    /// Anything but metadata has changed.
    Content,
    /// Anything but metadata and status has changed.
    Spec,
    /// The same, but a new object keeps what it came with.
    SpecOnUpdate,
    /// That, or annotations.
    SpecOrAnnotations,
    /// That, or labels.
    SpecOrLabels,
}

/// Who may write `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRule {
    /// There is none, or it is ordinary data.
    None,
    /// Only the subresource changes it.
    Split {
        /// What a new object has, as JSON; empty for nothing, `None` keeps what the client
        /// sent.
        initial: Option<&'static str>,
        /// What a write through the subresource cannot change.
        keeps: StatusMetadataReset,
    },
}

/// Metadata that a status write leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMetadataReset {
    Nothing,
    Labels,
    OwnerReferences,
    /// Labels, annotations, finalizers, owner references.
    All,
}

/// Whether a deletion gives the object time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GracefulDeletion {
    None,
    /// `spec.terminationGracePeriodSeconds`, once something runs.
    Pod,
}

/// What else stands between a deletion and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalization {
    /// Finalizers of the metadata.
    Metadata,
    /// Finalizers of `spec` as well, emptied through `/finalize`.
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

/// Forty thousand maps, or as many members as fit into the store. A write holds two or three
/// copies of an object at a time, and so much for each.
const OBJECT_COST_MAX: usize = COST_MAX / 2;

/// The behaviour of a built-in kind.
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
            // The longest that people publish have forty thousand maps, and more in the
            // record of their managers.
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

/// An hour.
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
