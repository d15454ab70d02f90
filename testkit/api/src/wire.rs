//! The checklist of the wire: which checks show which of its assertions.
//!
//! Its numbers are its own. [`Check::numbers`](crate::Check) are those of the contract
//! about concurrency and watches.

use crate::{Report, Verdict};
use std::collections::BTreeSet;

/// An assertion, and the checks that show it together.
pub const ASSERTIONS: &[(u16, &[&str])] = &[
    (1, &["wire::core_versions"]),
    (2, &["wire::groups_prefer_their_first_version"]),
    (3, &["wire::discovery_is_aggregated_for_those_who_ask"]),
    (4, &["wire::discovery_is_revalidated"]),
    (5, &["wire::the_beta_of_discovery_is_gone"]),
    (6, &["wire::discovery_in_protobuf_has_the_same_tag"]),
    (7, &["wire::the_core_group_has_no_name"]),
    (8, &["wire::kinds_are_described"]),
    (9, &["wire::kinds_are_described"]),
    (10, &["wire::groups_prefer_their_first_version"]),
    (
        11,
        &[
            "columns::discovery_follows_the_definitions",
            "columns::a_description_follows_the_definition",
            "definitions::discovery_tells_what_is_served_e25_e26",
        ],
    ),
    (12, &["coming::a_new_kind_changes_the_tag_of_discovery"]),
    (13, &["coming::a_kind_that_goes_takes_its_objects_along"]),
    (14, &["coming::a_schema_that_changes_ends_watches"]),
    (15, &["paths::unknown_paths"]),
    (16, &["paths::unknown_resources_of_built_in_groups"]),
    (17, &["paths::methods_that_are_not_allowed"]),
    (18, &["watching::what_counts_as_watch"]),
    (19, &["paths::unknown_parameters_are_ignored"]),
    (20, &["watching::the_old_paths_watch_too"]),
    (21, &["wire::descriptions_are_indexed"]),
    (22, &["wire::a_description_can_be_kept"]),
    (23, &["wire::an_old_hash_leads_to_the_new_one"]),
    (24, &["wire::patches_are_described"]),
    (25, &["coming::patches_of_a_custom_kind_are_described"]),
    (26, &["wire::what_is_not_there_is_not_described"]),
    (27, &["wire::the_old_description_in_protobuf"]),
    (30, &["wire::protobuf_is_read"]),
    (31, &["wire::protobuf_begins_with_its_magic"]),
    (33, &["media::custom_resources_speak_what_else_is_accepted"]),
    (34, &["media::custom_resources_speak_no_protobuf"]),
    (35, &["bodies::yaml_is_read"]),
    (36, &["bodies::types_of_bodies"]),
    (37, &["bodies::types_of_bodies"]),
    (38, &["media::what_nobody_speaks_is_refused"]),
    (39, &["transport::the_refusal_of_yaml_is_yaml"]),
    (40, &["transport::protobuf_comes_with_lengths"]),
    (41, &["transport::json_comes_in_lines"]),
    (42, &["transport::a_websocket_has_one_event_per_frame"]),
    (43, &["media::tables_are_written", "tables::cells"]),
    (44, &["transport::tables_have_headers_once"]),
    (45, &["tables::protobuf_has_no_tables"]),
    (46, &["tables::the_object_of_a_row"]),
    (47, &["media::metadata_of_custom_resources_is_like_any"]),
    (48, &["media::a_transform_must_fit"]),
    (49, &["media::large_answers_are_compressed"]),
    (50, &["media::json_is_pretty_on_demand"]),
    (51, &["bodies::a_body_may_have_three_mebibytes"]),
    (52, &["wire::nobody_speaks_cbor"]),
    (53, &["custom::strategic_patches_are_refused"]),
    (54, &["applying::an_apply_needs_a_manager"]),
    (55, &["bodies::malformed_json_is_quoted_back"]),
    (56, &["bodies::unknown_fields_are_ignored_or_not"]),
    (57, &["bodies::unknown_fields_are_ignored_or_not"]),
    (58, &["create::a_name_can_be_taken_once"]),
    (59, &["update::an_update_of_another_revision_conflicts"]),
    (60, &["update::what_is_missing_is_not_updated"]),
    (61, &["paths::a_wrong_token_is_refused"]),
    (62, &["access::a_refusal_says_who_what_and_where"]),
    (63, &["create::the_namespace_must_be_that_of_the_path"]),
    (64, &["namespaces::a_missing_namespace_takes_no_content"]),
    (65, &["revisions::a_list_of_the_future_waits_and_fails"]),
    (66, &["streaming::options_are_validated"]),
    (67, &["wire::time_is_limited_on_demand"]),
    (
        68,
        &[
            "delete::a_delete_answers_with_a_status",
            "delete::a_finalizer_keeps_the_object",
        ],
    ),
    (
        69,
        &["streaming::a_streaming_list_is_consistent_and_goes_on"],
    ),
    (
        70,
        &["watching::initial_events_end_with_a_bookmark_if_bookmarks_are_allowed"],
    ),
    (
        71,
        &["streaming::without_initial_events_a_watch_begins_now"],
    ),
    // What is asked for is given or refused: there is no server of ours without it.
    (72, &["streaming::options_are_validated"]),
    (
        75,
        &["compaction::a_watch_of_the_forgotten_past_fails_in_its_stream"],
    ),
    (76, &["watching::a_watch_ends_in_time"]),
    (77, &["wire::requests_have_names"]),
    (78, &["wire::requests_have_names"]),
    (80, &["wire::health_in_detail"]),
    (81, &["wire::health_in_detail"]),
    (82, &["wire::health_in_detail"]),
    (83, &["access::strangers_see_little"]),
    (87, &["wire::the_version_is_told"]),
    (88, &["wire::requests_are_counted"]),
];

/// Assertions that are about clients, and the files where those show them: scripts and
/// programs that `cargo xtask compat` runs, and tests.
pub const BY_CLIENTS: &[(u16, &[&str])] = &[
    (28, &["compat/kubectl/run.sh"]),
    (29, &["compat/kubectl/read.sh"]),
    (32, &["crates/apiserver/tests/patched_custom.rs"]),
    (73, &["compat/go/clientgo/informers_test.go"]),
    (74, &["compat/kubectl/read.sh"]),
    (79, &["crates/serve/tests/access.rs"]),
    (84, &["crates/serve/tests/shutdown.rs"]),
    (85, &["crates/serve/tests/flow.rs"]),
    (86, &["crates/serve/tests/flow.rs"]),
    (89, &["compat/kubectl/run.sh"]),
    (90, &["compat/kubectl/read.sh"]),
    (
        91,
        &[
            "compat/go/envtest/envtest_test.go",
            "crates/cli/tests/standin.rs",
        ],
    ),
    (92, &["compat/go/envtest/envtest_test.go"]),
    (93, &["compat/java/Client.java"]),
    (94, &["testkit/clients/tests/kube/main.rs"]),
    (95, &["compat/helm/run.sh"]),
];

/// Assertions all of whose checks ran and passed.
#[must_use]
pub fn proven(report: &Report) -> BTreeSet<u16> {
    let passed: BTreeSet<&str> = report
        .checks
        .iter()
        .filter(|(_, verdict, _)| matches!(verdict, Verdict::Passed))
        .map(|(check, ..)| check.name)
        .collect();
    let shown = ASSERTIONS
        .iter()
        .filter(|(_, checks)| checks.iter().all(|check| passed.contains(check)));
    shown.map(|(number, _)| *number).collect()
}
