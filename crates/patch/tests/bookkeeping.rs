//! Field ownership after updates, and across versions and schemas (PATCH §4).

mod world;

use optik_object::{Map, Object, Timestamp, Value};
use optik_patch::{
    ApplyRequest, Endpoint, Family, FieldSet, Managed, UpdateRequest, VersionConversionError,
    VersionConverter, apply, update, validate_managed_fields,
};
use optik_schema::{Schema, TypeRef};
use serde_json::json;
use std::borrow::Cow;
use std::sync::OnceLock;
use world::World;

/// PATCH-91.
#[test]
fn create_owns_defaults_but_not_zero_values() {
    let mut world = World::deployment();
    world.create(
        "curl",
        json!({"spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "a", "resources": {}, "env": [{"name": "E"}]}],
                "securityContext": {}, "dnsPolicy": "ClusterFirst",
            }},
        }}),
    );
    let expected = json!({"f:spec": {
        "f:replicas": {}, "f:selector": {},
        "f:strategy": {"f:type": {}, "f:rollingUpdate": {".": {}, "f:maxSurge": {}}},
        "f:template": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {
            "f:containers": {"k:{\"name\":\"a\"}": {
                ".": {}, "f:name": {}, "f:resources": {},
                "f:env": {".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}}},
            }},
            "f:securityContext": {}, "f:dnsPolicy": {},
        }},
    }});
    assert_eq!(world.at("/metadata/managedFields/0/fieldsV1"), expected);
    assert_eq!(world.at("/metadata/managedFields/0/manager"), "curl");
    assert_eq!(world.at("/metadata/managedFields/0/operation"), "Update");

    let mut world = World::thing();
    world.create("curl", json!({"spec": {"text": "x"}}));
    assert_eq!(
        world.owners(),
        "U curl .spec .spec.text",
        "a custom kind writes nothing by itself"
    );
}

/// PATCH-94.
#[test]
fn update_to_same_value_changes_no_ownership() {
    let mut world = World::config_map();
    world.create("curl", json!({"data": {"a": "1"}}));
    let before = world.live.clone();
    world.patch("other", &json!({"data": {"a": "1"}}));
    assert_eq!(world.live, before);
}

/// PATCH-95, PATCH-96, PATCH-97.
#[test]
fn update_managers_are_capped() {
    let mut world = World::config_map();
    world.create("u00", json!({"data": {"k00": "1"}}));
    for at in 1..10 {
        world.patch(
            &format!("u{at:02}"),
            &json!({"data": {format!("k{at:02}"): "1"}}),
        );
    }
    assert!(
        !world.owners().contains("ancient-changes"),
        "ten are remembered"
    );
    world.patch("u10", &json!({"data": {"k10": "1"}}));
    let owners = world.owners();
    assert!(
        owners.starts_with("U ancient-changes .data .data.k00 .data.k01; U u02 .data.k02; "),
        "95: {owners}"
    );
    assert_eq!(owners.matches("U ").count(), 10, "PATCH-95");
    assert_eq!(
        world.at("/metadata/managedFields/0/time"),
        "1970-01-01T00:16:41Z",
        "of the last folded"
    );
    world.patch("u11", &json!({"data": {"k11": "1"}}));
    assert!(
        world
            .owners()
            .starts_with("U ancient-changes .data .data.k00 .data.k01 .data.k02; U u03"),
        "PATCH-95"
    );
    for at in 0..12 {
        world
            .apply(&format!("a{at:02}"), json!({"data": {"k00": "1"}}))
            .unwrap();
    }
    let owners = world.owners();
    assert_eq!(owners.matches("A a").count(), 12, "PATCH-96");
    assert!(
        owners.starts_with("A a00 ") && owners.find("U ").unwrap() > owners.rfind("A ").unwrap(),
        "PATCH-97"
    );
}

/// PUTs with managedFields in the body.
/// PATCH-98, PATCH-99, PATCH-100, PATCH-101, PATCH-102.
#[test]
fn put_with_managed_fields_is_tracked() {
    let start = |family: Family| {
        let mut world = World::config_map();
        world.family = family;
        world.create("curl", json!({"data": {"a": "1"}}));
        world
    };
    let put = |world: &mut World, subresource: &str, managers: Value| {
        let mut new = world.live.clone().unwrap();
        new.members_mut()["data"]["b"] = "1".into();
        new.metadata_mut().insert("managedFields".into(), managers);
        world.write(subresource, "put", new);
        world.owners()
    };
    let both = "U curl .data .data.a; U put .data.b";
    let mut bad_operation = start(Family::BuiltIn).at("/metadata/managedFields");
    bad_operation[0]["operation"] = "Nope".into();
    let mut bad_fields = start(Family::BuiltIn).at("/metadata/managedFields");
    bad_fields[0]["fieldsV1"] = json!({"nocolon": {}});
    let mut bad_type = start(Family::BuiltIn).at("/metadata/managedFields");
    bad_type[0]["fieldsType"] = "FieldsV2".into();
    let mut renamed = start(Family::BuiltIn).at("/metadata/managedFields");
    renamed[0]["manager"] = "renamed".into();
    for (number, family, subresource, sent, expected) in [
        ("PATCH-98", Family::BuiltIn, "", json!(null), both),
        ("PATCH-99", Family::BuiltIn, "", bad_operation, both),
        ("PATCH-99 fields", Family::BuiltIn, "", bad_fields, both),
        ("PATCH-99 type", Family::BuiltIn, "", bad_type, both),
        (
            "PATCH-100",
            Family::BuiltIn,
            "",
            renamed,
            "U renamed .data .data.a; U put .data.b",
        ),
        ("PATCH-101", Family::BuiltIn, "", json!([]), ""),
        ("PATCH-101 custom", Family::Custom, "", json!([]), both),
        ("PATCH-101 empty entry", Family::Custom, "", json!([{}]), ""),
        ("PATCH-102", Family::BuiltIn, "status", json!([]), both),
    ] {
        assert_eq!(
            put(&mut start(family), subresource, sent),
            expected,
            "{number}"
        );
    }
}

