//! How kinds differ where the API treats them differently.
//!
//! Every list here is short and names exceptions; what is not named behaves like a
//! ConfigMap.

use optik_object::COST_MAX;

/// What a handler needs to know about a kind beyond its names.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub name: NameRule,
    /// An update may leave out the revision it is based on.
    pub unconditional_update: bool,
    /// A PUT of an object that does not exist makes it.
    pub create_on_update: bool,
    /// A delete answers with the object instead of a `Status`.
    pub delete_returns_object: bool,
    pub generation: GenerationRule,
    pub status: StatusRule,
    pub grace: Grace,
    pub finalization: Finalization,
    /// Dependents are orphaned unless the client says otherwise.
    pub orphans_by_default: bool,
    /// Reads behave as if they came from a watch cache; only events do not.
    pub cached: bool,
    pub hook: Hook,
    /// A question that is posted and answered, and of which nothing is kept.
    pub review: Option<Review>,
    /// Nothing is kept of it either, because it stands for something else.
    pub deputy: Option<Deputy>,
    /// Finalizers need no domain.
    pub plain_finalizers: bool,
    /// The metadata of a new object is only looked at if there is nothing else to complain
    /// of: the rules of the kind do not mention it.
    pub metadata_last: bool,
    /// The version that discovery names the storage after, if another.
    pub hashed_version: Option<&'static str>,
    /// What every request is told.
    pub deprecation: Option<&'static str>,
    /// What is told to who deletes an object without a word about its dependents.
    pub orphaning: Option<&'static str>,
    /// Seconds after which an object is gone.
    pub lifetime: Option<u32>,
    /// What an object may cost, in units of `optik_object::cost`.
    pub cost_max: usize,
}

/// What a kind does that data cannot say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    None,
    /// It defines other kinds.
    Definition,
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
pub enum Review {
    /// Whether somebody may do something.
    Access,
    /// The same within a namespace.
    LocalAccess,
    /// Whether one may oneself.
    OwnAccess,
    /// What one may do in a namespace.
    OwnRules,
    /// Who one is.
    Oneself,
    /// Whose token it is.
    Token,
}

/// What a kind stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deputy {
    /// A pod that is given to a node: the old way to do it.
    Binding,
    /// What the server needs, and how it is.
    Component,
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
        keeps: OnStatus,
    },
}

/// Metadata that a status write leaves as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStatus {
    Nothing,
    Labels,
    OwnerReferences,
    /// Labels, annotations, finalizers, owner references.
    All,
}

/// Whether a deletion gives the object time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
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

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            name: NameRule::DnsSubdomain,
            unconditional_update: true,
            create_on_update: false,
            delete_returns_object: false,
            generation: GenerationRule::Untouched,
            status: StatusRule::None,
            grace: Grace::None,
            finalization: Finalization::Metadata,
            orphans_by_default: false,
            cached: true,
            hook: Hook::None,
            review: None,
            deputy: None,
            plain_finalizers: false,
            metadata_last: false,
            hashed_version: None,
            deprecation: None,
            orphaning: None,
            lifetime: None,
            cost_max: OBJECT_COST_MAX,
        }
    }
}

/// Forty thousand maps, or as many members as fit into the store. A write holds two or three
/// copies of an object at a time, and so much for each.
const OBJECT_COST_MAX: usize = COST_MAX / 2;

/// The behaviour of a built-in kind.
pub(crate) fn of(group: &str, plural: &str, has_status: bool) -> Behaviour {
    let is_in = |list: &[&str]| list.contains(&plural);
    Behaviour {
        name: name_rule(group, plural),
        unconditional_update: !is_in(CONDITIONAL_ONLY),
        create_on_update: is_in(CREATED_BY_PUT),
        delete_returns_object: is_in(RETURNED_ON_DELETE) || group == "resource.k8s.io",
        generation: generation_rule(plural),
        status: if has_status {
            status_rule(plural)
        } else {
            StatusRule::None
        },
        grace: if plural == "pods" {
            Grace::Pod
        } else {
            Grace::None
        },
        finalization: if plural == "namespaces" {
            Finalization::Spec
        } else {
            Finalization::Metadata
        },
        orphans_by_default: is_in(&["replicationcontrollers", "jobs"]),
        cached: plural != "events",
        hook: match plural {
            "customresourcedefinitions" => Hook::Definition,
            "apiservices" => Hook::ApiService,
            "roles" | "clusterroles" => Hook::Role,
            "rolebindings" | "clusterrolebindings" => Hook::Binding,
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => Hook::Webhooks,
            "mutatingadmissionpolicies"
            | "mutatingadmissionpolicybindings"
            | "validatingadmissionpolicies"
            | "validatingadmissionpolicybindings" => Hook::Policies,
            _ => Hook::None,
        },
        review: match plural {
            "subjectaccessreviews" => Some(Review::Access),
            "localsubjectaccessreviews" => Some(Review::LocalAccess),
            "selfsubjectaccessreviews" => Some(Review::OwnAccess),
            "selfsubjectrulesreviews" => Some(Review::OwnRules),
            "selfsubjectreviews" => Some(Review::Oneself),
            "tokenreviews" => Some(Review::Token),
            _ => None,
        },
        deputy: match plural {
            "bindings" => Some(Deputy::Binding),
            "componentstatuses" => Some(Deputy::Component),
            _ => None,
        },
        metadata_last: is_in(&["events", "poddisruptionbudgets"]),
        plain_finalizers: is_in(PLAIN_FINALIZERS) || group == "admissionregistration.k8s.io",
        hashed_version: match plural {
            "customresourcedefinitions" => Some("apiextensions.k8s.io/v1beta1"),
            "mutatingadmissionpolicies" | "mutatingadmissionpolicybindings" => {
                Some("admissionregistration.k8s.io/v1beta1")
            }
            _ => None,
        },
        deprecation: match plural {
            "endpoints" => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            "componentstatuses" => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        },
        orphaning: match plural {
            "jobs" => Some(
                "child pods are preserved by default when jobs are deleted; set \
                 propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                 suppress this warning",
            ),
            _ => None,
        },
        lifetime: match plural {
            "events" => Some(EVENT_SECONDS),
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

const PLAIN_FINALIZERS: &[&str] = &[
    "apiservices",
    "customresourcedefinitions",
    "events",
    "leasecandidates",
    "leases",
    "poddisruptionbudgets",
    "runtimeclasses",
];

/// An hour.
const EVENT_SECONDS: u32 = 3600;

const CONDITIONAL_ONLY: &[&str] = &[
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

const CREATED_BY_PUT: &[&str] = &[
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

const COUNTS_SPEC: &[&str] = &[
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
        _ if COUNTS_SPEC.contains(&plural) => GenerationRule::Spec,
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
        "deployments" => OnStatus::Labels,
        "pods" => OnStatus::OwnerReferences,
        "resourceclaims"
        | "volumeattachments"
        | "servicecidrs"
        | "podgroups"
        | "validatingadmissionpolicies" => OnStatus::All,
        _ => OnStatus::Nothing,
    };
    StatusRule::Split { initial, keeps }
}
