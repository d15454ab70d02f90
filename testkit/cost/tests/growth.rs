//! The cost of a request grows no faster than the request.
//!
//! Each case is sent with a number of items, and with four times as many. Quadratic work costs
//! sixteen times as much then; sorting costs little more than four times.

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
#[path = "growth/metadata.rs"]
mod metadata;
#[path = "growth/patches.rs"]
mod patches;
#[path = "growth/peak_memory.rs"]
mod peak_memory;
#[path = "growth/selectors_and_formats.rs"]
mod selectors_and_formats;

use case::check;

#[global_allocator]
static ALLOCATOR: optik_cost::CountingAllocator = optik_cost::CountingAllocator;

#[test]
fn cost_of_built_in_fields_grows_linearly() {
    check(fields::cases());
}

#[test]
fn cost_of_metadata_grows_linearly() {
    check(metadata::cases());
}

#[test]
fn cost_of_patches_grows_linearly() {
    check(patches::cases());
}

#[test]
fn cost_of_roles_reviews_and_csrs_grows_linearly() {
    check(access::cases());
}

#[test]
fn cost_of_crds_custom_objects_and_cel_grows_linearly() {
    check(custom::cases());
}

#[test]
fn cost_of_selectors_and_response_formats_grows_linearly() {
    check(selectors_and_formats::cases());
}

#[test]
fn peak_memory_of_longest_requests_is_bounded() {
    peak_memory::check();
}
