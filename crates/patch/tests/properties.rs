//! Properties of any sequence of writes.

mod world;

use optik_object::{DEPTH_MAX, Map, Value};
use optik_patch::typed::{DuplicateItems, compare, extract, merge, remove, to_field_set, validate};
use optik_patch::{ApplyError, FieldSet, Managed, PathElement, strategic_merge_patch};
use optik_schema::{builtin_type, check_types, prune, unknown_fields, zero_value};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use world::{World, custom};

fn text() -> impl Strategy<Value = Value> {
    "[abc]".prop_map(Value::from)
}

fn set() -> impl Strategy<Value = Value> {
    Just(["a", "b", "c", "d"])
        .prop_shuffle()
        .prop_flat_map(|items| {
            (0..=items.len()).prop_map(move |count| items[..count].iter().copied().collect())
        })
}

fn members(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::of(value).prop_map(move |value| (name, value)))
        .collect();
    fields
        .prop_map(|members| {
            let members = members
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)));
            Value::Object(members.collect())
        })
        .boxed()
}

fn inner() -> BoxedStrategy<Value> {
    members(vec![("a", text().boxed()), ("b", text().boxed())])
}

/// Items with different keys.
fn keyed() -> impl Strategy<Value = Value> {
    let item = members(vec![("v", text().boxed()), ("in", inner())]);
    prop::collection::btree_map(("[xy]", 6..9_i64), item, 0..4).prop_map(|items| {
        let items = items.into_iter().map(|((key, port), mut item)| {
            item["k"] = key.into();
            // 7 is the default: omitting it must be equivalent.
            if port != 7 {
                item["p"] = port.into();
            }
            item
        });
        items.collect()
    })
}

/// Valid configurations of the custom kind.
fn config() -> impl Strategy<Value = Value> {
    let map = prop::collection::btree_map("[xyz]", text(), 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
        .boxed();
    let free = prop::collection::btree_map("[xyz]", prop_oneof![text(), set(), inner()], 0..3)
        .prop_map(|members| Value::Object(members.into_iter().collect()));
    members(vec![
        ("set", set().boxed()),
        ("list", set().boxed()),
        ("keyed", keyed().boxed()),
        ("whole", inner()),
        ("map", map.clone()),
        ("wholemap", map),
        (
            "entries",
            prop::collection::btree_map("[xy]", inner(), 0..3)
                .prop_map(|members| {
                    Value::Object(
                        members
                            .into_iter()
                            .map(|(name, value)| (name, json!({"in": value})))
                            .collect(),
                    )
                })
                .boxed(),
        ),
        ("free", free.boxed()),
        ("text", text().boxed()),
        ("inner", inner()),
    ])
    .prop_map(|spec| {
        let mut config = json!({ "spec": spec });
        drop_empty(&mut config);
        config
    })
}

/// Upstream turns a container that loses its content into null, even if another manager owns the
/// container; the properties below do not hold then.
fn drop_empty(value: &mut Value) {
    let is_empty = |value: &Value| {
        let members = value.as_object().is_some_and(Map::is_empty);
        members || value.as_array().is_some_and(Vec::is_empty)
    };
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(drop_empty);
            members.retain(|_, member| !is_empty(member));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn spec(world: &World) -> Value {
    world.at("/spec")
}

fn set_of(world: &World, content: &Value) -> FieldSet {
    to_field_set(custom(), world.body(content.clone()).members())
}

fn owned(world: &World, manager: &str) -> FieldSet {
    let live = world.live.as_ref().map(Managed::from_object);
    let managed = live.map(Result::unwrap).unwrap_or_default();
    let mut entries = managed.entries().iter();
    let entry = entries.find(|entry| entry.manager.name == manager);
    entry.map(|entry| entry.fields.clone()).unwrap_or_default()
}

/// The fields that every configuration has and that are never owned.
fn unrecorded() -> FieldSet {
    FieldSet::from_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata", "name"],
        &["metadata", "managedFields"],
    ])
}

