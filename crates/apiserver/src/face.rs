//! Kinds that show the same stored objects in more than one form.

use optik_catalog::Resource;
use optik_object::{Map, Object, Value};
use serde_json::json;

/// How the objects of a resource differ from what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    AsStored,
    /// `events.k8s.io` shows events that are kept in their core form.
    GroupEvent,
    /// `autoscaling/v1` shows scalers that are kept as `autoscaling/v2`.
    ScalerV1,
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

impl Face {
    pub(crate) fn of(resource: &Resource) -> Self {
        let names = [&resource.group, &resource.version, &resource.plural];
        match names.map(AsRef::as_ref) {
            ["events.k8s.io", _, "events"] => Self::GroupEvent,
            ["autoscaling", "v1", "horizontalpodautoscalers"] => Self::ScalerV1,
            _ => Self::AsStored,
        }
    }

    /// The apiVersion and kind of the stored form, if it is another one.
    pub(crate) fn stored_type(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AsStored => None,
            Self::GroupEvent => Some(("v1", "Event")),
            Self::ScalerV1 => Some(("autoscaling/v2", "HorizontalPodAutoscaler")),
        }
    }

    /// From the stored form; kind and apiVersion are left to the caller.
    pub(crate) fn to_client(self, object: &mut Object) {
        match self {
            Self::AsStored => {}
            Self::GroupEvent => {
                for (core, group) in EVENT_MEMBERS {
                    rename(object.members_mut(), core, group);
                }
                for name in ["reportingController", "reportingInstance"] {
                    // The core form writes them out when they are empty.
                    if object.get(name).and_then(Value::as_str) == Some("") {
                        object.members_mut().remove(name);
                    }
                }
            }
            Self::ScalerV1 => {
                target_from_metrics(object, "spec", SPEC);
                target_from_metrics(object, "status", STATUS);
            }
        }
    }

    /// The other way. Kind and apiVersion become those of the stored form.
    pub(crate) fn to_stored(self, object: &mut Object) {
        match self {
            Self::AsStored => {}
            Self::GroupEvent => {
                for (core, group) in EVENT_MEMBERS {
                    rename(object.members_mut(), group, core);
                }
            }
            Self::ScalerV1 => {
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

/// How the one number of the old form is spelt in the new one.
#[derive(Clone, Copy)]
struct Utilization {
    /// `targetCPUUtilizationPercentage`
    number: &'static str,
    /// `metrics`
    list: &'static str,
    /// `target`
    value: &'static str,
}

const SPEC: Utilization = Utilization {
    number: "targetCPUUtilizationPercentage",
    list: "metrics",
    value: "target",
};
const STATUS: Utilization = Utilization {
    number: "currentCPUUtilizationPercentage",
    list: "currentMetrics",
    value: "current",
};

/// Metrics that the old form has no place for are kept in an annotation, so that a
/// client of the old form can write back what it read.
const OTHER_METRICS: &str = "autoscaling.alpha.kubernetes.io/";

fn is_cpu(metric: &Value, names: Utilization) -> bool {
    let resource = &metric["resource"];
    resource["name"] == "cpu" && resource[names.value]["averageUtilization"].is_number()
}

fn target_from_metrics(object: &mut Object, part: &str, names: Utilization) {
    let Some(Value::Object(members)) = object.members_mut().get_mut(part) else {
        return;
    };
    let Some(Value::Array(metrics)) = members.remove(names.list) else {
        return;
    };
    let (cpu, others): (Vec<Value>, Vec<Value>) = metrics
        .into_iter()
        .partition(|metric| is_cpu(metric, names));
    if let Some(metric) = cpu.first() {
        let number = metric["resource"][names.value]["averageUtilization"].clone();
        members.insert(names.number.into(), number);
    }
    if !others.is_empty() {
        let text = Value::Array(others).to_string();
        object.set_annotation(&annotation(names), &text);
    }
}

fn annotation(names: Utilization) -> String {
    let dashed = match names.list {
        "metrics" => "metrics",
        _ => "current-metrics",
    };
    format!("{OTHER_METRICS}{dashed}")
}

fn metrics_from_target(object: &mut Object, part: &str, names: Utilization) {
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
    if let Some(number) = members.remove(names.number) {
        let mut value = json!({"averageUtilization": number});
        if names.value == "target" {
            value["type"] = "Utilization".into();
        }
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", names.value: value}});
        metrics.insert(0, metric);
    }
    if !metrics.is_empty() {
        members.insert(names.list.into(), metrics.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        value.try_into().unwrap()
    }

    #[test]
    fn a_scaler_comes_back_as_it_was() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}});
        let pods = json!({"type": "Pods", "pods": {"metric": {"name": "x"}}});
        let stored = object(json!({
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "metrics": [cpu, pods]},
        }));
        let mut shown = stored.clone();
        Face::ScalerV1.to_client(&mut shown);
        assert_eq!(
            shown.get("spec").unwrap()["targetCPUUtilizationPercentage"],
            80
        );
        assert!(shown.get("spec").unwrap().get("metrics").is_none());
        let mut back = shown;
        Face::ScalerV1.to_stored(&mut back);
        back.metadata_mut().retain(|_, value| value != &json!({}));
        assert_eq!(back, stored);
    }

    #[test]
    fn an_event_comes_back_as_it_was() {
        let stored = object(json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": "a"},
            "involvedObject": {"name": "x"}, "message": "m", "reason": "r", "count": 3,
        }));
        let mut shown = stored.clone();
        Face::GroupEvent.to_client(&mut shown);
        assert_eq!(shown.get("regarding").unwrap()["name"], "x");
        Face::GroupEvent.to_stored(&mut shown);
        assert_eq!(shown, stored);
    }
}
