//! Comparison with recordings of kube-apiserver v1.36.4. Each file is one object and its steps: a
//! write, and the resulting object or error.

use optik_object::{Object, Timestamp, Value};
use optik_patch::{
    ApplyRequest, Endpoint, Family, FieldSet, Managed, OneVersion, UpdateRequest, apply, update,
};
use optik_schema::{Schema, TypeRef, builtin_type};
use serde_json::Map;

/// The text of a recording.
macro_rules! recording {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../recordings/patch/",
                $name,
                ".json"
            )),
        )
    };
}

const FILES: &[(&str, &str)] = &[
    recording!("capped"),
    recording!("cleared"),
    recording!("configmap"),
    recording!("custom"),
    recording!("deployment"),
    recording!("dups"),
    recording!("handover"),
    recording!("hpa"),
    recording!("ingress"),
    recording!("job"),
    recording!("lastapplied"),
    recording!("namespace"),
    recording!("pod"),
    recording!("pv"),
    recording!("random"),
    recording!("secret"),
    recording!("service"),
    recording!("statefulset"),
];

fn type_of(document: &Value) -> TypeRef<'static> {
    if let Some(table) = document["table"].as_str() {
        let table: &'static str = Box::leak(table.to_owned().into_boxed_str());
        let schema = Box::leak(Box::new(Schema::parse(table).expect("a table")));
        return schema.root();
    }
    let api_version = document["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin_type(group, version, document["kind"].as_str().unwrap()).expect("a built-in kind")
}

/// The fields that an endpoint resets.
fn reset(subresource: &str, kind: &str) -> FieldSet {
    match (subresource, kind) {
        ("", _) => FieldSet::from_fields(&[&["status"]]),
        (_, "Thing") => {
            FieldSet::from_fields(&[&["spec"], &["metadata"], &["kind"], &["apiVersion"]])
        }
        _ => FieldSet::from_fields(&[&["spec"], &["metadata", "labels"]]),
    }
}

fn object(value: &Value) -> Object {
    value.clone().try_into().expect("an object")
}

fn drop_path(value: &mut Value, path: &str) {
    let Some((first, rest)) = path.split_once('.') else {
        value.as_object_mut().map(|it| it.remove(path));
        return;
    };
    if let Some(inner) = value.get_mut(first) {
        drop_path(inner, rest);
    }
}

/// The time of the write: the latest time in managedFields.
fn now(object: &Value) -> Timestamp {
    let entries = object["metadata"]["managedFields"].as_array();
    let times = entries
        .into_iter()
        .flatten()
        .filter_map(|it| it["time"].as_str());
    let times = times.filter_map(|time| time.parse().ok());
    times.max().unwrap_or_default()
}

fn managers(value: &Value) -> Value {
    value["metadata"]
        .get("managedFields")
        .cloned()
        .unwrap_or_default()
}

/// Compares managedFields, and reports where they differ.
fn check_managers(place: &str, ours: &Object, theirs: &Value) {
    let ours = managers(&Value::Object(ours.members().clone()));
    let theirs = managers(theirs);
    let text = |list: &Value| {
        let entries = list.as_array().into_iter().flatten().map(Value::to_string);
        entries.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text(&ours), text(&theirs), "{place}");
}

