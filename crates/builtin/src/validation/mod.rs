//! Validation of built-in kinds, with upstream's messages in upstream's order.
//!
//! Metadata is validated elsewhere, for all kinds alike.

mod accessors;
mod batch;
mod certificates;
mod config;
mod containers;
mod cron;
mod csi;
mod devices;
mod errors;
mod field_path;
mod flow_control;
mod go_diff;
mod name_formats;
mod network;
mod nodes;
mod pods;
mod policy;
mod resources;
mod selectors;
mod services;
mod status;
mod storage;
mod volumes;
mod workloads;

pub(crate) use accessors::{entries, first_by_name, flag, is_set, items, text};
pub(crate) use errors::Errors;

pub(crate) use pods::validate_pod;

use optik_object::{Object, Value};

/// Whether a label selector is valid and matches labels.
#[must_use]
pub fn selector_matches(selector: &Value, labels: &Value) -> bool {
    selectors::is_valid(selector) && selectors::matches(selector, labels)
}

/// Validates an object.
pub(crate) type ValidateFn = fn(&Object, &mut Errors);
/// Validates a change, given the new and the old object.
pub(crate) type ValidateUpdateFn = fn(&Object, &Object, &mut Errors);

/// The validation functions of a kind.
#[derive(Clone, Copy, Default)]
pub(crate) struct Validators {
    pub(crate) create: Option<ValidateFn>,
    /// Validation of the new object in an update; `create` if `None`.
    pub(crate) update: Option<ValidateFn>,
    pub(crate) change: Option<ValidateUpdateFn>,
    /// Whether the change is validated before the new object.
    pub(crate) change_first: bool,
    /// Validates a change of the status.
    pub(crate) status: Option<ValidateUpdateFn>,
    /// Validates a change of the approval.
    pub(crate) approval: Option<ValidateUpdateFn>,
}

impl Validators {
    const fn with_status(self, check: ValidateUpdateFn) -> Self {
        Self {
            status: Some(check),
            ..self
        }
    }
}

const fn validators(check: ValidateFn) -> Validators {
    Validators {
        create: Some(check),
        update: Some(check),
        change: None,
        change_first: false,
        status: None,
        approval: None,
    }
}

const fn with_update(check: ValidateFn, change: ValidateUpdateFn) -> Validators {
    Validators {
        change: Some(change),
        ..validators(check)
    }
}

const fn with_update_first(check: ValidateFn, change: ValidateUpdateFn) -> Validators {
    Validators {
        change_first: true,
        ..with_update(check, change)
    }
}

