//! The bootstrap RBAC policy: the roles and bindings that every cluster starts with.
//!
//! They are kept in a compact table (made by `cargo xtask roles`). At every start, missing objects
//! are recreated and rules removed from a role are restored, unless the object's
//! `rbac.authorization.kubernetes.io/autoupdate` annotation is `"false"`.

use crate::rbac::{PolicyRule, uncovered_rules};
use optik_object::{Map, Object, Value};
use serde_json::json;

const TABLE: &str = include_str!("bootstrap.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
/// The value `"false"` excludes an object from reconciliation at start.
const AUTO_UPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";
const BOOTSTRAPPING_LABEL: &str = "kubernetes.io/bootstrapping";
const AGGREGATE_LABEL_PREFIX: &str = "rbac.authorization.k8s.io/";

/// A bootstrap object and the plural name of its resource.
#[derive(Clone, Debug)]
pub struct BootstrapObject {
    pub plural: &'static str,
    pub object: Object,
}

/// All bootstrap objects; roles come before the bindings that refer to them.
///
/// The table has one line for each object, `ClusterRole NAME`, `Role NAMESPACE/NAME`,
/// `ClusterRoleBinding NAME KIND ROLE` and so on, and below it its parts: `r` groups, resources,
/// names and verbs; `u` paths and verbs; `+` a label; `<` a label of the aggregation rule's
/// selector; `s` a subject. List items are separated by commas.
#[must_use]
pub fn objects() -> Vec<BootstrapObject> {
    let mut all: Vec<BootstrapObject> = Vec::new();
    for line in TABLE.lines() {
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        match (first, all.last_mut()) {
            ("", _) => {}
            ("r" | "u" | "+" | "<" | "s", Some(wanted)) => {
                apply_detail_line(&mut wanted.object, first, &rest);
            }
            (kind, _) => all.extend(parse_object_line(kind, &rest)),
        }
    }
    all
}

fn parse_object_line(kind: &str, rest: &[&str]) -> Option<BootstrapObject> {
    let (namespace, name) = match rest.first()?.split_once('/') {
        Some((namespace, name)) => (namespace, name),
        None => ("", *rest.first()?),
    };
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        "ClusterRoleBinding" => "clusterrolebindings",
        "RoleBinding" => "rolebindings",
        _ => return None,
    };
    let mut object = Object::default();
    object.set_type(kind, &format!("{GROUP}/v1"));
    object.set_name(name);
    object.set_namespace(namespace);
    let metadata = object.metadata_mut();
    metadata.insert(
        "annotations".into(),
        json!({AUTO_UPDATE_ANNOTATION: "true"}),
    );
    metadata.insert(
        "labels".into(),
        json!({BOOTSTRAPPING_LABEL: "rbac-defaults"}),
    );
    let members = object.members_mut();
    match rest {
        [_, kind, role] => {
            let reference = json!({"apiGroup": GROUP, "kind": kind, "name": role});
            members.insert("roleRef".into(), reference);
        }
        _ => drop(members.insert("rules".into(), Value::Null)),
    }
    Some(BootstrapObject { plural, object })
}

fn apply_detail_line(object: &mut Object, what: &str, words: &[&str]) {
    let list = |at: usize| -> Vec<String> {
        let word = words.get(at).copied().unwrap_or_default();
        // The core group has an empty name.
        let items = word
            .split(',')
            .map(|item| if item == "-" { "" } else { item });
        items.map(str::to_owned).collect()
    };
    match what {
        "r" => append_item(
            object,
            "rules",
            rule_value(&PolicyRule {
                api_groups: list(0),
                resources: list(1),
                resource_names: match words.get(2) {
                    Some(&".") | None => Vec::new(),
                    Some(_) => list(2),
                },
                verbs: list(3),
                ..PolicyRule::default()
            }),
        ),
        "u" => append_item(
            object,
            "rules",
            rule_value(&PolicyRule {
                non_resource_urls: list(0),
                verbs: list(1),
                ..PolicyRule::default()
            }),
        ),
        "+" => {
            let labels = object
                .metadata_mut()
                .entry("labels")
                .or_insert_with(|| json!({}));
            labels[format!("{AGGREGATE_LABEL_PREFIX}{}", list(0)[0])] = "true".into();
        }
        "<" => {
            let label = format!("{AGGREGATE_LABEL_PREFIX}{}", list(0)[0]);
            let rule = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
            object.members_mut().insert("aggregationRule".into(), rule);
        }
        _ => append_item(object, "subjects", subject(words)),
    }
}

fn subject(words: &[&str]) -> Value {
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    match (word(0), word(1).split_once('/')) {
        (kind @ "ServiceAccount", Some((namespace, name))) => {
            json!({"kind": kind, "name": name, "namespace": namespace})
        }
        (kind, _) => json!({"kind": kind, "apiGroup": GROUP, "name": word(1)}),
    }
}

fn append_item(object: &mut Object, member: &str, value: Value) {
    let list = object.members_mut().entry(member).or_insert(Value::Null);
    match list {
        Value::Array(items) => items.push(value),
        other => *other = Value::Array(vec![value]),
    }
}

