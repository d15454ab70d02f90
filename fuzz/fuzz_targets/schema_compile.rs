//! Any document is taken for a schema or refused, and any object is settled and judged by
//! it; settled once is settled.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::{Value, parse};
use optik_schema::structural::{
    Leniency, Structural, Validation, check_coherence, check_defaults, check_embedded,
    check_keywords, check_lists, drop_unset, fill, prune_structural, types_of, validate,
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
    let schema = Structural::read(&schema);
    let structural = check_coherence(&schema, "schema").is_empty();
    let _ = check_keywords(&schema, "schema", Leniency::default());
    let _ = check_defaults(&schema, "schema", true);
    let _ = types_of(&schema);
    let how = Validation {
        base: "",
        old: None,
    };
    let _ = validate(&schema, &value, how);
    let _ = check_lists(&schema, &value);
    let _ = check_embedded(&schema, &value);
    prune_structural(&schema, &mut value, true);
    drop_unset(&schema, &mut value);
    fill(&schema, &mut value);
    if structural {
        let mut again = value.clone();
        drop_unset(&schema, &mut again);
        fill(&schema, &mut again);
        assert_eq!(again, value);
    }
});
