//! Fuzz target: any JSON patch of any document gives a document that can be decoded, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{parse, to_bytes};
use optik_patch::{JsonPatch, MergePatch, StrictDecoding, merge_patch};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (document, patch) = input;
    let Ok(document) = parse(document) else {
        return;
    };
    for checks in [StrictDecoding::On, StrictDecoding::Off] {
        match JsonPatch::decode(patch, checks) {
            Ok(patch) => match patch.apply(document.value.clone()) {
                Ok(patched) => drop(parse(&to_bytes(&patched)).expect("as shallow as any")),
                Err(error) => drop(error.status()),
            },
            Err(error) => drop(error.status()),
        }
    }
    match (
        MergePatch::decode(patch, StrictDecoding::On),
        document.value,
    ) {
        (Ok(patch), optik_object::Value::Object(mut members)) => {
            merge_patch(&mut members, patch.members);
            parse(&to_bytes(&members)).expect("as shallow as any");
        }
        (Err(error), _) => drop(error.status()),
        _ => {}
    }
});
