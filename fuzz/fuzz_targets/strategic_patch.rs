//! Fuzz target: any strategic merge patch of any document gives a document or an error; an empty
//! patch changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{Map, Value, parse, to_bytes};
use optik_patch::{StrategicPatch, StrictDecoding, strategic_merge_patch};
use optik_schema::builtin_type;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (document, patch) = input;
    let Ok(document) = parse(document) else {
        return;
    };
    let Value::Object(live) = document.value else {
        return;
    };
    let of = builtin_type("apps", "v1", "Deployment").expect("a built-in kind");
    let unchanged = strategic_merge_patch(live.clone(), Map::new(), of);
    assert_eq!(unchanged.expect("nothing to refuse"), live);
    match StrategicPatch::decode(patch, StrictDecoding::On) {
        Ok(patch) => match strategic_merge_patch(live, patch.members.clone(), of) {
            Ok(patched) => drop(parse(&to_bytes(&patched)).expect("as shallow as any")),
            Err(error) => drop((error.status(), patch.to_go_string())),
        },
        Err(error) => drop(error.status()),
    }
});
