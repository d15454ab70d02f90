//! Fuzz target: selectors are parsed or rejected; a parsed selector can be printed and parsed
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_object::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    if let Ok(selector) = FieldSelector::parse(text) {
        // Terms are sorted by their original spelling, as upstream does it, and `==` is printed as
        // `=`: from the second round on the text is stable.
        let again = |text: &str| FieldSelector::parse(text).map(|read| read.to_string());
        let second = again(&selector.to_string()).expect("what was written is read");
        assert_eq!(again(&second).as_deref(), Ok(&*second), "{text:?}");
    }
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.matches_with(|_| None);
        let _ = selector.matches_with(|_| Some("a"));
    }
});