fn rule_value(rule: &PolicyRule) -> Value {
    serde_json::to_value(rule).unwrap_or_default()
}

/// The reconciled object, which allows at least what the bootstrap policy requires; `None` if
/// `there` does already, or opts out of updates.
#[must_use]
pub fn reconcile(there: &Object, wanted: &Object) -> Option<Object> {
    if there.annotation(AUTO_UPDATE_ANNOTATION) == Some("false") {
        return None;
    }
    let mut object = there.clone();
    for member in ["annotations", "labels"] {
        merge_map(&mut object, wanted, member);
    }
    if wanted.get("roleRef").is_some() {
        add_subjects(&mut object, wanted);
    } else {
        add_rules(&mut object, wanted);
        let gathers = object.get("aggregationRule").is_some_and(Value::is_object);
        match wanted.get("aggregationRule") {
            Some(rule) if !gathers => {
                object
                    .members_mut()
                    .insert("aggregationRule".into(), rule.clone());
            }
            Some(rule) => add_selectors(&mut object, rule),
            None => drop(object.members_mut().remove("aggregationRule")),
        }
    }
    (object != *there).then_some(object)
}

/// Adds missing entries of a map; existing entries stay.
fn merge_map(object: &mut Object, wanted: &Object, member: &str) {
    let Some(Value::Object(wanted)) = wanted.metadata().and_then(|meta| meta.get(member)) else {
        return;
    };
    let there = object.metadata_mut().entry(member).or_insert(Value::Null);
    if !there.is_object() {
        *there = Map::new().into();
    }
    if let Value::Object(there) = there {
        for (key, value) in wanted {
            there.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
}

fn rules(object: &Object) -> Vec<PolicyRule> {
    let rules = object.get("rules").filter(|rules| rules.is_array());
    rules
        .and_then(|rules| serde_json::from_value(rules.clone()).ok())
        .unwrap_or_default()
}

fn add_rules(object: &mut Object, wanted: &Object) {
    for rule in uncovered_rules(&rules(object), &rules(wanted)).parts {
        append_item(object, "rules", rule_value(&rule));
    }
}

fn add_subjects(object: &mut Object, wanted: &Object) {
    let there = object
        .get("subjects")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let wanted = wanted
        .get("subjects")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for subject in wanted.filter(|subject| !there.contains(subject)) {
        append_item(object, "subjects", subject.clone());
    }
}

fn add_selectors(object: &mut Object, wanted: &Value) {
    let Some(Value::Object(there)) = object.members_mut().get_mut("aggregationRule") else {
        return;
    };
    let selectors = there
        .entry("clusterRoleSelectors")
        .or_insert_with(|| json!([]));
    let wanted = wanted["clusterRoleSelectors"]
        .as_array()
        .into_iter()
        .flatten();
    if let Value::Array(selectors) = selectors {
        for selector in wanted {
            if !selectors.contains(selector) {
                selectors.push(selector.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(plural: &str, name: &str) -> Object {
        let all = objects();
        let found = all
            .into_iter()
            .find(|wanted| wanted.plural == plural && wanted.object.name() == name);
        found.unwrap().object
    }

    #[test]
    fn bootstrap_roles_match_kube_apiserver() {
        let all = objects();
        let count = |plural: &str| all.iter().filter(|wanted| wanted.plural == plural).count();
        let counts = [
            "clusterroles",
            "clusterrolebindings",
            "roles",
            "rolebindings",
        ]
        .map(count);
        assert_eq!(counts, [69, 50, 7, 7]);
        let admin = find("clusterroles", "cluster-admin");
        assert_eq!(rules(&admin), crate::full_authority());
        let edit = find("clusterroles", "edit");
        assert_eq!(
            edit.label("rbac.authorization.k8s.io/aggregate-to-admin"),
            Some("true")
        );
        assert_eq!(edit.get("rules"), Some(&Value::Null));
    }

    #[test]
    fn bootstrap_reconcile_restores_missing_rules_and_keeps_extra() {
        let wanted = find("clusterroles", "system:basic-user");
        assert_eq!(reconcile(&wanted, &wanted), None);
        let mut less = wanted.clone();
        let own = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        less.members_mut().insert("rules".into(), json!([own]));
        let more = reconcile(&less, &wanted).unwrap();
        assert_eq!(more.get("rules").unwrap()[0], own);
        assert!(uncovered_rules(&rules(&more), &rules(&wanted)).is_empty());
        assert_eq!(reconcile(&more, &wanted), None, "once is enough");
        less.set_annotation(AUTO_UPDATE_ANNOTATION, "false");
        assert_eq!(reconcile(&less, &wanted), None, "it wants to be left alone");

        let wanted = find("clusterrolebindings", "system:discovery");
        let mut less = wanted.clone();
        less.members_mut().insert("subjects".into(), json!([]));
        let more = reconcile(&less, &wanted).unwrap();
        assert_eq!(more.get("subjects"), wanted.get("subjects"));
    }

    #[test]
    fn bootstrap_rules_fit_in_uncovered_rules_report() {
        for wanted in objects() {
            let rules = rules(&wanted.object);
            assert!(
                !uncovered_rules(&[], &rules).more,
                "{}",
                wanted.object.name()
            );
        }
    }
}
