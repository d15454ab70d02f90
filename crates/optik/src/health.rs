//! The health check of the store, for `/readyz`.

use optik_serve::{StoreCheck, StoreHealth};
use optik_store::Store;
use std::sync::Arc;

pub(crate) fn store_check(store: &Store) -> StoreCheck {
    let store = store.clone();
    Arc::new(move || {
        let store = store.clone();
        Box::pin(async move { store_health(&store).await })
    })
}

async fn store_health(store: &Store) -> StoreHealth {
    match store.status().await {
        Ok(status) if !status.accepts_writes => StoreHealth::ReadOnly,
        Ok(status) if status.disk.is_some_and(|disk| disk.is_nearly_full) => {
            StoreHealth::NearlyFull
        }
        Ok(_) => StoreHealth::Healthy,
        Err(_) => StoreHealth::Unreadable,
    }
}