#[test]
fn managed_fields_sent_with_create_lose_to_the_creator() {
    let mut world = World::config_map();
    let managers = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}}]);
    world.create(
        "curl",
        json!({"data": {"a": "1"}, "metadata": {"managedFields": managers}}),
    );
    assert_eq!(
        world.owners(),
        "U curl .data .data.a",
        "they lose what they claim"
    );
    world.create(
        "curl",
        json!({"data": {"a": "1"}, "metadata": {"managedFields": []}}),
    );
    assert_eq!(world.owners(), "U curl .data .data.a", "no effect");
}

/// A kind with two versions that name a field differently: `spec.old` became `spec.new`.
struct TwoVersions;

static TABLE: &str = "\
=V1
 apiVersion s
 kind s
 metadata u
 spec @1
=Spec1
 old l
 same s
 only l
=V2
 apiVersion s
 kind s
 metadata u
 spec @3
=Spec2
 new l
 same s
 only l
";

impl VersionConverter for TwoVersions {
    fn type_at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        static SCHEMAS: OnceLock<[Schema; 2]> = OnceLock::new();
        let [v1, v2] = SCHEMAS.get_or_init(|| {
            let swapped = TABLE
                .replace("=V1", "=X")
                .replace("spec @1", "spec @3")
                .replace("=V2", "=Y");
            let swapped: &'static str = Box::leak(swapped.into_boxed_str());
            [TABLE, swapped].map(|table| Schema::parse(table).expect("a table"))
        });
        match api_version {
            "g/v1" => Some(v1.root()),
            "g/v2" => Some(v2.root()),
            _ => None,
        }
    }

    fn convert<'v>(
        &self,
        object: &'v Map,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Map>, VersionConversionError> {
        if from == to {
            return Ok(Cow::Borrowed(object));
        }
        let (before, after) = if to == "g/v2" {
            ("old", "new")
        } else {
            ("new", "old")
        };
        let mut object = object.clone();
        object.insert("apiVersion".into(), to.into());
        if let Some(Value::Object(spec)) = object.get_mut("spec")
            && let Some(value) = spec.remove(before)
        {
            spec.insert(after.into(), value);
        }
        Ok(Cow::Owned(object))
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        None
    }
}

fn endpoint<'a>(api_version: &'a str, versions: &'a dyn VersionConverter) -> Endpoint<'a> {
    Endpoint {
        api_version,
        kind: "K",
        subresource: "",
        versions,
    }
}

fn as_version(object: &Object, to: &str) -> Object {
    let converted = TwoVersions
        .convert(object.members(), object.api_version(), to)
        .unwrap();
    world::object(Value::Object(converted.into_owned()))
}

/// PATCH-84.
#[test]
fn applier_of_two_versions_has_one_entry() {
    let now = Timestamp::from_seconds(5);
    let config = |version: &str, spec: Value| {
        world::object(json!({"apiVersion": version, "kind": "K", "metadata": {}, "spec": spec}))
    };
    let run = |live: Option<&Object>, config: &Object| {
        let endpoint = endpoint(config.api_version(), &TwoVersions);
        let request = ApplyRequest {
            live,
            config,
            manager: "m",
            force: false,
            now,
        };
        apply(&endpoint, &request).map(|applied| applied.object)
    };
    let first = run(None, &config("g/v1", json!({"old": 5, "only": 3}))).unwrap();
    let live = as_version(&first, "g/v2");
    let second = run(Some(&live), &config("g/v2", json!({"new": 5}))).unwrap();
    assert_eq!(
        second.get("spec"),
        Some(&json!({"new": 5})),
        "what the first version named is gone"
    );
    let managed = Managed::from_object(&second).unwrap();
    assert_eq!(managed.entries().len(), 1);
    assert_eq!(managed.entries()[0].manager.api_version, "g/v2");
    assert_eq!(managed.entries()[0].fields.paths(), [".spec.new"]);
}

