//! Clients that read and write a few keys, all at once.

use optik_platform::SeededEntropy;
use optik_store_testkit::client::{Client, Stopped};
use optik_store_testkit::history::{Change, Expectation, Item, Span, Wanted};

/// Few, so that clients meet.
const KEYS: [&str; 5] = ["k/a", "k/b", "k/c", "other/a", "other/b"];

/// Goes on until it has done so many things, or the store stops.
pub(crate) async fn write_away(client: Client, seed: u64, operations: u32) {
    let mut writer = Writer {
        client,
        dice: SeededEntropy::new(seed),
        seed,
        written: 0,
    };
    for _ in 0..operations {
        if writer.act().await == Err(Stopped) {
            return;
        }
    }
}

struct Writer {
    client: Client,
    dice: SeededEntropy,
    seed: u64,
    written: u64,
}

impl Writer {
    async fn act(&mut self) -> Result<(), Stopped> {
        match self.dice.below(20) {
            0..8 => self.update().await,
            8..11 => self.remove().await,
            11..13 => self.overwrite().await,
            13..16 => self.swap().await,
            16 => self.discard().await,
            17 => self.look(Wanted::Latest).await,
            18 => self.look(Wanted::Any).await,
            _ => {
                let newest = self.client.store.snapshot().revision().get();
                let ago = self.dice.below(60).min(newest - 1);
                self.look(Wanted::At(newest - ago)).await
            }
        }
    }

    fn key(&self) -> &'static str {
        KEYS[self.dice.below(KEYS.len() as u64) as usize]
    }

    /// A put of a value that nobody else puts: it can be recognised.
    fn put(&mut self, key: &str) -> Change {
        self.written += 1;
        Change::Put {
            key: key.to_owned(),
            value: format!("{} {}", self.seed, self.written),
        }
    }

    /// What a key should be at, as read just now. Others may be faster.
    async fn expectation(&self, key: &str) -> Result<Expectation, Stopped> {
        let wanted = if self.dice.below(2) == 0 {
            Wanted::Latest
        } else {
            Wanted::Any
        };
        let found = self.client.read(Span::one(key), wanted).await?;
        let mod_revision = found.first().map_or(0, |item: &Item| item.mod_revision);
        // Give others a chance to come between.
        tokio::task::yield_now().await;
        Ok(Expectation {
            key: key.to_owned(),
            mod_revision,
        })
    }

    async fn update(&mut self) -> Result<(), Stopped> {
        let key = self.key();
        let expected = self.expectation(key).await?;
        let put = self.put(key);
        self.client.write(vec![expected], vec![put]).await?;
        Ok(())
    }

    async fn remove(&mut self) -> Result<(), Stopped> {
        let key = self.key();
        let expected = self.expectation(key).await?;
        let delete = Change::Delete { key: key.into() };
        self.client.write(vec![expected], vec![delete]).await?;
        Ok(())
    }

    async fn overwrite(&mut self) -> Result<(), Stopped> {
        let put = self.put(self.key());
        self.client.write(Vec::new(), vec![put]).await?;
        Ok(())
    }

    async fn discard(&mut self) -> Result<(), Stopped> {
        let delete = Change::Delete {
            key: self.key().into(),
        };
        self.client.write(Vec::new(), vec![delete]).await?;
        Ok(())
    }

    /// Several keys in one transaction, on conditions on two of them.
    async fn swap(&mut self) -> Result<(), Stopped> {
        let first = self.dice.below(KEYS.len() as u64) as usize;
        let [one, two, three] = [0, 1, 2].map(|step| KEYS[(first + step) % KEYS.len()]);
        let expects = vec![self.expectation(one).await?, self.expectation(two).await?];
        let delete = Change::Delete { key: two.into() };
        let changes = vec![self.put(three), delete, self.put(one)];
        self.client.write(expects, changes).await?;
        Ok(())
    }

    async fn look(&self, wanted: Wanted) -> Result<(), Stopped> {
        let span = match self.dice.below(3) {
            0 => Span::everything(),
            1 => Span::under("k/"),
            _ => Span::one(self.key()),
        };
        self.client.read(span, wanted).await.map(drop)
    }
}
