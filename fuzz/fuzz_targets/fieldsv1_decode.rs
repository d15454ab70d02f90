//! Fuzz target: a set of fields (FieldsV1) that can be decoded is encoded without change.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{Value, parse};
use optik_patch::{FieldSet, Managed};

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = parse(bytes) else {
        return;
    };
    if let Ok(fields) = FieldSet::decode(&document.value) {
        let written = parse(&fields.to_json()).expect("as shallow as it was read");
        assert_eq!(FieldSet::decode(&written.value).as_ref(), Ok(&fields));
        assert_eq!(FieldSet::decode(&fields.encode()).as_ref(), Ok(&fields));
        assert_eq!(fields.paths().len(), fields.len());
        assert_eq!(fields.union(&fields), fields);
        assert!(fields.difference(&fields).is_empty());
    }
    if let Value::Array(list) = &document.value
        && let Ok(managed) = Managed::decode(list)
    {
        let again = Managed::decode(&managed.encode()).expect("what we wrote");
        assert_eq!(again.encode(), managed.encode());
    }
});
