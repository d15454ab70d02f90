//! What stands in the cells of each kind.
//!
//! Objects are shown as they are stored. What upstream fills in when it reads an object
//! (the type of a service that says none) is filled in here too.

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

use crate::row::Row;
use optik_object::View;

/// The cells of a kind.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) write: fn(View<'_>, &mut Row<'_>),
    pub(crate) conditions: Option<fn(View<'_>) -> Option<&'static str>>,
}

const fn cells(write: fn(View<'_>, &mut Row<'_>)) -> Cells {
    Cells {
        write,
        conditions: None,
    }
}

pub(crate) const FALLBACK: Cells = cells(|object, row| {
    row.name(object);
    row.text_or(object, &["metadata", "creationTimestamp"], "");
});

const NAME_AND_AGE: Cells = cells(|object, row| {
    row.name(object);
    row.age(object);
});

/// The cells of a built-in kind.
pub(crate) fn of(group: &str, plural: &str) -> Option<Cells> {
    Some(match (group, plural) {
        ("", "pods") => Cells {
            write: pods::pod,
            conditions: Some(pods::conditions),
        },
        ("", "podtemplates") => cells(workloads::pod_template),
        ("", "replicationcontrollers") => cells(workloads::replication_controller),
        ("apps", "replicasets") => cells(workloads::replica_set),
        ("apps", "deployments") => cells(workloads::deployment),
        ("apps", "statefulsets") => cells(workloads::stateful_set),
        ("apps", "daemonsets") => cells(workloads::daemon_set),
        ("apps", "controllerrevisions") => cells(workloads::controller_revision),
        ("batch", "jobs") => cells(workloads::job),
        ("batch", "cronjobs") => cells(workloads::cron_job),
        ("", "services") => cells(network::service),
        ("", "endpoints") => cells(network::endpoints),
        ("discovery.k8s.io", "endpointslices") => cells(network::endpoint_slice),
        ("networking.k8s.io", "ingresses") => cells(network::ingress),
        ("networking.k8s.io", "ingressclasses") => cells(network::ingress_class),
        ("networking.k8s.io", "networkpolicies") => cells(network::network_policy),
        ("networking.k8s.io", "servicecidrs") => cells(network::service_cidr),
        ("networking.k8s.io", "ipaddresses") => cells(network::ip_address),
        ("", "persistentvolumes") => cells(storage::volume),
        ("", "persistentvolumeclaims") => cells(storage::claim),
        ("storage.k8s.io", "storageclasses") => cells(storage::class),
        ("storage.k8s.io", "csidrivers") => cells(storage::csi_driver),
        ("storage.k8s.io", "csinodes") => cells(storage::csi_node),
        ("storage.k8s.io", "volumeattachments") => cells(storage::attachment),
        ("storage.k8s.io", "volumeattributesclasses") => cells(storage::attributes_class),
        ("", "events") | ("events.k8s.io", "events") => cells(events::event),
        ("autoscaling", "horizontalpodautoscalers") => cells(scaling::autoscaler),
        ("policy", "poddisruptionbudgets") => cells(scaling::disruption_budget),
        ("", "namespaces") => cells(cluster::namespace),
        ("", "configmaps") => cells(cluster::config_map),
        ("", "secrets") => cells(cluster::secret),
        ("", "nodes") => cells(cluster::node),
        ("", "resourcequotas") => cells(cluster::resource_quota),
        ("", "componentstatuses") => cells(cluster::component_status),
        ("coordination.k8s.io", "leases") => cells(cluster::lease),
        ("scheduling.k8s.io", "priorityclasses") => cells(cluster::priority_class),
        ("node.k8s.io", "runtimeclasses") => cells(cluster::runtime_class),
        ("resource.k8s.io", "resourceclaims") => cells(cluster::resource_claim),
        ("resource.k8s.io", "resourceslices") => cells(cluster::resource_slice),
        ("flowcontrol.apiserver.k8s.io", "flowschemas") => cells(access::flow_schema),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") => {
            cells(access::priority_level)
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            cells(access::role_binding)
        }
        ("certificates.k8s.io", "certificatesigningrequests") => cells(access::signing_request),
        ("apiregistration.k8s.io", "apiservices") => cells(access::api_service),
        ("admissionregistration.k8s.io", plural) => cells(match plural {
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
