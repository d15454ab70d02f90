//! What is wrong with an object of a built-in kind, in upstream's words and order.
//!
//! Metadata is checked elsewhere, for all kinds alike.

mod batch;
mod certificates;
mod config;
mod containers;
mod cron;
mod csi;
mod devices;
mod difference;
mod errors;
mod flow;
mod network;
mod nodes;
mod path;
mod pods;
mod policy;
mod read;
mod resources;
mod selectors;
mod services;
mod statuses;
mod storage;
mod volumes;
mod words;
mod workloads;

pub(crate) use errors::Errors;
pub(crate) use read::{entries, first_by_name, flag, is_set, items, text};

pub(crate) use pods::pod;

use optik_object::{Object, Value};

/// Whether a label selector asks for these labels.
#[must_use]
pub fn selects(selector: &Value, labels: &Value) -> bool {
    selectors::is_valid(selector) && selectors::matches(selector, labels)
}

/// What a kind has against an object.
pub(crate) type Check = fn(&Object, &mut Errors);
/// What a kind has against a change.
pub(crate) type CheckUpdate = fn(&Object, &Object, &mut Errors);

/// The checks of a kind: of new objects, of changed ones, of changes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Checks {
    pub(crate) create: Option<Check>,
    /// Like `create`, if it is not said.
    pub(crate) update: Option<Check>,
    pub(crate) change: Option<CheckUpdate>,
    /// Changes are looked at before the object itself.
    pub(crate) change_first: bool,
    /// What a kind has against a change of the status.
    pub(crate) status: Option<CheckUpdate>,
    /// And of the approval.
    pub(crate) approval: Option<CheckUpdate>,
}

impl Checks {
    const fn of_status(self, check: CheckUpdate) -> Self {
        Self {
            status: Some(check),
            ..self
        }
    }
}

const fn checks(check: Check) -> Checks {
    Checks {
        create: Some(check),
        update: Some(check),
        change: None,
        change_first: false,
        status: None,
        approval: None,
    }
}

const fn with(check: Check, change: CheckUpdate) -> Checks {
    Checks {
        change: Some(change),
        ..checks(check)
    }
}

const fn change_first(check: Check, change: CheckUpdate) -> Checks {
    Checks {
        change_first: true,
        ..with(check, change)
    }
}

pub(crate) fn of(group: &str, plural: &str) -> Checks {
    match (group, plural) {
        ("", "pods") => Checks {
            create: Some(pods::new_pod),
            update: None,
            change: Some(pods::pod_update),
            status: Some(statuses::pod),
            ..Checks::default()
        },
        ("", "podtemplates") => checks(workloads::pod_template),
        ("", "replicationcontrollers") => checks(workloads::replication_controller),
        ("", "configmaps") => change_first(config::config_map, config::config_map_update),
        ("", "secrets") => change_first(config::secret, config::secret_update),
        ("", "services") => change_first(services::service, services::service_update),
        ("", "endpoints") => checks(services::endpoints),
        ("", "nodes") => with(nodes::node, nodes::node_update),
        ("", "namespaces") => Checks {
            update: None,
            ..checks(nodes::namespace)
        },
        ("", "persistentvolumeclaims") => with(storage::claim, storage::claim_update),
        ("", "persistentvolumes") => with(storage::volume, storage::volume_update),
        ("", "resourcequotas") => with(policy::quota, policy::quota_update),
        ("", "limitranges") => checks(policy::limit_range),
        ("", "events") => checks(policy::core_event),
        ("events.k8s.io", "events") => Checks {
            create: Some(policy::new_group_event),
            change: Some(policy::group_event_update),
            ..Checks::default()
        },
        ("apps", "deployments") => {
            with(workloads::deployment, workloads::fixed_selector).of_status(statuses::deployment)
        }
        ("apps", "replicasets") => {
            with(workloads::replica_set, workloads::fixed_selector).of_status(statuses::replica_set)
        }
        ("apps", "daemonsets") => {
            with(workloads::daemon_set, workloads::fixed_selector).of_status(statuses::daemon_set)
        }
        ("apps", "statefulsets") => with(workloads::stateful_set, workloads::stateful_set_update)
            .of_status(statuses::stateful_set),
        ("apps", "controllerrevisions") => with(
            workloads::controller_revision,
            workloads::controller_revision_update,
        ),
        ("batch", "jobs") => with(batch::job, batch::job_update),
        ("batch", "cronjobs") => Checks {
            create: Some(batch::new_cron_job),
            ..checks(batch::cron_job)
        },
        ("autoscaling", "horizontalpodautoscalers") => checks(policy::scaler),
        ("networking.k8s.io", "ingresses") => checks(network::ingress),
        ("networking.k8s.io", "ingressclasses") => {
            change_first(network::ingress_class, network::ingress_class_update)
        }
        ("networking.k8s.io", "networkpolicies") => checks(network::network_policy),
        ("policy", "poddisruptionbudgets") => checks(policy::disruption_budget),
        ("discovery.k8s.io", "endpointslices") => {
            with(services::endpoint_slice, services::endpoint_slice_update)
        }
        ("coordination.k8s.io", "leases") => checks(policy::lease),
        ("storage.k8s.io", "storageclasses") => Checks {
            update: None,
            ..with(storage::class, storage::class_update)
        },
        ("storage.k8s.io", "csidrivers") => with(csi::driver, csi::driver_update),
        ("storage.k8s.io", "csinodes") => with(csi::node, csi::node_update),
        ("storage.k8s.io", "csistoragecapacities") => Checks {
            update: None,
            ..with(csi::capacity, csi::capacity_update)
        },
        ("storage.k8s.io", "volumeattachments") => with(csi::attachment, csi::attachment_update),
        ("storage.k8s.io", "volumeattributesclasses") => {
            change_first(csi::attributes_class, csi::attributes_class_update)
        }
        ("certificates.k8s.io", "certificatesigningrequests") => Checks {
            create: Some(certificates::new_request),
            change: Some(certificates::request_update),
            status: Some(certificates::status_update),
            approval: Some(certificates::approval_update),
            ..Checks::default()
        },
        ("node.k8s.io", "runtimeclasses") => {
            with(nodes::runtime_class, nodes::runtime_class_update)
        }
        ("networking.k8s.io", "ipaddresses") => Checks {
            update: None,
            ..with(network::ip_address, network::ip_address_update)
        },
        ("networking.k8s.io", "servicecidrs") => Checks {
            update: None,
            ..checks(network::service_cidr)
        },
        ("resource.k8s.io", "deviceclasses") => checks(devices::class),
        ("resource.k8s.io", "resourceclaims") => Checks {
            update: None,
            ..with(devices::claim, devices::fixed_spec)
        },
        ("resource.k8s.io", "resourceclaimtemplates") => Checks {
            update: None,
            ..with(devices::claim_template, devices::fixed_spec)
        },
        ("resource.k8s.io", "resourceslices") => Checks {
            update: None,
            ..with(devices::slice, devices::slice_update)
        },
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => checks(flow::schema),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => checks(flow::level),
        ("scheduling.k8s.io", "priorityclasses") => Checks {
            update: None,
            ..with(policy::priority_class, policy::priority_class_update)
        },
        _ => Checks::default(),
    }
}
