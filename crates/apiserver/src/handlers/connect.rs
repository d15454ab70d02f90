//! Connect subresources: container logs, exec, attach, port forwarding and proxy.
//!
//! There are no nodes. Requests are validated and refused as upstream does it, as far as the API
//! server alone can; where a kubelet would be called, the response says that there is no node.

use crate::handlers::get::{GetView, ObjectName, get};
use crate::registry::served_resource::ServedResource;
use crate::request::http_types::ApiResponse;
use crate::request::query::Query;
use crate::server::webhook_client::WebhookClient;
use http::StatusCode;
use optik_catalog::ConnectTarget;
use optik_object::Status;
use serde_json::Value;

/// The container lists of a pod spec, in the order in which messages name them.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub(crate) async fn connect(
    outside: &WebhookClient,
    kind: &ServedResource,
    object: ObjectName<'_>,
    reach: ConnectTarget,
    query: &Query<'_>,
) -> Result<ApiResponse, Status> {
    if reach != ConnectTarget::Log && query.get("dryRun").is_some() {
        return Err(Status::bad_request("dryRun is not supported"));
    }
    let name = match reach {
        ConnectTarget::Proxy => without_port(object.name),
        _ => object.name,
    };
    let object = ObjectName { name, ..object };
    let found = get(outside, kind, object, GetView::Object, "").await?;
    let found: Value = serde_json::from_slice(&found)
        .map_err(|error| Status::internal(&format!("stored object is corrupt: {error}")))?;
    if matches!(reach, ConnectTarget::Log | ConnectTarget::ExecOrAttach) {
        check_container(&found, name, query.get_or_empty("container"))?;
    }
    let unplaced = found["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    match reach {
        ConnectTarget::Log if unplaced => return Ok(ApiResponse::empty(StatusCode::NO_CONTENT)),
        ConnectTarget::ExecOrAttach | ConnectTarget::PortForward if unplaced => {
            let text = format!("pod {name} does not have a host assigned");
            return Err(Status::bad_request(text));
        }
        _ => {}
    }
    Err(no_node_error(&kind.resource.singular, name))
}

fn no_node_error(what: &str, name: &str) -> Status {
    Status::unavailable(format!(
        "nothing runs behind {what} \"{name}\": this control plane has no nodes, so there are no \
         logs, shells, ports or metrics of containers"
    ))
}

/// `[scheme:]name[:port]`
fn without_port(name: &str) -> &str {
    let mut parts = name.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (_, Some(name), Some(_)) | (Some(name), _, None) => name,
        _ => name,
    }
}

fn check_container(pod: &Value, name: &str, container: &str) -> Result<(), Status> {
    let of = |sort: &str| {
        let all = pod["spec"][sort].as_array().into_iter().flatten();
        all.filter_map(|one| one["name"].as_str())
    };
    let names: Vec<&str> = CONTAINERS.iter().flat_map(|sort| of(sort)).collect();
    if container.is_empty() {
        if of("containers").count() == 1 {
            return Ok(());
        }
        let choice = names.join(" ");
        return Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{choice}]"
        )));
    }
    if names.contains(&container) {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "container {container} is not valid for pod {name}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_name_drops_scheme_and_port() {
        for (text, name) in [
            ("web", "web"),
            ("web:80", "web"),
            ("https:web:443", "web"),
            ("https:web:", "web"),
        ] {
            assert_eq!(without_port(text), name, "{text}");
        }
    }
}
