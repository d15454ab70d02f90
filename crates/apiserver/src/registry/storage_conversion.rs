//! Conversion of built-in kinds that serve the same stored objects in more than one form.

use optik_catalog::ApiResource;
use optik_object::{Map, Object, Value};
use serde_json::json;

/// The conversion between the served and the stored form of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageConversion {
    Identity,
    /// `events.k8s.io` serves events that are stored in their core form.
    EventsV1,
    /// `autoscaling/v1` serves autoscalers that are stored as `autoscaling/v2`.
    AutoscalingV1,
}

/// Core name, name in `events.k8s.io`.
const EVENT_MEMBERS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

impl StorageConversion {
    pub(crate) fn for_resource(resource: &ApiResource) -> Self {
        let names = [&resource.group, &resource.version, &resource.plural];
        match names.map(AsRef::as_ref) {
            ["events.k8s.io", _, "events"] => Self::EventsV1,
            ["autoscaling", "v1", "horizontalpodautoscalers"] => Self::AutoscalingV1,
            _ => Self::Identity,
        }
    }

    /// The apiVersion and kind of the stored form, if it differs.
    pub(crate) fn stored_type(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Identity => None,
            Self::EventsV1 => Some(("v1", "Event")),
            Self::AutoscalingV1 => Some(("autoscaling/v2", "HorizontalPodAutoscaler")),
        }
    }

    /// Converts from the stored form; the caller sets kind and apiVersion.
    pub(crate) fn to_client(self, object: &mut Object) {
        match self {
            Self::Identity => {}
            Self::EventsV1 => {
                for (core, group) in EVENT_MEMBERS {
                    rename(object.members_mut(), core, group);
                }
                for name in ["reportingController", "reportingInstance"] {
                    // The core form writes these fields even if they are empty.
                    if object.get(name).and_then(Value::as_str) == Some("") {
                        object.members_mut().remove(name);
                    }
                }
            }
            Self::AutoscalingV1 => {
                target_from_metrics(object, "spec", SPEC);
                target_from_metrics(object, "status", STATUS);
            }
        }
    }

    /// Converts to the stored form, including its kind and apiVersion.
    pub(crate) fn to_stored(self, object: &mut Object) {
        match self {
            Self::Identity => {}
            Self::EventsV1 => {
                for (core, group) in EVENT_MEMBERS {
                    rename(object.members_mut(), group, core);
                }
            }
            Self::AutoscalingV1 => {
                metrics_from_target(object, "spec", SPEC);
                metrics_from_target(object, "status", STATUS);
            }
        }
        if let Some((api_version, kind)) = self.stored_type() {
            object.set_type(kind, api_version);
        }
    }
}

fn rename(members: &mut Map, from: &str, to: &str) {
    if let Some(value) = members.remove(from) {
        members.insert(to.into(), value);
    }
}

/// Field names of the CPU utilization in v1 and v2.
#[derive(Clone, Copy)]
struct UtilizationFields {
    /// `targetCPUUtilizationPercentage`
    v1_field: &'static str,
    /// `metrics`
    v2_list: &'static str,
    /// `resource_path`
    v2_value: &'static str,
}

const SPEC: UtilizationFields = UtilizationFields {
    v1_field: "targetCPUUtilizationPercentage",
    v2_list: "metrics",
    v2_value: "target",
};
const STATUS: UtilizationFields = UtilizationFields {
    v1_field: "currentCPUUtilizationPercentage",
    v2_list: "currentMetrics",
    v2_value: "current",
};

/// Metrics that v1 cannot express are kept in an annotation, so that a v1 client can write back
/// what it read.
const OTHER_METRICS: &str = "autoscaling.alpha.kubernetes.io/";

fn is_cpu(metric: &Value, names: UtilizationFields) -> bool {
    let resource = &metric["resource"];
    resource["name"] == "cpu" && resource[names.v2_value]["averageUtilization"].is_number()
}

fn target_from_metrics(object: &mut Object, part: &str, names: UtilizationFields) {
    let Some(Value::Object(members)) = object.members_mut().get_mut(part) else {
        return;
    };
    let Some(Value::Array(metrics)) = members.remove(names.v2_list) else {
        return;
    };
    let (cpu, others): (Vec<Value>, Vec<Value>) = metrics
        .into_iter()
        .partition(|metric| is_cpu(metric, names));
    if let Some(metric) = cpu.first() {
        let number = metric["resource"][names.v2_value]["averageUtilization"].clone();
        members.insert(names.v1_field.into(), number);
    }
    if !others.is_empty() {
        let text = Value::Array(others).to_string();
        object.set_annotation(&annotation(names), &text);
    }
}

fn annotation(names: UtilizationFields) -> String {
    let dashed = match names.v2_list {
        "metrics" => "metrics",
        _ => "current-metrics",
    };
    format!("{OTHER_METRICS}{dashed}")
}

fn metrics_from_target(object: &mut Object, part: &str, names: UtilizationFields) {
    let others = object.annotation(&annotation(names));
    let others = others.and_then(|text| optik_object::parse(text.as_bytes()).ok());
    let mut metrics = match others.map(|parsed| parsed.value) {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    if let Some(Value::Object(annotations)) = object.metadata_mut().get_mut("annotations") {
        annotations.remove(&annotation(names));
    }
    let Some(Value::Object(members)) = object.members_mut().get_mut(part) else {
        return;
    };
    if let Some(number) = members.remove(names.v1_field) {
        let mut value = json!({"averageUtilization": number});
        if names.v2_value == "target" {
            value["type"] = "Utilization".into();
        }
        let metric =
            json!({"type": "Resource", "resource": {"name": "cpu", names.v2_value: value}});
        metrics.insert(0, metric);
    }
    if !metrics.is_empty() {
        members.insert(names.v2_list.into(), metrics.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.try_into().unwrap()
    }

    #[test]
    fn autoscaling_v1_round_trips_through_storage_version() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "x"}}});
        let stored = object(json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "metrics": [cpu, pods]},
        }));
        let mut shown = stored.clone();
        StorageConversion::AutoscalingV1.to_client(&mut shown);
        assert_eq!(
            shown.get("spec").unwrap()["targetCPUUtilizationPercentage"],
            80
        );
        assert!(shown.get("spec").unwrap().get("metrics").is_none());
        let mut back = shown;
        StorageConversion::AutoscalingV1.to_stored(&mut back);
        back.metadata_mut().retain(|_, value| value != &json!({}));
        assert_eq!(back, stored);
    }

    #[test]
    fn events_v1_round_trips_through_storage_version() {
        let stored = object(json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"},
            "involvedObject": {"name": "x"}, "message": "m", "reason": "r", "count": 3,
        }));
        let mut shown = stored.clone();
        StorageConversion::EventsV1.to_client(&mut shown);
        assert_eq!(shown.get("regarding").unwrap()["name"], "x");
        StorageConversion::EventsV1.to_stored(&mut shown);
        assert_eq!(shown, stored);
    }
}
