//! Sequences of applies, compared with a reference that is too simple to be wrong.

mod model;
#[path = "../world/mod.rs"]
mod world;

use model::{DesiredFields, Model, fields};
use optik_object::Value;
use optik_patch::{ApplyError, Managed};
use proptest::prelude::*;
use std::collections::BTreeSet;
use world::World;

const MANAGERS: [&str; 3] = ["m1", "m2", "m3"];

fn desired_fields() -> impl Strategy<Value = DesiredFields> {
    (
        prop::option::of(0..3_u8),
        prop::collection::btree_map(0..3_u8, 0..3_u8, 0..3),
        prop::collection::btree_set(0..4_u8, 0..3),
        prop::collection::btree_map(0..3_u8, prop::option::of(0..3_u8), 0..3),
    )
        .prop_map(|(text, map, set, keyed)| DesiredFields {
            text,
            map,
            set,
            keyed,
        })
}

/// The paths that a manager owns in managedFields.
fn owned(world: &World, manager: &str) -> BTreeSet<String> {
    let live = world.live.as_ref().map(Managed::from_object);
    let managed = live.map(Result::unwrap).unwrap_or_default();
    let entries = managed.entries().iter();
    let own = entries.filter(|entry| entry.manager.name == manager);
    own.flat_map(|entry| entry.fields.paths()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn apply_sequence_matches_reference_model(
        steps in prop::collection::vec((0..3_usize, any::<bool>(), desired_fields()), 1..12),
    ) {
        let mut world = World::thing();
        let mut model = Model::default();
        for (who, force, wish) in steps {
            let manager = MANAGERS[who];
            let mark = if force { "!" } else { "" };
            let outcome = world.apply(&format!("{manager}{mark}"), wish.content());
            match (outcome, model.apply(manager, force, &wish)) {
                (Ok(_), Ok(())) => {}
                (Err(ApplyError::Conflicts(found)), Err(expected)) => {
                    prop_assert_eq!(found.count(), expected);
                }
                (outcome, expected) => {
                    prop_assert!(false, "{:?} instead of {:?}", outcome.map(|it| it.object), expected);
                }
            }
            let Some(live) = world.live.as_ref() else {
                continue;
            };
            let live = Value::Object(live.members().clone());
            prop_assert_eq!(fields(&live), model.values());
            for manager in MANAGERS {
                prop_assert_eq!(owned(&world, manager), model.owned_by(manager));
            }
        }
    }
}
