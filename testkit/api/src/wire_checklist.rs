//! The checklist of the wire: which checks show which of its assertions.
//!
//! Its numbers are its own. [`Check::numbers`](crate::Check) are those of the contract
//! about concurrency and watches.

use crate::{CheckResult, SuiteReport};
use std::collections::BTreeSet;

/// An assertion, and the checks that show it together.
pub const ASSERTIONS: &[(u16, &[&str])] = &[
    (1, &["discovery_and_health::api_lists_core_versions"]),
    (
        2,
        &["discovery_and_health::api_groups_prefer_their_first_version"],
    ),
    (
        3,
        &["discovery_and_health::aggregated_discovery_is_served_on_accept"],
    ),
    (
        4,
        &["discovery_and_health::aggregated_discovery_supports_etag_revalidation"],
    ),
    (
        5,
        &["discovery_and_health::aggregated_discovery_v2beta1_is_not_served"],
    ),
    (
        6,
        &["discovery_and_health::protobuf_discovery_has_the_same_etag"],
    ),
    (
        7,
        &["discovery_and_health::core_group_has_empty_name_in_discovery"],
    ),
    (
        8,
        &["discovery_and_health::discovery_lists_resources_verbs_and_short_names"],
    ),
    (
        9,
        &["discovery_and_health::discovery_lists_resources_verbs_and_short_names"],
    ),
    (
        10,
        &["discovery_and_health::api_groups_prefer_their_first_version"],
    ),
    (
        11,
        &[
            "crd_publishing::discovery_follows_crd_changes",
            "crd_publishing::openapi_follows_crd_changes",
            "custom_resource_definitions::discovery_lists_served_crd_versions_e25_e26",
        ],
    ),
    (
        12,
        &["crd_lifecycle::new_crd_changes_aggregated_discovery_etag"],
    ),
    (
        13,
        &["crd_lifecycle::crd_deletion_deletes_its_objects_and_ends_watches"],
    ),
    (14, &["crd_lifecycle::crd_schema_change_ends_watches"]),
    (15, &["paths::unknown_path_gets_plain_404"]),
    (
        16,
        &["paths::unknown_resource_of_built_in_group_gets_404_status"],
    ),
    (17, &["paths::unsupported_method_gets_405"]),
    (18, &["watch_events::watch_parameter_accepts_go_booleans"]),
    (19, &["paths::unknown_query_parameters_are_ignored"]),
    (20, &["watch_events::deprecated_watch_paths_are_served"]),
    (
        21,
        &["discovery_and_health::openapi_v3_index_lists_group_versions"],
    ),
    (
        22,
        &["discovery_and_health::openapi_v3_with_hash_is_immutable"],
    ),
    (
        23,
        &["discovery_and_health::openapi_v3_with_old_hash_redirects"],
    ),
    (
        24,
        &["discovery_and_health::openapi_lists_patch_content_types"],
    ),
    (
        25,
        &["crd_lifecycle::openapi_lists_patch_types_of_custom_resource"],
    ),
    (
        26,
        &["discovery_and_health::openapi_of_unknown_group_gets_404"],
    ),
    (
        27,
        &["discovery_and_health::openapi_v2_is_served_in_protobuf"],
    ),
    (30, &["discovery_and_health::protobuf_body_is_accepted"]),
    (31, &["discovery_and_health::protobuf_has_magic_prefix"]),
    (
        33,
        &["negotiation::custom_resource_falls_back_from_protobuf_to_json"],
    ),
    (34, &["negotiation::protobuf_of_custom_resource_gets_406"]),
    (35, &["request_bodies::yaml_body_is_accepted"]),
    (
        36,
        &["request_bodies::unsupported_body_content_type_is_rejected"],
    ),
    (
        37,
        &["request_bodies::unsupported_body_content_type_is_rejected"],
    ),
    (38, &["negotiation::unsupported_accept_gets_406"]),
    (
        39,
        &["watch_transport::yaml_watch_error_is_encoded_as_yaml"],
    ),
    (40, &["watch_transport::protobuf_watch_is_length_prefixed"]),
    (41, &["watch_transport::json_watch_is_newline_delimited"]),
    (
        42,
        &["watch_transport::websocket_watch_sends_one_event_per_frame"],
    ),
    (
        43,
        &[
            "negotiation::accept_table_returns_table",
            "tables::table_cells_match_upstream",
        ],
    ),
    (
        44,
        &["watch_transport::table_watch_sends_column_definitions_once"],
    ),
    (45, &["tables::table_in_protobuf_is_not_acceptable"]),
    (46, &["tables::table_include_object_selects_row_object"]),
    (
        47,
        &["negotiation::partial_metadata_of_custom_resource_in_protobuf"],
    ),
    (
        48,
        &["negotiation::partial_object_metadata_must_match_object_or_list"],
    ),
    (49, &["negotiation::large_responses_are_gzipped_on_request"]),
    (
        50,
        &["negotiation::json_is_pretty_for_pretty_param_and_browsers"],
    ),
    (51, &["request_bodies::body_is_limited_to_3_mib"]),
    (52, &["discovery_and_health::cbor_is_not_supported"]),
    (
        53,
        &["custom_resources::strategic_merge_patch_of_custom_resource_gets_415"],
    ),
    (54, &["apply::apply_requires_field_manager"]),
    (
        55,
        &["request_bodies::malformed_json_body_gets_400_with_parse_error"],
    ),
    (
        56,
        &["request_bodies::unknown_fields_follow_field_validation"],
    ),
    (
        57,
        &["request_bodies::unknown_fields_follow_field_validation"],
    ),
    (58, &["create::create_of_existing_name_gets_409"]),
    (59, &["update::update_with_stale_resource_version_gets_409"]),
    (60, &["update::update_of_missing_object_gets_404"]),
    (61, &["paths::invalid_bearer_token_gets_401"]),
    (
        62,
        &["rbac_and_impersonation::forbidden_message_names_user_verb_resource_and_scope"],
    ),
    (
        63,
        &["create::create_with_other_namespace_than_path_gets_400"],
    ),
    (64, &["namespaces::create_in_missing_namespace_gets_404"]),
    (
        65,
        &["resource_versions::list_at_future_revision_times_out_with_504"],
    ),
    (66, &["watch_list::watch_list_options_are_validated"]),
    (
        67,
        &["discovery_and_health::timeout_parameter_limits_request_with_504"],
    ),
    (
        68,
        &[
            "delete::delete_returns_status",
            "delete::delete_with_finalizer_sets_deletion_timestamp",
        ],
    ),
    (
        69,
        &["watch_list::watch_list_is_consistent_and_continues_as_watch"],
    ),
    (
        70,
        &["watch_events::initial_events_end_with_bookmark_if_allowed"],
    ),
    (
        71,
        &["watch_list::watch_with_send_initial_events_false_starts_now"],
    ),
    // What is asked for is given or refused: there is no server of ours without it.
    (72, &["watch_list::watch_list_options_are_validated"]),
    (
        75,
        &["compaction::watch_from_compacted_revision_gets_error_event_410"],
    ),
    (76, &["watch_events::watch_ends_at_timeout_seconds"]),
    (77, &["discovery_and_health::requests_get_audit_id_header"]),
    (78, &["discovery_and_health::requests_get_audit_id_header"]),
    (
        80,
        &["discovery_and_health::health_endpoints_report_individual_checks"],
    ),
    (
        81,
        &["discovery_and_health::health_endpoints_report_individual_checks"],
    ),
    (
        82,
        &["discovery_and_health::health_endpoints_report_individual_checks"],
    ),
    (
        83,
        &["rbac_and_impersonation::anonymous_user_reads_only_health_and_version"],
    ),
    (
        87,
        &["discovery_and_health::version_endpoint_reports_version"],
    ),
    (88, &["discovery_and_health::metrics_count_requests"]),
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
pub fn proven_assertions(report: &SuiteReport) -> BTreeSet<u16> {
    let passed: BTreeSet<&str> = report
        .checks
        .iter()
        .filter(|(_, verdict, _)| matches!(verdict, CheckResult::Passed))
        .map(|(check, ..)| check.name)
        .collect();
    let shown = ASSERTIONS
        .iter()
        .filter(|(_, checks)| checks.iter().all(|check| passed.contains(check)));
    shown.map(|(number, _)| *number).collect()
}
