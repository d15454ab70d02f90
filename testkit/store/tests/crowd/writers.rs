//! Clients that concurrently read and write a few keys.

use optik_platform::SeededEntropy;
use optik_store_testkit::client::{RecordingClient, StoreStopped};
use optik_store_testkit::history::{Expectation, KeyChange, KeySpan, KeyState, ReadFreshness};

/// Few, so that clients meet.
const KEYS: [&str; 5] = ["k/a", "k/b", "k/c", "other/a", "other/b"];

/// Goes on until it has done so many things, or the store stops.
pub(crate) async fn run_writer(client: RecordingClient, seed: u64, operations: u32) {
    let mut writer = RandomWriter {
        client,
        dice: SeededEntropy::new(seed),
        seed,
        written: 0,
    };
    for _ in 0..operations {
        if writer.random_operation().await == Err(StoreStopped) {
            return;
        }
    }
}

struct RandomWriter {
    client: RecordingClient,
    dice: SeededEntropy,
    seed: u64,
    written: u64,
}

impl RandomWriter {
    async fn random_operation(&mut self) -> Result<(), StoreStopped> {
        match self.dice.below(20) {
            0..8 => self.update().await,
            8..11 => self.remove().await,
            11..13 => self.overwrite().await,
            13..16 => self.swap().await,
            16 => self.discard().await,
            17 => self.look(ReadFreshness::Latest).await,
            18 => self.look(ReadFreshness::Any).await,
            _ => {
                let newest = self.client.store.snapshot().revision().get();
                let ago = self.dice.below(60).min(newest - 1);
                self.look(ReadFreshness::At(newest - ago)).await
            }
        }
    }

    fn key(&self) -> &'static str {
        KEYS[self.dice.below(KEYS.len() as u64) as usize]
    }

    /// A put of a value that nobody else puts: it can be recognised.
    fn put(&mut self, key: &str) -> KeyChange {
        self.written += 1;
        KeyChange::Put {
            key: key.to_owned(),
            value: format!("{} {}", self.seed, self.written),
        }
    }

    /// What a key should be at, as read just now. Others may be faster.
    async fn expectation(&self, key: &str) -> Result<Expectation, StoreStopped> {
        let wanted = if self.dice.below(2) == 0 {
            ReadFreshness::Latest
        } else {
            ReadFreshness::Any
        };
        let found = self.client.read(KeySpan::single(key), wanted).await?;
        let mod_revision = found.first().map_or(0, |item: &KeyState| item.mod_revision);
        // Lets other tasks run in between.
        tokio::task::yield_now().await;
        Ok(Expectation {
            key: key.to_owned(),
            mod_revision,
        })
    }

    async fn update(&mut self) -> Result<(), StoreStopped> {
        let key = self.key();
        let expected = self.expectation(key).await?;
        let put = self.put(key);
        self.client.write(vec![expected], vec![put]).await?;
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), StoreStopped> {
        let key = self.key();
        let expected = self.expectation(key).await?;
        let delete = KeyChange::Delete { key: key.into() };
        self.client.write(vec![expected], vec![delete]).await?;
        Ok(())
    }

    async fn overwrite(&mut self) -> Result<(), StoreStopped> {
        let put = self.put(self.key());
        self.client.write(Vec::new(), vec![put]).await?;
        Ok(())
    }

    async fn discard(&mut self) -> Result<(), StoreStopped> {
        let delete = KeyChange::Delete {
            key: self.key().into(),
        };
        self.client.write(Vec::new(), vec![delete]).await?;
        Ok(())
    }

    /// Several keys in one transaction, on conditions on two of them.
    async fn swap(&mut self) -> Result<(), StoreStopped> {
        let first = self.dice.below(KEYS.len() as u64) as usize;
        let [one, two, three] = [0, 1, 2].map(|step| KEYS[(first + step) % KEYS.len()]);
        let expects = vec![self.expectation(one).await?, self.expectation(two).await?];
        let delete = KeyChange::Delete { key: two.into() };
        let changes = vec![self.put(three), delete, self.put(one)];
        self.client.write(expects, changes).await?;
        Ok(())
    }

    async fn look(&self, wanted: ReadFreshness) -> Result<(), StoreStopped> {
        let span = match self.dice.below(3) {
            0 => KeySpan::all(),
            1 => KeySpan::prefix("k/"),
            _ => KeySpan::single(self.key()),
        };
        self.client.read(span, wanted).await.map(drop)
    }
}
