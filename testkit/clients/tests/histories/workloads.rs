//! The workloads of the clients: increments, and conflicting writes.

use optik_clients_testkit::client::{ReadInterrupted, RecordingHttpClient};
use optik_platform::SeededEntropy;
use optik_store_testkit::history::{KeyState, OperationOutcome, ReadFreshness};
use optik_store_testkit::timeout::within;

/// Never deleted, only counted up.
pub(crate) const COUNTERS: [&str; 2] = ["c-0", "c-1"];
/// Few, so that clients meet.
pub(crate) const CONTENDED_OBJECTS: [&str; 3] = ["x-0", "x-1", "x-2"];

/// The number in the value of a counter. The rest names the writer.
pub(crate) fn count_in(value: &str) -> u64 {
    let number = value.split(' ').next().and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("a counter holds a number: {value:?}"))
}

/// Counts up until it has succeeded so often.
pub(crate) async fn increment(client: RecordingHttpClient, counter: &'static str, successes: u32) {
    let mut incrementer = Incrementer {
        client,
        counter,
        attempts: 0,
    };
    for _ in 0..successes {
        // However many others there are, everybody's turn comes.
        within("an increment", incrementer.succeed()).await;
    }
}

struct Incrementer {
    client: RecordingHttpClient,
    counter: &'static str,
    attempts: u32,
}

impl Incrementer {
    async fn succeed(&mut self) {
        loop {
            let found = match self.client.get(self.counter).await {
                Ok(found) => found.expect("a counter is never deleted"),
                Err(ReadInterrupted) => continue,
            };
            self.attempts += 1;
            let count = count_in(&found.value) + 1;
            let value = format!("{count} by {}-{}", self.client.number, self.attempts);
            if let OperationOutcome::Written { .. } = self.client.update(&found, &value).await {
                return;
            }
        }
    }
}

/// Creates, changes and deletes until it has succeeded so often, and looks around.
pub(crate) async fn contend(client: RecordingHttpClient, seed: u64, successes: u32) {
    let mut changer = ContendingWriter {
        client,
        dice: SeededEntropy::new(seed),
        attempts: 0,
        newest: 0,
    };
    for _ in 0..successes {
        within("a change", changer.succeed()).await;
    }
}

struct ContendingWriter {
    client: RecordingHttpClient,
    dice: SeededEntropy,
    attempts: u32,
    /// The newest revision that a list had.
    newest: u64,
}

impl ContendingWriter {
    async fn succeed(&mut self) {
        loop {
            let done = self.random_operation().await;
            if let Ok(Some(OperationOutcome::Written { .. } | OperationOutcome::Done)) = done {
                return;
            }
        }
    }

    async fn random_operation(&mut self) -> Result<Option<OperationOutcome>, ReadInterrupted> {
        let name = CONTENDED_OBJECTS[self.dice.below(CONTENDED_OBJECTS.len() as u64) as usize];
        match self.dice.below(20) {
            0..3 => Ok(Some(self.create(name).await)),
            3..10 => self.change(name).await.map(Some),
            10..14 => self.delete(name).await,
            14..16 => self.list_all(ReadFreshness::Latest, 0).await,
            16 => self.list_all(ReadFreshness::Any, 0).await,
            17 => self.list_all(ReadFreshness::Latest, 2).await,
            18 if self.newest > 0 => self.list_all(ReadFreshness::At(self.newest), 2).await,
            _ => self.client.get(name).await.map(|_| None),
        }
    }

    /// A unique value, so that its writer can be identified.
    fn value(&mut self) -> String {
        self.attempts += 1;
        format!("{}-{}", self.client.number, self.attempts)
    }

    async fn create(&mut self, name: &str) -> OperationOutcome {
        let value = self.value();
        self.client.create(name, &value).await
    }

    /// Changes an object after reading it; another client may be faster.
    async fn change(&mut self, name: &str) -> Result<OperationOutcome, ReadInterrupted> {
        Ok(match self.seen(name).await? {
            Some(seen) => {
                let value = self.value();
                self.client.update(&seen, &value).await
            }
            None => self.create(name).await,
        })
    }

    async fn delete(&mut self, name: &str) -> Result<Option<OperationOutcome>, ReadInterrupted> {
        Ok(match self.seen(name).await? {
            Some(seen) => Some(self.client.delete(&seen).await),
            None => None,
        })
    }

    async fn seen(&mut self, name: &str) -> Result<Option<KeyState>, ReadInterrupted> {
        let seen = self.client.get(name).await?;
        // Lets other tasks run in between.
        tokio::task::yield_now().await;
        Ok(seen)
    }

    async fn list_all(
        &mut self,
        wanted: ReadFreshness,
        limit: u32,
    ) -> Result<Option<OperationOutcome>, ReadInterrupted> {
        let revision = self.client.list(wanted, limit).await?;
        self.newest = self.newest.max(revision);
        Ok(None)
    }
}
