//! The actual sequence of changes, read from the store itself.

use optik_server_testkit::TestServer;
use optik_store::{KeyRange, Watch, WatchFrom, WatchSpec};
use optik_store_testkit::timeout::within;
use std::collections::BTreeMap;

const DIRECTORY: &str = "/registry/configmaps/default/";

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreChange {
    pub(crate) revision: u64,
    pub(crate) name: String,
    pub(crate) deleted: bool,
}

/// The revision of each object that is there.
pub(crate) type State = BTreeMap<String, u64>;

/// All changes of the config maps of a namespace that had none.
pub(crate) struct StoreChangeLog {
    watch: Watch,
    changes: Vec<StoreChange>,
}

impl StoreChangeLog {
    pub(crate) fn start(server: &TestServer) -> Self {
        let range = KeyRange::prefix(DIRECTORY);
        let now = server.store.snapshot();
        assert_eq!(now.entries(&range).count(), 0, "nothing is there yet");
        let from = WatchFrom::Revision(now.revision().next());
        let watch = server.store.watch(WatchSpec { range, from });
        Self {
            watch: watch.expect("the present can be watched"),
            changes: Vec::new(),
        }
    }

    /// Reads on until a revision that changed something.
    pub(crate) async fn read_until(&mut self, revision: u64) {
        while self
            .changes
            .last()
            .is_none_or(|last| last.revision < revision)
        {
            let batch = within("the ledger", self.watch.next()).await;
            let batch = batch.expect("the ledger keeps up");
            self.changes.extend(batch.events().map(|event| {
                let version = event.version();
                let name = &version.key()[DIRECTORY.len()..];
                StoreChange {
                    revision: version.mod_revision().get(),
                    name: String::from_utf8_lossy(name).into_owned(),
                    deleted: version.is_deletion(),
                }
            }));
        }
    }

    pub(crate) fn changes(&self) -> &[StoreChange] {
        &self.changes
    }
}

/// The state after some changes.
pub(crate) fn state_after(changes: &[StoreChange]) -> State {
    let mut state = State::new();
    for change in changes {
        if change.deleted {
            state.remove(&change.name);
        } else {
            state.insert(change.name.clone(), change.revision);
        }
    }
    state
}
