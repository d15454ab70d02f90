//! Selectors are read or refused, and what was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    if let Ok(selector) = FieldSelector::parse(text) {
        let again = FieldSelector::parse(&selector.to_string());
        assert_eq!(again.as_ref(), Ok(&selector), "{text:?}");
    }
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.matches_with(|_| None);
        let _ = selector.matches_with(|_| Some("a"));
    }
});
