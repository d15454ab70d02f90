//! Roles that gather the rules of others.

use crate::client::{Client, note_refusal};
use http::Method;
use optik_access::{Role, Rule, aggregated_rules};
use optik_apiserver::ApiServer;
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use std::time::Duration;

const DIRECTORY: &str = "/registry/clusterroles/";
const PATH: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
/// How soon it is tried again when a role cannot be written.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Keeps aggregated roles what they gather for as long as it is polled, or until the
/// store stops.
pub async fn keep_aggregated_roles(api: ApiServer, store: Store) {
    let client = Client::new(api, "clusterrole-aggregation-controller");
    while let Err(WatchError::Compacted { .. }) = follow(&client, &store).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(client: &Client, store: &Store) -> Result<(), WatchError> {
    let mut watch = store.watch(WatchSpec {
        range: KeyRange::prefix(DIRECTORY),
        from: WatchFrom::Revision(store.snapshot().revision().next()),
    })?;
    loop {
        let settled = settle(client, store).await;
        wait(&mut watch, settled).await?;
    }
}

/// Waits for a change; with something left to do, not for long.
async fn wait(watch: &mut Watch, settled: bool) -> Result<(), WatchError> {
    if settled {
        watch.next().await.map(drop)
    } else {
        match tokio::time::timeout(TRY_AGAIN, watch.next()).await {
            Ok(batch) => batch.map(drop),
            Err(_) => Ok(()),
        }
    }
}

/// Writes the roles that do not have the rules they should. Those may in turn be gathered
/// by others, so this is not the end of it. False if something is left to do.
async fn settle(client: &Client, store: &Store) -> bool {
    let state = store.snapshot();
    let entries = state.entries(&KeyRange::prefix(DIRECTORY));
    let roles: Vec<Role> = entries
        .filter_map(|entry| Role::read(entry.value()).ok())
        .collect();
    let mut settled = true;
    for role in roles.iter().filter(|role| role.is_aggregated()) {
        let rules = aggregated_rules(role, &roles);
        if rules != role.rules {
            settled &= write(client, &role.name, &rules).await;
        }
    }
    settled
}

async fn write(client: &Client, name: &str, rules: &[Rule]) -> bool {
    let path = format!("{PATH}/{name}");
    let found = client.send(Method::GET, &path, None).await;
    if found.code == 404 {
        return true;
    }
    let mut object = found.body;
    object["rules"] = serde_json::json!(rules);
    let done = client.send(Method::PUT, &path, Some(&object)).await;
    match done.code {
        200 | 404 => true,
        // Somebody else was faster: it comes again.
        409 => false,
        code => {
            note_refusal(
                format_args!("cannot gather the rules of {name}"),
                code,
                &done.body,
            );
            false
        }
    }
}