fn replay(name: &str, document: &Value) {
    let of = type_of(document);
    let (api_version, kind) = (
        document["apiVersion"].as_str().unwrap(),
        document["kind"].as_str().unwrap(),
    );
    let mut live: Option<Object> = None;
    for (at, step) in document["steps"].as_array().unwrap().iter().enumerate() {
        let place = format!("{name}, step {at}");
        // Rejected by the validation of the kind, after the apply.
        if step["code"] == 422 {
            continue;
        }
        let subresource = step["subresource"].as_str().unwrap_or("");
        let reset = reset(subresource, kind);
        let versions = OneVersion {
            api_version,
            of,
            reset: Some(&reset),
        };
        let endpoint = Endpoint {
            api_version,
            kind,
            subresource,
            versions: &versions,
        };
        let manager = step["manager"].as_str().unwrap();
        let after = &step["object"];
        if step["verb"] == "apply" {
            let config = object(&step["body"]);
            let request = ApplyRequest {
                live: live.as_ref(),
                config: &config,
                manager,
                force: step["force"] == true,
                now: now(after),
            };
            match (apply(&endpoint, &request), step["message"].as_str()) {
                (Ok(applied), None) => {
                    check_managers(&place, &applied.object, after);
                    // The server, not this crate, resets fields when it stores the object.
                    let is_plain = ["custom", "configmap", "handover", "random"].contains(&name);
                    if is_plain && subresource.is_empty() {
                        check_content(&place, &applied.object, after);
                    }
                }
                (Err(error), Some(message)) => {
                    let status = error.status();
                    assert_eq!(status.message(), message, "{place}");
                    assert_eq!(
                        u64::from(status.code()),
                        step["code"].as_u64().unwrap(),
                        "{place}"
                    );
                    let mut causes: Vec<&str> = status
                        .details()
                        .map(|it| it.causes.iter().map(|cause| cause.field.as_str()).collect())
                        .unwrap_or_default();
                    let theirs = step["causes"].as_array().into_iter().flatten();
                    let mut theirs: Vec<&str> = theirs.filter_map(Value::as_str).collect();
                    causes.sort_unstable();
                    theirs.sort_unstable();
                    assert_eq!(causes, theirs, "{place}");
                }
                (ours, theirs) => panic!("{place}: {ours:?}, not {theirs:?}"),
            }
        } else {
            let mut new = after.clone();
            drop_path(&mut new, "metadata.managedFields");
            for path in step["unowned"].as_array().into_iter().flatten() {
                drop_path(&mut new, path.as_str().unwrap());
            }
            if let Some(sent) = step.get("sent") {
                new["metadata"]["managedFields"] = sent.clone();
            }
            let mut new = object(&new);
            // Members the server sets itself were not in the request either.
            let before = live.as_ref().map(|live| {
                let mut live = Value::Object(live.members().clone());
                for path in step["unowned"].as_array().into_iter().flatten() {
                    drop_path(&mut live, path.as_str().unwrap());
                }
                object(&live)
            });
            let write = UpdateRequest {
                live: before.as_ref(),
                manager,
                now: now(after),
                family: Family::BuiltIn,
            };
            update(&endpoint, &write, &mut new);
            check_managers(&place, &new, after);
        }
        if step.get("object").is_some() {
            live = Some(object(after));
        }
    }
}

/// Compares the result with the stored object; these kinds have few defaults.
fn check_content(place: &str, ours: &Object, theirs: &Value) {
    let ours = Value::Object(ours.members().clone());
    for member in ["spec", "data"] {
        let mut ours = ours.get(member).cloned().unwrap_or_default();
        let mut theirs = theirs.get(member).cloned().unwrap_or_default();
        normalize(&mut ours);
        normalize(&mut theirs);
        assert_eq!(ours, theirs, "{place} {member}");
    }
}

/// Null and empty are equal in Go, and keys of items are defaulted.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.contains_key("k") && !members.contains_key("p") {
                members.insert("p".into(), 7.into());
            }
            members.values_mut().for_each(normalize);
            members.retain(|_, member| !member.is_null() && *member != "");
            if members.is_empty() {
                *value = Value::Null;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        // Go writes whole floats without a point.
        Value::Number(number) if number.as_f64() == Some(1.0) => *value = 1.into(),
        _ => {}
    }
}

#[test]
fn managed_fields_match_upstream_recordings() {
    for (name, text) in FILES {
        let document: Value = serde_json::from_str(text).expect(name);
        replay(name, &document);
    }
}

/// Every field set recorded from upstream decodes and encodes without a change.
#[test]
fn upstream_fields_v1_round_trip() {
    let mut sets = 0;
    for (name, text) in FILES {
        let document: Value = serde_json::from_str(text).expect(name);
        for step in document["steps"].as_array().unwrap() {
            let Some(list) = step["object"]["metadata"]["managedFields"].as_array() else {
                continue;
            };
            let managed = Managed::decode(list).unwrap();
            assert_eq!(&managed.encode(), list, "{name}");
            for entry in list {
                let set = FieldSet::decode(&entry["fieldsV1"]).unwrap();
                assert_eq!(set.encode(), entry["fieldsV1"], "{name}");
                let parsed: Map<String, Value> = serde_json::from_slice(&set.to_json()).unwrap();
                assert_eq!(Value::Object(parsed), entry["fieldsV1"], "{name}");
                sets += 1;
            }
        }
    }
    assert!(sets > 100);
}
