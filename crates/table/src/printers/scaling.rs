//! Cells of horizontal pod autoscalers and pod disruption budgets.

use crate::format::{items, lookup, number_at, scalar, text_at};
use crate::row_writer::RowWriter;
use optik_object::JsonView;

pub(crate) fn autoscaler(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let of = |name: &str| text_at(object, &["spec", "scaleTargetRef", name]);
    row.text(&format!("{}/{}", of("kind"), of("name")));
    row.text(&targets(object));
    let min = lookup(object, &["spec", "minReplicas"]).map_or(1, |min| min.as_i64().unwrap_or(0));
    row.text(&min.to_string());
    row.count(object, &["spec", "maxReplicas"]);
    row.count(object, &["status", "currentReplicas"]);
    row.age(object);
}

const TARGETS_MAX: usize = 2;

fn targets(object: JsonView<'_>) -> String {
    // `autoscaling/v1` has a single CPU metric.
    if let Some(target) = lookup(object, &["spec", "targetCPUUtilizationPercentage"]) {
        let current = lookup(object, &["status", "currentCPUUtilizationPercentage"]);
        let current = current.map_or("<unknown>".into(), |own| format!("{}%", scalar(own)));
        return format!("cpu: {current}/{}%", scalar(target));
    }
    let current: Vec<JsonView<'_>> = items(object, &["status", "currentMetrics"]).collect();
    let all: Vec<String> = items(object, &["spec", "metrics"])
        .enumerate()
        .map(|(at, metric)| target(metric, current.get(at).copied()))
        .collect();
    let shown = all[..all.len().min(TARGETS_MAX)].join(", ");
    match all.len() {
        0 => "<none>".into(),
        1..=TARGETS_MAX => shown,
        more => format!("{shown} + {} more...", more - TARGETS_MAX),
    }
}

/// The current and the target value of one metric.
fn target(metric: JsonView<'_>, status: Option<JsonView<'_>>) -> String {
    let source = match &*text_at(metric, &["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let wanted = |name: &str| lookup(metric, &[source, "target", name]);
    let current = |name: &str| {
        let own = status.and_then(|status| lookup(status, &[source, "current", name]));
        own.map_or_else(|| "<unknown>".to_owned(), scalar)
    };
    let average = wanted("averageValue").map(|own| (current("averageValue"), scalar(own)));
    let value = || {
        (
            current("value"),
            wanted("value").map(scalar).unwrap_or_default(),
        )
    };
    match source {
        "pods" => {
            let (current, wanted) = average.unwrap_or_default();
            format!("{current}/{wanted}")
        }
        "external" | "object" => match average {
            Some((current, wanted)) => format!("{current}/{wanted} (avg)"),
            None => {
                let (current, wanted) = value();
                format!("{current}/{wanted}")
            }
        },
        _ => {
            let name = text_at(metric, &[source, "name"]);
            if let Some((current, wanted)) = average {
                return format!("{name}: {current}/{wanted}");
            }
            let percent = |text: String| match text.as_str() {
                "<unknown>" => text,
                _ => format!("{text}%"),
            };
            let wanted = wanted("averageUtilization").map(|own| percent(scalar(own)));
            let wanted = wanted.as_deref().unwrap_or("<auto>");
            format!(
                "{name}: {}/{wanted}",
                percent(current("averageUtilization"))
            )
        }
    }
}

pub(crate) fn disruption_budget(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    for name in ["minAvailable", "maxUnavailable"] {
        let own = lookup(object, &["spec", name]).map(scalar);
        row.text(own.as_deref().unwrap_or("N/A"));
    }
    row.number(number_at(object, &["status", "disruptionsAllowed"]));
    row.age(object);
}