/// The leaves of a configuration by path, as input of the naive merge.
fn leaves(fields: &FieldSet, content: &Map) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    fields.for_each(|path| {
        let below = path
            .iter()
            .try_fold(fields, |fields, element| fields.with_prefix(element));
        if below.is_some_and(|below| !below.is_empty()) {
            return;
        }
        let mut only = FieldSet::new();
        only.insert(path);
        let found = extract(custom(), content, &only);
        leaves.insert(
            path.iter().map(ToString::to_string).collect(),
            Value::Object(found),
        );
    });
    leaves
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn apply_is_idempotent(first in config(), other in config(), again in config()) {
        let mut world = World::thing();
        world.apply("m1", first).unwrap();
        let _ = world.apply("m2!", other);
        world.apply("m1!", again.clone()).unwrap();
        let once = world.live.clone();
        let twice = world.apply("m1", again).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(Some(twice.object), once);
    }

    #[test]
    fn forced_apply_owns_config_fields(first in config(), second in config()) {
        let mut world = World::thing();
        world.create("creator", first.clone());
        world.apply("m1!", first).unwrap();
        world.apply("m2!", second.clone()).unwrap();
        let named = set_of(&world, &second).difference(&unrecorded());
        prop_assert_eq!(owned(&world, "m2"), named.clone());
        // The object has the values of the second apply.
        let body = world.body(second);
        let live = world.live.clone().unwrap();
        prop_assert_eq!(leaves(&named, live.members()), leaves(&named, body.members()));
    }

    #[test]
    fn unforced_apply_takes_no_fields_of_others(first in config(), second in config()) {
        let mut world = World::thing();
        world.apply("m1", first).unwrap();
        let before = (spec(&world), owned(&world, "m1"));
        match world.apply("m2", second) {
            Ok(_) => prop_assert!(before.1.is_subset_of(&owned(&world, "m1"))),
            Err(ApplyError::Conflicts(conflicts)) => {
                prop_assert!(conflicts.count() > 0);
                prop_assert_eq!((spec(&world), owned(&world, "m1")), before);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn applies_of_disjoint_fields_do_not_conflict(first in config(), second in config(), third in config()) {
        // The second and the third configuration lack the fields of the first.
        let mut world = World::thing();
        let firsts = set_of(&world, &first).difference(&unrecorded());
        let seconds = disjoint(&world, &second, &firsts);
        let thirds = disjoint(&world, &third, &firsts);
        world.apply("m1", first.clone()).unwrap();
        world.apply("m2", seconds).unwrap();
        world.apply("m1", first.clone()).unwrap();
        world.apply("m2", thirds).unwrap();
        let body = world.body(first);
        let live = world.live.clone().unwrap();
        prop_assert_eq!(leaves(&firsts, live.members()), leaves(&firsts, body.members()));
        prop_assert_eq!(owned(&world, "m1"), firsts);
    }

    /// Recomputed from scratch: the last configurations of all managers, merged in the order of
    /// their last applies.
    #[test]
    fn apply_sequence_matches_naive_merge(
        steps in prop::collection::vec((0..3_usize, config()), 1..8),
    ) {
        let mut world = World::thing();
        let mut last: Vec<(String, Value)> = Vec::new();
        for (who, content) in steps {
            let manager = format!("m{who}");
            world.apply(&format!("{manager}!"), content.clone()).unwrap();
            last.retain(|(name, _)| *name != manager);
            last.push((manager, content));
        }
        let mut naive = Map::new();
        for (_, content) in &last {
            let body = world.body(content.clone());
            merge(custom(), &mut naive, body.members());
        }
        let live = world.live.clone().unwrap();
        let all = to_field_set(custom(), live.members());
        let owned = last.iter().fold(FieldSet::new(), |all, (name, _)| all.union(&owned(&world, name)));
        // Every owned field has the value of the naive merge.
        prop_assert_eq!(leaves(&owned, live.members()), leaves(&owned, &naive));
        // No unowned field is left, except on the path to an owned one.
        let unowned = all.difference(&owned).difference(&unrecorded());
        let unowned = unowned.paths();
        prop_assert!(unowned.iter().all(|path| is_kept_by_others(path, &owned)), "{:?} of {}", unowned, owned);
    }

    #[test]
    fn fields_v1_round_trips(paths in prop::collection::vec(path(), 0..12)) {
        let mut fields = FieldSet::new();
        for path in &paths {
            fields.insert(path);
        }
        prop_assert_eq!(FieldSet::decode(&fields.encode()), Ok(fields.clone()));
        let parsed: Value = serde_json::from_slice(&fields.to_json()).unwrap();
        prop_assert_eq!(FieldSet::decode(&parsed), Ok(fields.clone()));
        prop_assert!(paths.iter().all(|path| path.is_empty() || fields.contains(path)));
        prop_assert_eq!(fields.paths().len(), fields.len());
    }

    #[test]
    fn fieldset_operations_follow_set_laws(a in paths(), b in paths()) {
        let list = |set: &FieldSet| -> Vec<String> {
            let mut paths = set.paths();
            paths.sort();
            paths
        };
        let (left, right) = (list(&a), list(&b));
        let both: Vec<String> = left.iter().filter(|path| right.contains(path)).cloned().collect();
        let only: Vec<String> = left.iter().filter(|path| !right.contains(path)).cloned().collect();
        let mut any = [only.clone(), right.clone()].concat();
        any.sort();
        prop_assert_eq!(list(&a.union(&b)), any);
        prop_assert_eq!(list(&a.intersection(&b)), both.clone());
        prop_assert_eq!(list(&a.difference(&b)), only.clone());
        prop_assert_eq!(a.is_subset_of(&b), only.is_empty());
        prop_assert_eq!(a.is_disjoint_from(&b), both.is_empty());
        prop_assert!(a.recursive_difference(&b).is_subset_of(&a.difference(&b)));
    }

    #[test]
    fn typed_operations_never_panic(a in any_value(), b in any_value(), fields in any_value()) {
        let (Value::Object(a), Value::Object(b)) = (a, b) else {
            return Ok(());
        };
        for of in [custom(), builtin_type("apps", "v1", "Deployment").unwrap()] {
            let _ = validate(of, &a, DuplicateItems::Allowed).map_err(|why| why.to_string());
            let set = to_field_set(of, &a);
            let comparison = compare(of, &a, &b);
            let mut merged = a.clone();
            merge(of, &mut merged, &b);
            remove(of, &mut merged, &set.union(&comparison.written()));
            let _ = extract(of, &b, &set);
            if let Ok(fields) = FieldSet::decode(&fields) {
                let _ = optik_patch::typed::reconcile(of, &fields);
                let _ = optik_patch::typed::with_declared(of, &fields);
                remove(of, &mut merged, &fields);
            }
            let mut pruned = Value::Object(b.clone());
            let _ = (unknown_fields(of, &pruned), check_types(of, &pruned));
            prune(of, &mut pruned);
            let _ = strategic_merge_patch(a.clone(), b.clone(), of);
        }
        let mut world = World::thing();
        let mut live = world::object(Value::Object(a));
        live.set_type("Thing", "t.io/v1");
        world.live = Some(live);
        let mut config = world::object(Value::Object(b));
        config.set_type("Thing", "t.io/v1");
        let _ = world.try_apply("kubectl", "", &config, false).map_err(|error| error.status());
        world.write("", "u", config);
    }

    /// A write of the live content changes neither the object nor ownership.
    #[test]
    fn apply_of_live_content_changes_nothing(content in config(), applied in config()) {
        let mut world = World::thing();
        world.create("u", content);
        let _ = world.apply("m!", applied);
        let before = world.live.clone();
        let mut live = before.clone().unwrap().members().clone();
        world.patch("other", &Value::Object(live.clone()));
        prop_assert_eq!(&world.live, &before);
        // Only declared fields can be patched so, and no maps of structures.
        live.remove("metadata");
        if let Some(Value::Object(spec)) = live.get_mut("spec") {
            spec.retain(|name, _| !matches!(name.as_str(), "free" | "entries"));
        }
        let merged = strategic_merge_patch(live.clone(), live.clone(), custom());
        prop_assert_eq!(merged.ok(), Some(live));
    }

    #[test]
    fn typed_compare_of_equal_objects_is_empty(content in config()) {
        let world = World::thing();
        let body = world.body(content);
        let comparison = compare(custom(), body.members(), body.members());
        prop_assert!(comparison.written().is_empty() && comparison.removed.is_empty());
    }
}

/// When an applier drops a struct, or an item that contains fields of others, the path to those
/// fields stays, and an item with such fields keeps its keys.
fn is_kept_by_others(path: &str, owned: &FieldSet) -> bool {
    owned.paths().iter().any(|kept| {
        kept.starts_with(path)
            || path
                .rsplit_once('.')
                .is_some_and(|(parent, _)| kept.starts_with(parent))
    })
}

/// A configuration without the fields in `taken` and without those on the paths to them.
fn disjoint(world: &World, content: &Value, taken: &FieldSet) -> Value {
    let mut members = world.body(content.clone()).members().clone();
    let tops = taken
        .with_prefix(&PathElement::field("spec"))
        .cloned()
        .unwrap_or_default();
    let Some(Value::Object(spec)) = members.get_mut("spec") else {
        return json!({});
    };
    spec.retain(|name, _| tops.with_prefix(&PathElement::field(name)).is_none());
    json!({ "spec": spec })
}

fn element() -> impl Strategy<Value = PathElement> {
    let scalar = prop_oneof![
        (-2..3_i64).prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        "[ab<\"]".prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    let key = prop::collection::btree_map("[pq]", scalar.clone(), 0..3);
    prop_oneof![
        "[ab:.]{0,2}".prop_map(|name| PathElement::field(&name)),
        key.prop_map(|key| PathElement::key(
            key.into_iter()
                .map(|(name, value)| (Arc::from(name), value))
                .collect()
        )),
        scalar.prop_map(PathElement::value),
        (-1..3_i64).prop_map(PathElement::Index),
    ]
}

fn path() -> impl Strategy<Value = Vec<PathElement>> {
    prop::collection::vec(element(), 0..4)
}

fn paths() -> impl Strategy<Value = FieldSet> {
    let name = "[abc]".prop_map(|name| PathElement::field(&name));
    prop::collection::vec(prop::collection::vec(name, 1..4), 0..8).prop_map(|paths| {
        let mut set = FieldSet::new();
        for path in &paths {
            set.insert(path);
        }
        set
    })
}

/// Values with known member names, of correct and wrong types.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    let names = "spec|metadata|status|set|list|keyed|whole|map|entries|free|k|p|in|containers|template|\
                 name|env|ports|managedFields|annotations|labels|selector|f:a|v:1|\\.|k:\\{\"a\":1\\}|i:0|fieldsV1";
    leaf.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The smallest stack is that of a tokio worker, 2 MiB.
#[test]
fn deepest_documents_are_patched_within_the_stack() {
    let work = || {
        let mut deep = json!("x");
        for _ in 0..(DEPTH_MAX - 3) / 2 {
            deep = json!({"a": [deep]});
        }
        let mut deeper = json!("y");
        for _ in 0..DEPTH_MAX - 3 {
            deeper = json!({ "a": deeper });
        }
        let mut world = World::thing();
        world.create(
            "u",
            json!({"spec": {"free": {"deep": deep, "deeper": deeper}}}),
        );
        world
            .apply(
                "m!",
                json!({"spec": {"free": {"deeper": deeper, "deep": {"a": 1}}}}),
            )
            .unwrap();
        world.apply("m", json!({})).unwrap();
        let live = world.live.clone().unwrap();
        let _ = strategic_merge_patch(live.members().clone(), live.members().clone(), custom());
        let mut value = Value::Object(live.members().clone());
        let _ = (
            unknown_fields(custom(), &value),
            check_types(custom(), &value),
        );
        prune(custom(), &mut value);
        let _ = zero_value(custom());
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.unwrap().join().unwrap();
}
