//! Formatting helpers for cells of several kinds.

use optik_object::JsonView;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The string at a path; empty if there is none.
pub(crate) fn text_at<'v>(object: JsonView<'v>, path: &[&str]) -> Cow<'v, str> {
    object
        .get_path(path)
        .and_then(JsonView::as_str)
        .unwrap_or_default()
}

pub(crate) fn number_at(object: JsonView<'_>, path: &[&str]) -> i64 {
    object
        .get_path(path)
        .and_then(JsonView::as_i64)
        .unwrap_or(0)
}

pub(crate) fn flag_at(object: JsonView<'_>, path: &[&str]) -> Option<bool> {
    object.get_path(path).and_then(JsonView::as_bool)
}

/// The value at a path, unless it is null. Empty values count.
pub(crate) fn lookup<'v>(object: JsonView<'v>, path: &[&str]) -> Option<JsonView<'v>> {
    object.get_path(path).filter(|value| !value.is_null())
}

pub(crate) fn items<'v>(
    object: JsonView<'v>,
    path: &[&str],
) -> impl Iterator<Item = JsonView<'v>> + Clone {
    object.get_path(path).into_iter().flat_map(JsonView::items)
}

pub(crate) fn length(object: JsonView<'_>, path: &[&str]) -> i64 {
    let list = items(object, path).count();
    let members = object
        .get_path(path)
        .map_or(0, |value| value.members().count());
    i64::try_from(list + members).unwrap_or(i64::MAX)
}

/// A string or a number as text.
pub(crate) fn scalar(value: JsonView<'_>) -> String {
    match value.as_str() {
        Some(text) => text.into_owned(),
        None => String::from_utf8_lossy(value.raw_json()).into_owned(),
    }
}

pub(crate) fn or_none(text: String) -> String {
    if text.is_empty() {
        "<none>".into()
    } else {
        text
    }
}

pub(crate) fn joined<'v>(values: impl Iterator<Item = JsonView<'v>>, between: &str) -> String {
    let texts: Vec<Cow<'v, str>> = values.filter_map(JsonView::as_str).collect();
    texts.join(between)
}

/// Labels as `a=1,b=2`.
pub(crate) fn labels(map: Option<JsonView<'_>>) -> String {
    let members = map.into_iter().flat_map(JsonView::members);
    let pairs: BTreeSet<String> = members
        .filter_map(|(key, value)| Some(format!("{}={}", key.as_str()?, value.as_str()?)))
        .collect();
    pairs.into_iter().collect::<Vec<_>>().join(",")
}

/// A label selector in kubectl's syntax; `None` if it is invalid.
pub(crate) fn selector(selector: Option<JsonView<'_>>) -> Option<String> {
    let Some(selector) = selector else {
        return Some(String::new());
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for (key, value) in selector
        .get("matchLabels")
        .into_iter()
        .flat_map(JsonView::members)
    {
        let (key, value) = (key.as_str()?, value.as_str()?);
        parts.push((key.to_string(), format!("{key}={value}")));
    }
    for term in items(selector, &["matchExpressions"]) {
        let key = text_at(term, &["key"]);
        let mut values: Vec<Cow<'_, str>> = items(term, &["values"])
            .filter_map(JsonView::as_str)
            .collect();
        values.sort();
        let values = values.join(",");
        let text = match &*text_at(term, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_string(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        parts.push((key.into_owned(), text));
    }
    parts.sort_by(|(a, _), (b, _)| a.cmp(b));
    let texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

pub(crate) fn selector_or_none(view: Option<JsonView<'_>>) -> String {
    selector(view).map_or_else(|| "<error>".into(), or_none)
}

/// The names and images of the containers in a pod template.
pub(crate) fn containers(template: Option<JsonView<'_>>) -> (String, String) {
    let list = template.and_then(|template| template.get_path(&["spec", "containers"]));
    let all = || list.into_iter().flat_map(JsonView::items);
    let of = |name: &str| {
        let texts: Vec<Cow<'_, str>> = all().map(|one| text_at(one, &[name])).collect();
        texts.join(",")
    };
    (of("name"), of("image"))
}

/// The first `max` items, and how many more there are.
pub(crate) fn shortened(list: &[String], max: usize, nothing: &str) -> String {
    let shown = list[..list.len().min(max)].join(",");
    match list.len().checked_sub(max) {
        Some(more @ 1..) => format!("{shown} + {more} more..."),
        _ if shown.is_empty() => nothing.to_owned(),
        _ => shown,
    }
}

/// The status condition of a type.
pub(crate) fn condition<'v>(object: JsonView<'v>, kind: &str) -> Option<JsonView<'v>> {
    let mut all = items(object, &["status", "conditions"]);
    all.find(|condition| {
        condition
            .get("type")
            .is_some_and(|own| own.equals_str(kind))
    })
}

pub(crate) fn is_true(condition: JsonView<'_>) -> bool {
    condition
        .get("status")
        .is_some_and(|status| status.equals_str("True"))
}
