//! Fuzz target: any document compiles as a schema or is rejected; defaulting and validation by the
//! schema accept any object; defaulting is idempotent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{Value, parse};
use optik_schema::structural::{
    Ratcheting, Structural, ValidationOptions, apply_defaults, check_defaults, check_embedded,
    check_keywords, check_lists, check_structural, prune_non_nullable_nulls, prune_structural,
    to_typed_schema, validate,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(parsed) = parse(bytes) else { return };
    let (schema, mut value) = match parsed.value {
        Value::Array(mut pair) if pair.len() == 2 => {
            let value = pair.pop().unwrap_or_default();
            (pair.pop().unwrap_or_default(), value)
        }
        schema => (schema.clone(), schema),
    };
    let schema = Structural::from_json(&schema);
    let structural = check_structural(&schema, "schema").is_empty();
    let _ = check_keywords(&schema, "schema", Ratcheting::default());
    let _ = check_defaults(&schema, "schema", true);
    let _ = to_typed_schema(&schema);
    let how = ValidationOptions {
        base: "",
        old: None,
    };
    let _ = validate(&schema, &value, how);
    let _ = check_lists(&schema, &value);
    let _ = check_embedded(&schema, &value);
    prune_structural(&schema, &mut value, true);
    prune_non_nullable_nulls(&schema, &mut value);
    apply_defaults(&schema, &mut value);
    if structural {
        let mut again = value.clone();
        prune_non_nullable_nulls(&schema, &mut again);
        apply_defaults(&schema, &mut again);
        assert_eq!(again, value);
    }
});
