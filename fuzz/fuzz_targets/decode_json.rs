//! Fuzz target: JSON that is decoded can be stored, and a stored object can be encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{Object, ObjectMeta, parse, splice};

fuzz_target!(|bytes: &[u8]| {
    let _ = ObjectMeta::from_json(bytes);
    let _ = splice(bytes, 1);
    let Ok(parsed) = parse(bytes) else { return };
    let Ok(object) = Object::try_from(parsed.value) else {
        return;
    };
    if let Ok(stored) = object.encode() {
        let shown = splice(&stored, 7)
            .expect("what we wrote we can show")
            .to_vec();
        let again = Object::try_from(parse(&shown).expect("it is JSON").value);
        assert_eq!(again.expect("an object").encode().as_ref(), Ok(&stored));
    }
});
