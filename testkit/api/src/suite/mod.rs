//! The checks, and how to run them.

use crate::kinds::kind;
use crate::object::revision;
use crate::scope::RunContext;
use crate::{
    Check, CheckResult, Client, Failure, Need, Outcome, Scope, ServerCapabilities, SuiteReport,
    Target,
};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

mod access_reviews;
mod admission_plugins;
mod admission_policies;
mod api_services;
mod apply;
mod bookmarks;
mod certificate_signing_requests;
mod compaction;
mod component_statuses;
mod crd_lifecycle;
mod crd_publishing;
mod create;
mod custom_resource_definitions;
mod custom_resources;
mod defaults_and_validation;
mod delete;
mod delete_collection;
mod discovery_and_health;
mod flow_schemas;
mod kind_lifecycle;
mod merging;
mod metadata;
mod namespaces;
mod negotiation;
mod noop_writes;
mod paging;
mod patch;
mod paths;
mod pod_security_admission;
mod pods;
mod rbac_and_impersonation;
mod request_bodies;
mod resource_version_match;
mod resource_versions;
mod selectors;
mod service_account_tokens;
mod slow_watcher;
mod structural_schemas;
mod tables;
mod update;
mod validation_order;
mod validation_rules;
mod watch_events;
mod watch_list;
mod watch_transport;
mod webhooks;

const MODULES: &[&[Check]] = &[
    noop_writes::CHECKS,
    create::CHECKS,
    update::CHECKS,
    patch::CHECKS,
    apply::CHECKS,
    delete::CHECKS,
    delete_collection::CHECKS,
    validation_order::CHECKS,
    pods::CHECKS,
    namespaces::CHECKS,
    paging::CHECKS,
    resource_version_match::CHECKS,
    resource_versions::CHECKS,
    selectors::CHECKS,
    watch_events::CHECKS,
    bookmarks::CHECKS,
    watch_transport::CHECKS,
    slow_watcher::CHECKS,
    watch_list::CHECKS,
    compaction::CHECKS,
    kind_lifecycle::CHECKS,
    defaults_and_validation::CHECKS,
    component_statuses::CHECKS,
    metadata::CHECKS,
    custom_resources::CHECKS,
    custom_resource_definitions::CHECKS,
    crd_publishing::CHECKS,
    crd_lifecycle::CHECKS,
    structural_schemas::CHECKS,
    pod_security_admission::CHECKS,
    api_services::CHECKS,
    validation_rules::CHECKS,
    admission_plugins::CHECKS,
    certificate_signing_requests::CHECKS,
    admission_policies::CHECKS,
    webhooks::webhook_configurations::CHECKS,
    webhooks::match_conditions::CHECKS,
    webhooks::mutating_webhooks::CHECKS,
    webhooks::request_matching::CHECKS,
    webhooks::denial::CHECKS,
    webhooks::failure_policy::CHECKS,
    webhooks::conversion::CHECKS,
    paths::CHECKS,
    request_bodies::CHECKS,
    negotiation::CHECKS,
    rbac_and_impersonation::CHECKS,
    service_account_tokens::CHECKS,
    flow_schemas::CHECKS,
    access_reviews::CHECKS,
    merging::patch_content_types::CHECKS,
    merging::json_patch::CHECKS,
    merging::merge_patch::CHECKS,
    merging::scale_subresource::CHECKS,
    merging::strategic_merge_patch::CHECKS,
    merging::server_side_apply::CHECKS,
    merging::apply_conflicts::CHECKS,
    merging::custom_resource_merging::CHECKS,
    merging::managed_field_versions::CHECKS,
    merging::last_applied::CHECKS,
    merging::managed_fields::CHECKS,
    merging::field_validation::CHECKS,
    merging::dry_run::CHECKS,
    tables::CHECKS,
    discovery_and_health::CHECKS,
];

/// Every check.
pub fn all() -> impl Iterator<Item = &'static Check> {
    MODULES.iter().copied().flatten()
}

