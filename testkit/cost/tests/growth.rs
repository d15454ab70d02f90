//! What a request costs grows no faster than the request.
//!
//! Each case is asked with so many items, and with four times as many. Work that compares all
//! with all costs sixteen times as much then; work that sorts costs little more than four times.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cases are written as one value within another"
)]

#[path = "growth/access.rs"]
mod access;
#[path = "growth/case.rs"]
mod case;
#[path = "growth/custom.rs"]
mod custom;
#[path = "growth/fields.rs"]
mod fields;
#[path = "growth/longest.rs"]
mod longest;
#[path = "growth/metadata.rs"]
mod metadata;
#[path = "growth/patches.rs"]
mod patches;
#[path = "growth/reads.rs"]
mod reads;

use case::check;

#[global_allocator]
static ALLOCATOR: optik_cost::CountingAllocator = optik_cost::CountingAllocator;

#[test]
fn fields_of_built_in_kinds() {
    check(fields::cases());
}

#[test]
fn metadata_of_any_kind() {
    check(metadata::cases());
}

#[test]
fn patches_of_four_types() {
    check(patches::cases());
}

#[test]
fn roles_reviews_and_certificate_requests() {
    check(access::cases());
}

#[test]
fn definitions_custom_objects_and_expressions() {
    check(custom::cases());
}

#[test]
fn selectors_and_forms_of_answers() {
    check(reads::cases());
}

#[test]
fn the_longest_requests() {
    longest::check();
}
