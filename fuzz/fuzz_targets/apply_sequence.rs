//! Fuzz target: sequences of server-side applies, compared with a simple reference model.
#![no_main]

#[path = "../../crates/patch/tests/reference/model.rs"]
mod model;
#[path = "../../crates/patch/tests/world/mod.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use model::{DesiredFields, Model, fields};
use optik_object::Value;
use optik_patch::{ApplyError, Managed};
use std::collections::BTreeSet;
use world::World;

const MANAGERS: [&str; 4] = ["m1", "m2", "m3", "m4"];

/// Field manager, force, text, map members, set members, list items.
type Step = (
    u8,
    bool,
    Option<u8>,
    Vec<(u8, u8)>,
    Vec<u8>,
    Vec<(u8, Option<u8>)>,
);

fuzz_target!(|steps: Vec<Step>| {
    let mut world = World::thing();
    let mut model = Model::default();
    for (who, force, text, map, set, keyed) in steps {
        let manager = MANAGERS[usize::from(who) % MANAGERS.len()];
        let wish = DesiredFields {
            text,
            map: map
                .into_iter()
                .map(|(key, value)| (key % 4, value))
                .collect(),
            set: set.into_iter().map(|item| item % 4).collect(),
            keyed: keyed
                .into_iter()
                .map(|(key, value)| (key % 4, value))
                .collect(),
        };
        let mark = if force { "!" } else { "" };
        let outcome = world.apply(&format!("{manager}{mark}"), wish.content());
        match (outcome, model.apply(manager, force, &wish)) {
            (Ok(_), Ok(())) => {}
            (Err(ApplyError::Conflicts(found)), Err(expected)) => {
                assert_eq!(found.count(), expected);
            }
            (outcome, expected) => panic!("{outcome:?} instead of {expected:?}"),
        }
        let Some(live) = world.live.as_ref() else {
            continue;
        };
        let managed = Managed::from_object(live).expect("what we wrote");
        let live = Value::Object(live.members().clone());
        assert_eq!(fields(&live), model.values());
        for manager in MANAGERS {
            let entries = managed.entries().iter();
            let own = entries.filter(|entry| entry.manager.name == manager);
            let owned: BTreeSet<String> = own.flat_map(|entry| entry.fields.paths()).collect();
            assert_eq!(owned, model.owned_by(manager));
        }
    }
});