/// PATCH-85, PATCH-86.
#[test]
fn updater_of_two_versions_has_two_entries() {
    let create = |object: &mut Object| {
        let write = UpdateRequest {
            live: None,
            manager: "u",
            now: Timestamp::from_seconds(1),
            family: Family::Custom,
        };
        update(&endpoint("g/v1", &TwoVersions), &write, object);
    };
    let mut object =
        world::object(json!({"apiVersion": "g/v1", "kind": "K", "spec": {"old": 1, "same": "a"}}));
    create(&mut object);
    let live = as_version(&object, "g/v2");
    let mut new = live.clone();
    new.members_mut()["spec"]["new"] = 2.into();
    let write = UpdateRequest {
        live: Some(&live),
        manager: "u",
        now: Timestamp::from_seconds(2),
        family: Family::Custom,
    };
    update(&endpoint("g/v2", &TwoVersions), &write, &mut new);
    let managed = Managed::from_object(&new).unwrap();
    let entries: Vec<_> = managed
        .entries()
        .iter()
        .map(|entry| (entry.manager.api_version.as_str(), entry.fields.to_string()))
        .collect();
    let expected = [
        ("g/v1", ".spec .spec.same".into()),
        ("g/v2", ".spec.new".into()),
    ];
    assert_eq!(
        entries, expected,
        "85: what was changed as `new` is lost as `old`"
    );

    new.metadata_mut()["managedFields"][0]["apiVersion"] = "g/v0".into();
    let live = new.clone();
    new.members_mut()["spec"]["same"] = "b".into();
    let write = UpdateRequest {
        live: Some(&live),
        ..write
    };
    update(&endpoint("g/v2", &TwoVersions), &write, &mut new);
    let managed = Managed::from_object(&new).unwrap();
    assert_eq!(managed.entries().len(), 1, "PATCH-86");
    assert_eq!(
        managed.entries()[0].fields.to_string(),
        ".spec.new .spec.same",
        "PATCH-86"
    );
}

/// PATCH-83.
#[test]
fn managed_fields_follow_schema_atomicity_changes() {
    static GRANULAR: &str =
        "=T\n apiVersion s\n kind s\n metadata u\n spec @1\n=S\n l [=s]\n m {s}\n";
    static ATOMIC: &str =
        "=T\n apiVersion s\n kind s\n metadata u\n spec @1\n=S\n l [s]\n m {!s}\n";
    let types = [GRANULAR, ATOMIC].map(|table| {
        let schema: &'static Schema = Box::leak(Box::new(Schema::parse(table).unwrap()));
        schema.root()
    });
    let world = |of: TypeRef<'static>| World::of("v1", "K", of, Family::Custom);
    let [granular, atomic] = types;
    let mut before = world(granular);
    before
        .apply("m1", json!({"spec": {"l": ["a"], "m": {"x": "1"}}}))
        .unwrap();
    let mut after = world(atomic);
    after.live = before.live.clone();
    after.patch("upd", &json!({"metadata": {"labels": {"a": "b"}}}));
    assert!(
        after.owners().contains("A m1 .spec.l .spec.m;"),
        "{}",
        after.owners()
    );

    let mut back = world(granular);
    back.live = after.live.clone();
    back.apply("m2", json!({"spec": {"l": ["b"]}})).unwrap();
    assert!(
        back.owners().contains("A m1 .spec.l .spec.m;"),
        "stays: {}",
        back.owners()
    );
    assert!(back.owners().contains(r#"A m2 .spec.l[="b"]"#));
}

#[test]
fn malformed_managed_fields_are_refused() {
    for (list, expected) in [
        (
            json!([{"operation": "Nope"}]),
            "operation must be `Apply` or `Update`",
        ),
        (
            json!([{"operation": "Apply"}]),
            "apiVersion must not be empty",
        ),
        (
            json!([{"operation": "Apply", "apiVersion": "v1"}]),
            "missing fieldsType in managed fields entry 0",
        ),
        (
            json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "X"}]),
            r#"invalid fieldsType "X" in managed fields entry 0"#,
        ),
        (
            json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
            "error decoding set: key must be 2 characters long:",
        ),
        (json!([5]), "managedFields is not a list of objects"),
    ] {
        let error = Managed::decode(list.as_array().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut world = World::config_map();
    world.create("curl", json!({"data": {"a": "1"}}));
    world.live.as_mut().unwrap().metadata_mut()["managedFields"][0]["operation"] = "Nope".into();
    let error = world.apply("m", json!({"data": {"a": "1"}})).unwrap_err();
    assert_eq!(
        (error.status().code(), error.status().message()),
        (
            500,
            "failed to decode managed fields: operation must be `Apply` or `Update`"
        )
    );
}

#[test]
fn field_manager_names_are_bounded() {
    let named = |bytes: usize| {
        let managers = json!([{"manager": "m"}, {"manager": "m".repeat(bytes)}]);
        world::object(json!({"metadata": {"managedFields": managers}}))
    };
    assert_eq!(validate_managed_fields(&named(128)), []);
    let errors = validate_managed_fields(&named(129));
    assert_eq!(
        errors[0].to_string(),
        "metadata.managedFields[1].manager: Too long: may not be more than 128 bytes"
    );
}