pub(crate) fn for_resource(group: &str, plural: &str) -> Validators {
    match (group, plural) {
        ("", "pods") => Validators {
            create: Some(pods::validate_pod_create),
            update: None,
            change: Some(pods::validate_pod_update),
            status: Some(status::validate_pod_status),
            ..Validators::default()
        },
        ("", "podtemplates") => validators(workloads::validate_pod_template),
        ("", "replicationcontrollers") => validators(workloads::validate_replication_controller),
        ("", "configmaps") => with_update_first(
            config::validate_config_map,
            config::validate_config_map_update,
        ),
        ("", "secrets") => {
            with_update_first(config::validate_secret, config::validate_secret_update)
        }
        ("", "services") => with_update_first(
            services::validate_service,
            services::validate_service_update,
        ),
        ("", "endpoints") => validators(services::validate_endpoints),
        ("", "nodes") => with_update(nodes::validate_node, nodes::validate_node_update),
        ("", "namespaces") => Validators {
            update: None,
            ..validators(nodes::validate_namespace)
        },
        ("", "persistentvolumeclaims") => with_update(
            storage::validate_persistent_volume_claim,
            storage::validate_persistent_volume_claim_update,
        ),
        ("", "persistentvolumes") => with_update(
            storage::validate_persistent_volume,
            storage::validate_persistent_volume_update,
        ),
        ("", "resourcequotas") => with_update(
            policy::validate_resource_quota,
            policy::validate_resource_quota_update,
        ),
        ("", "limitranges") => validators(policy::validate_limit_range),
        ("", "events") => validators(policy::validate_core_event),
        ("events.k8s.io", "events") => Validators {
            create: Some(policy::validate_events_v1_event),
            change: Some(policy::validate_events_v1_event_update),
            ..Validators::default()
        },
        ("apps", "deployments") => with_update(
            workloads::validate_deployment,
            workloads::validate_selector_immutable,
        )
        .with_status(status::validate_deployment_status),
        ("apps", "replicasets") => with_update(
            workloads::validate_replica_set,
            workloads::validate_selector_immutable,
        )
        .with_status(status::validate_replica_set_status),
        ("apps", "daemonsets") => with_update(
            workloads::validate_daemon_set,
            workloads::validate_selector_immutable,
        )
        .with_status(status::validate_daemon_set_status),
        ("apps", "statefulsets") => with_update(
            workloads::validate_stateful_set,
            workloads::validate_stateful_set_update,
        )
        .with_status(status::validate_stateful_set_status),
        ("apps", "controllerrevisions") => with_update(
            workloads::validate_controller_revision,
            workloads::validate_controller_revision_update,
        ),
        ("batch", "jobs") => with_update(batch::validate_job, batch::validate_job_update),
        ("batch", "cronjobs") => Validators {
            create: Some(batch::validate_cron_job_create),
            ..validators(batch::validate_cron_job)
        },
        ("autoscaling", "horizontalpodautoscalers") => {
            validators(policy::validate_horizontal_pod_autoscaler)
        }
        ("networking.k8s.io", "ingresses") => validators(network::validate_ingress),
        ("networking.k8s.io", "ingressclasses") => with_update_first(
            network::validate_ingress_class,
            network::validate_ingress_class_update,
        ),
        ("networking.k8s.io", "networkpolicies") => validators(network::validate_network_policy),
        ("policy", "poddisruptionbudgets") => validators(policy::validate_pod_disruption_budget),
        ("discovery.k8s.io", "endpointslices") => with_update(
            services::validate_endpoint_slice,
            services::validate_endpoint_slice_update,
        ),
        ("coordination.k8s.io", "leases") => validators(policy::validate_lease),
        ("storage.k8s.io", "storageclasses") => Validators {
            update: None,
            ..with_update(
                storage::validate_storage_class,
                storage::validate_storage_class_update,
            )
        },
        ("storage.k8s.io", "csidrivers") => {
            with_update(csi::validate_csi_driver, csi::validate_csi_driver_update)
        }
        ("storage.k8s.io", "csinodes") => {
            with_update(csi::validate_csi_node, csi::validate_csi_node_update)
        }
        ("storage.k8s.io", "csistoragecapacities") => Validators {
            update: None,
            ..with_update(
                csi::validate_csi_storage_capacity,
                csi::validate_csi_storage_capacity_update,
            )
        },
        ("storage.k8s.io", "volumeattachments") => with_update(
            csi::validate_volume_attachment,
            csi::validate_volume_attachment_update,
        ),
        ("storage.k8s.io", "volumeattributesclasses") => with_update_first(
            csi::validate_volume_attributes_class,
            csi::validate_volume_attributes_class_update,
        ),
        ("certificates.k8s.io", "certificatesigningrequests") => Validators {
            create: Some(certificates::validate_csr_create),
            change: Some(certificates::validate_csr_update),
            status: Some(certificates::validate_csr_status_update),
            approval: Some(certificates::validate_csr_approval_update),
            ..Validators::default()
        },
        ("node.k8s.io", "runtimeclasses") => with_update(
            nodes::validate_runtime_class,
            nodes::validate_runtime_class_update,
        ),
        ("networking.k8s.io", "ipaddresses") => Validators {
            update: None,
            ..with_update(
                network::validate_ip_address,
                network::validate_ip_address_update,
            )
        },
        ("networking.k8s.io", "servicecidrs") => Validators {
            update: None,
            ..validators(network::validate_service_cidr)
        },
        ("resource.k8s.io", "deviceclasses") => validators(devices::validate_device_class),
        ("resource.k8s.io", "resourceclaims") => Validators {
            update: None,
            ..with_update(
                devices::validate_resource_claim,
                devices::validate_spec_immutable,
            )
        },
        ("resource.k8s.io", "resourceclaimtemplates") => Validators {
            update: None,
            ..with_update(
                devices::validate_resource_claim_template,
                devices::validate_spec_immutable,
            )
        },
        ("resource.k8s.io", "resourceslices") => Validators {
            update: None,
            ..with_update(
                devices::validate_resource_slice,
                devices::validate_resource_slice_update,
            )
        },
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => {
            validators(flow_control::validate_flow_schema)
        }
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            validators(flow_control::validate_priority_level_configuration)
        }
        ("scheduling.k8s.io", "priorityclasses") => Validators {
            update: None,
            ..with_update(
                policy::validate_priority_class,
                policy::validate_priority_class_update,
            )
        },
        _ => Validators::default(),
    }
}
