//! Cells of the built-in kinds, one function per kind.
//!
//! Objects are printed as they are stored. Defaults that upstream applies when it decodes an object
//! (such as the type of a service without one) are applied here too.

mod access;
mod cluster;
mod events;
mod network;
mod pods;
mod scaling;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use crate::row_writer::RowWriter;
use optik_object::JsonView;

/// Writes the cells, and optionally the row conditions, of a kind.
#[derive(Clone, Copy)]
pub(crate) struct CellPrinter {
    pub(crate) write: fn(JsonView<'_>, &mut RowWriter<'_>),
    pub(crate) conditions: Option<fn(JsonView<'_>) -> Option<&'static str>>,
}

const fn cell_printer(write: fn(JsonView<'_>, &mut RowWriter<'_>)) -> CellPrinter {
    CellPrinter {
        write,
        conditions: None,
    }
}

pub(crate) const FALLBACK: CellPrinter = cell_printer(|object, row| {
    row.name(object);
    row.text_or(object, &["metadata", "creationTimestamp"], "");
});

const NAME_AND_AGE: CellPrinter = cell_printer(|object, row| {
    row.name(object);
    row.age(object);
});

/// The cell printer of a built-in kind; `None` if it has none.
pub(crate) fn for_kind(group: &str, plural: &str) -> Option<CellPrinter> {
    Some(match (group, plural) {
        ("", "pods") => CellPrinter {
            write: pods::pod,
            conditions: Some(pods::conditions),
        },
        ("", "podtemplates") => cell_printer(workloads::pod_template),
        ("", "replicationcontrollers") => cell_printer(workloads::replication_controller),
        ("apps", "replicasets") => cell_printer(workloads::replica_set),
        ("apps", "deployments") => cell_printer(workloads::deployment),
        ("apps", "statefulsets") => cell_printer(workloads::stateful_set),
        ("apps", "daemonsets") => cell_printer(workloads::daemon_set),
        ("apps", "controllerrevisions") => cell_printer(workloads::controller_revision),
        ("batch", "jobs") => cell_printer(workloads::job),
        ("batch", "cronjobs") => cell_printer(workloads::cron_job),
        ("", "services") => cell_printer(network::service),
        ("", "endpoints") => cell_printer(network::endpoints),
        ("discovery.k8s.io", "endpointslices") => cell_printer(network::endpoint_slice),
        ("networking.k8s.io", "ingresses") => cell_printer(network::ingress),
        ("networking.k8s.io", "ingressclasses") => cell_printer(network::ingress_class),
        ("networking.k8s.io", "networkpolicies") => cell_printer(network::network_policy),
        ("networking.k8s.io", "servicecidrs") => cell_printer(network::service_cidr),
        ("networking.k8s.io", "ipaddresses") => cell_printer(network::ip_address),
        ("", "persistentvolumes") => cell_printer(storage::volume),
        ("", "persistentvolumeclaims") => cell_printer(storage::claim),
        ("storage.k8s.io", "storageclasses") => cell_printer(storage::class),
        ("storage.k8s.io", "csidrivers") => cell_printer(storage::csi_driver),
        ("storage.k8s.io", "csinodes") => cell_printer(storage::csi_node),
        ("storage.k8s.io", "volumeattachments") => cell_printer(storage::attachment),
        ("storage.k8s.io", "volumeattributesclasses") => cell_printer(storage::attributes_class),
        ("", "events") | ("events.k8s.io", "events") => cell_printer(events::event),
        ("autoscaling", "horizontalpodautoscalers") => cell_printer(scaling::autoscaler),
        ("policy", "poddisruptionbudgets") => cell_printer(scaling::disruption_budget),
        ("", "namespaces") => cell_printer(cluster::namespace),
        ("", "configmaps") => cell_printer(cluster::config_map),
        ("", "secrets") => cell_printer(cluster::secret),
        ("", "nodes") => cell_printer(cluster::node),
        ("", "resourcequotas") => cell_printer(cluster::resource_quota),
        ("", "componentstatuses") => cell_printer(cluster::component_status),
        ("coordination.k8s.io", "leases") => cell_printer(cluster::lease),
        ("scheduling.k8s.io", "priorityclasses") => cell_printer(cluster::priority_class),
        ("node.k8s.io", "runtimeclasses") => cell_printer(cluster::runtime_class),
        ("resource.k8s.io", "resourceclaims") => cell_printer(cluster::resource_claim),
        ("resource.k8s.io", "resourceslices") => cell_printer(cluster::resource_slice),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => cell_printer(access::flow_schema),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            cell_printer(access::priority_level)
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            cell_printer(access::role_binding)
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            cell_printer(access::signing_request)
        }
        ("apiregistration.k8s.io", "apiservices") => cell_printer(access::api_service),
        ("admissionregistration.k8s.io", plural) => cell_printer(match plural {
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => access::webhooks,
            "validatingadmissionpolicies" => access::validating_policy,
            "mutatingadmissionpolicies" => access::mutating_policy,
            "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => {
                access::policy_binding
            }
            _ => return None,
        }),
        ("", "serviceaccounts")
        | ("resource.k8s.io", "deviceclasses" | "resourceclaimtemplates") => NAME_AND_AGE,
        _ => return None,
    })
}