/// Runs the checks that cover the assertion whose id is `filter`: `CONC-12`. If there is
/// none, runs the checks whose name or ids contain it: `paging`, `PATCH-`.
///
/// Checks that compact the store come last and alone, because they take away the
/// history that others read.
///
/// # Errors
/// If the server cannot be reached at all.
pub async fn run(
    target: &Target,
    traits: &ServerCapabilities,
    filter: &str,
) -> Outcome<SuiteReport> {
    let client = Client::new(target.clone());
    let run = run_name(&client).await?;
    let shared = RunContext::new(traits.clone());
    let chosen: Vec<&Check> = select(all(), filter);
    let (alone, together): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .enumerate()
        .partition(|(_, check)| check.needs.contains(&Need::Compaction));
    let mut report = SuiteReport::default();
    for (checks, at_once) in [(together, traits.concurrency), (alone, 1)] {
        let going = checks.into_iter().map(|(number, check)| {
            let namespace = format!("{run}-{number}");
            run_check(
                *check,
                client.with_new_connections(),
                namespace,
                Arc::clone(&shared),
            )
        });
        let judged = futures::stream::iter(going).buffered(at_once.max(1));
        report.checks.extend(judged.collect::<Vec<_>>().await);
    }
    Ok(report)
}

/// Unique on a server, since every run writes; and no dice are thrown.
async fn run_name(client: &Client) -> Outcome<String> {
    let path = format!("{}/namespaces?limit=1", kind("namespaces").root());
    let now = revision(&client.get(&path).await?.expect_json(200)?)?;
    Ok(format!("check-{now}"))
}

fn select<'a>(checks: impl Iterator<Item = &'a Check>, filter: &str) -> Vec<&'a Check> {
    let checks: Vec<&Check> = checks.collect();
    let covers = |check: &&&Check| check.ids.contains(&filter);
    let contains = |check: &&&Check| format!("{check:?}").contains(filter);
    if checks.iter().any(|check| covers(&check)) {
        checks.iter().filter(covers).copied().collect()
    } else {
        checks.iter().filter(contains).copied().collect()
    }
}

async fn run_check(
    check: Check,
    client: Client,
    namespace: String,
    shared: Arc<RunContext>,
) -> (Check, CheckResult, Duration) {
    let missing = shared.traits.missing_needs(check.needs);
    if !missing.is_empty() {
        return (check, CheckResult::Skipped(missing), Duration::ZERO);
    }
    let clock = Arc::clone(&shared);
    let start = optik_platform::Clock::monotonic(&clock.clock);
    // A task of its own isolates a panic from the other checks.
    let outcome = match tokio::spawn(run_in_scope(check, client, namespace, shared)).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Failure::new(format!("check panicked: {panic}"))),
    };
    let took = optik_platform::Clock::monotonic(&clock.clock).since(start);
    let verdict = outcome.map_or_else(CheckResult::Failed, |()| CheckResult::Passed);
    (check, verdict, took)
}

async fn run_in_scope(
    check: Check,
    client: Client,
    namespace: String,
    shared: Arc<RunContext>,
) -> Outcome {
    let limit = if check.needs.contains(&Need::SlowMinutes) {
        Duration::from_secs(300)
    } else {
        Duration::from_secs(120)
    };
    let scope = Scope::enter(client, namespace, shared).await?;
    if check.needs.contains(&Need::CustomResources) {
        scope.define_custom_kinds().await?;
    }
    let outcome = tokio::time::timeout(limit, (check.run)(scope.clone())).await;
    scope.cleanup().await;
    outcome.unwrap_or_else(|_| Err(Failure::new(format!("not done in {limit:?}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_an_exact_id_or_a_substring() {
        let check = |name, ids| Check {
            name,
            ids,
            needs: &[],
            run: |_| Box::pin(async { Ok(()) }),
        };
        let checks = [
            check("paging::a", &["CONC-1", "WIRE-12"]),
            check("paging::b", &["CONC-12"]),
            check("apply::a", &[]),
        ];
        for (filter, expected) in [
            ("CONC-1", vec!["paging::a"]),
            ("CONC-12", vec!["paging::b"]),
            ("CONC-", vec!["paging::a", "paging::b"]),
            ("::a", vec!["paging::a", "apply::a"]),
            ("", vec!["paging::a", "paging::b", "apply::a"]),
            ("PATCH-1", vec![]),
        ] {
            let chosen = select(checks.iter(), filter);
            let names: Vec<&str> = chosen.iter().map(|check| check.name).collect();
            assert_eq!(names, expected, "{filter}");
        }
    }
}
