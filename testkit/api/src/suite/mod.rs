//! The checks, and how to run them.

use crate::kinds::kind;
use crate::object::revision;
use crate::scope::Shared;
use crate::{Check, Client, Failure, Need, Outcome, Report, Scope, Target, Traits, Verdict};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

mod access;
mod api_services;
mod applying;
mod bodies;
mod bookmarks;
mod builtin;
mod collections;
mod columns;
mod coming;
mod compaction;
mod components;
mod create;
mod custom;
mod definitions;
mod delete;
mod flows;
mod guards;
mod hooks;
mod lives;
mod matrix;
mod media;
mod merging;
mod metadata;
mod namespaces;
mod noop;
mod order;
mod paging;
mod patching;
mod paths;
mod pods;
mod policies;
mod reviews;
mod revisions;
mod rules;
mod schemas;
mod security;
mod selectors;
mod signers;
mod slow;
mod streaming;
mod tables;
mod tokens;
mod transport;
mod update;
mod watching;
mod wire;

const MODULES: &[&[Check]] = &[
    noop::CHECKS,
    create::CHECKS,
    update::CHECKS,
    patching::CHECKS,
    applying::CHECKS,
    delete::CHECKS,
    collections::CHECKS,
    order::CHECKS,
    pods::CHECKS,
    namespaces::CHECKS,
    paging::CHECKS,
    matrix::CHECKS,
    revisions::CHECKS,
    selectors::CHECKS,
    watching::CHECKS,
    bookmarks::CHECKS,
    transport::CHECKS,
    slow::CHECKS,
    streaming::CHECKS,
    compaction::CHECKS,
    lives::CHECKS,
    builtin::CHECKS,
    components::CHECKS,
    metadata::CHECKS,
    custom::CHECKS,
    definitions::CHECKS,
    columns::CHECKS,
    coming::CHECKS,
    schemas::CHECKS,
    security::CHECKS,
    api_services::CHECKS,
    rules::CHECKS,
    guards::CHECKS,
    signers::CHECKS,
    policies::CHECKS,
    hooks::configurations::CHECKS,
    hooks::conditions::CHECKS,
    hooks::mutating::CHECKS,
    hooks::matching::CHECKS,
    hooks::refusing::CHECKS,
    hooks::failing::CHECKS,
    hooks::converting::CHECKS,
    paths::CHECKS,
    bodies::CHECKS,
    media::CHECKS,
    access::CHECKS,
    tokens::CHECKS,
    flows::CHECKS,
    reviews::CHECKS,
    merging::types::CHECKS,
    merging::json::CHECKS,
    merging::documents::CHECKS,
    merging::scaling::CHECKS,
    merging::strategic::CHECKS,
    merging::applies::CHECKS,
    merging::conflicts::CHECKS,
    merging::custom::CHECKS,
    merging::versions::CHECKS,
    merging::last_applied::CHECKS,
    merging::managers::CHECKS,
    merging::validation::CHECKS,
    merging::dry_run::CHECKS,
    tables::CHECKS,
    wire::CHECKS,
];

/// Every check.
pub fn all() -> impl Iterator<Item = &'static Check> {
    MODULES.iter().copied().flatten()
}

/// Runs the checks whose name contains `filter`, or that cover the assertion with
/// that number: `12`, `merging-12`; `merging-` means all of that contract.
///
/// Checks that compact the store come last and alone, because they take away the
/// history that others read.
///
/// # Errors
/// If the server cannot be reached at all.
pub async fn run(target: &Target, traits: &Traits, filter: &str) -> Outcome<Report> {
    let client = Client::new(target.clone());
    let run = run_name(&client).await?;
    let shared = Shared::new(traits.clone());
    let chosen: Vec<&Check> = all().filter(|check| matches(check, filter)).collect();
    let (alone, together): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .enumerate()
        .partition(|(_, check)| check.needs.contains(&Need::Compaction));
    let mut report = Report::default();
    for (checks, at_once) in [(together, traits.concurrency), (alone, 1)] {
        let going = checks.into_iter().map(|(number, check)| {
            let namespace = format!("{run}-{number}");
            judge(*check, client.another(), namespace, Arc::clone(&shared))
        });
        let judged = futures::stream::iter(going).buffered(at_once.max(1));
        report.checks.extend(judged.collect::<Vec<_>>().await);
    }
    Ok(report)
}

/// Unique on a server, since every run writes; and no dice are thrown.
async fn run_name(client: &Client) -> Outcome<String> {
    let path = format!("{}/namespaces?limit=1", kind("namespaces").root());
    let now = revision(&client.get(&path).await?.is(200)?)?;
    Ok(format!("check-{now}"))
}

fn matches(check: &Check, filter: &str) -> bool {
    let number = filter.strip_prefix(check.contract.prefix());
    match (number.map(str::parse::<u16>), filter.parse::<u16>()) {
        (Some(Ok(number)), _) => check.numbers.contains(&number),
        // A number of another contract.
        (_, Ok(_)) => false,
        _ => format!("{check:?}").contains(filter),
    }
}

async fn judge(
    check: Check,
    client: Client,
    namespace: String,
    shared: Arc<Shared>,
) -> (Check, Verdict, Duration) {
    let missing = shared.traits.missing(check.needs);
    if !missing.is_empty() {
        return (check, Verdict::LeftOut(missing), Duration::ZERO);
    }
    let clock = Arc::clone(&shared);
    let start = optik_platform::Clock::monotonic(&clock.clock);
    // A task of its own: a panic ends it, and not the others.
    let outcome = match tokio::spawn(attempt(check, client, namespace, shared)).await {
        Ok(outcome) => outcome,
        Err(panic) => Err(Failure::new(format!("the check itself failed: {panic}"))),
    };
    let took = optik_platform::Clock::monotonic(&clock.clock).since(start);
    let verdict = outcome.map_or_else(Verdict::Failed, |()| Verdict::Passed);
    (check, verdict, took)
}

async fn attempt(check: Check, client: Client, namespace: String, shared: Arc<Shared>) -> Outcome {
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
    scope.leave().await;
    outcome.unwrap_or_else(|_| Err(Failure::new(format!("not done in {limit:?}"))))
}
