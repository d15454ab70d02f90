//! Cells of events, in the `v1` and the `events.k8s.io/v1` form.

use crate::format::{lookup, number_at, text_at};
use crate::row_writer::RowWriter;
use optik_object::JsonView;
use std::borrow::Cow;

/// The first member that is present.
fn either<'v>(object: JsonView<'v>, names: [&str; 2]) -> Option<JsonView<'v>> {
    names.into_iter().find_map(|name| lookup(object, &[name]))
}

fn text<'v>(object: JsonView<'v>, names: [&str; 2]) -> Cow<'v, str> {
    either(object, names)
        .and_then(JsonView::as_str)
        .unwrap_or_default()
}

pub(crate) fn event(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let about = either(object, ["involvedObject", "regarding"]);
    let of_about = |name: &str| {
        about
            .map(|about| text_at(about, &[name]))
            .unwrap_or_default()
    };
    let first = text(object, ["firstTimestamp", "deprecatedFirstTimestamp"]);
    let event_time = text_at(object, &["eventTime"]);
    let first = row.since(if first.is_empty() {
        &event_time
    } else {
        &first
    });
    let last = text(object, ["lastTimestamp", "deprecatedLastTimestamp"]);
    let last = if last.is_empty() {
        first.clone()
    } else {
        row.since(&last)
    };
    let count = either(object, ["count", "deprecatedCount"]).and_then(JsonView::as_i64);
    let (last, count) = match lookup(object, &["series"]) {
        Some(series) => (
            row.since(&text_at(series, &["lastObservedTime"])),
            number_at(series, &["count"]),
        ),
        // In the `events.k8s.io/v1` form, an event without a series happened once.
        None => (last, count.filter(|count| *count != 0).unwrap_or(1)),
    };
    row.text(&last);
    row.text_or(object, &["type"], "");
    row.text_or(object, &["reason"], "");
    let kind = of_about("kind").to_lowercase();
    row.text(&match &*of_about("name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    });
    row.text(&of_about("fieldPath"));
    row.text(&source(object));
    row.text(text(object, ["message", "note"]).trim());
    row.text(&first);
    row.number(count);
    row.name(object);
}

fn source(object: JsonView<'_>) -> String {
    let source = either(object, ["source", "deprecatedSource"]);
    let of = |name: &str| {
        source
            .map(|source| text_at(source, &[name]))
            .unwrap_or_default()
    };
    let component = match of("component") {
        none if none.is_empty() => text(object, ["reportingComponent", "reportingController"]),
        component => component,
    };
    let host = match of("host") {
        none if none.is_empty() => text_at(object, &["reportingInstance"]),
        host => host,
    };
    match &*host {
        "" => component.into_owned(),
        host => format!("{component}, {host}"),
    }
}
