//! Random histories on the store and on the model: every result must be equal.
//!
//! `OPTIK_TEST_CASES` sets the number of histories, `OPTIK_TEST_SEED` the seed.

use optik_store::{Durability, Options, Retention, Store, TxnLimits};
use optik_store_testkit::model::driver::{StoreFixture, run};
use optik_store_testkit::model::plan::{PlanStep, steps};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use tempfile::TempDir;

const LIMITS: TxnLimits = TxnLimits {
    operations_max: 7,
    bytes_max: 24,
    nesting_max: 2,
};

struct EphemeralFixture;

struct OnDiskFixture(TempDir);

impl StoreFixture for EphemeralFixture {
    fn open(&self) -> Store {
        open(Options::ephemeral())
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn limits(&self) -> TxnLimits {
        LIMITS
    }
}

impl StoreFixture for OnDiskFixture {
    fn open(&self) -> Store {
        open(Options {
            // Restarts, not power losses: no sync is needed.
            durability: Durability::ProcessCrash,
            // So that even a short history fills some, and the cleaner has work.
            segment_bytes: 256,
            ..Options::directory(self.0.path().join("data"))
        })
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn limits(&self) -> TxnLimits {
        LIMITS
    }
}

fn open(options: Options) -> Store {
    let options = Options {
        limits: LIMITS,
        retention: Retention::FOREVER,
        ..options
    };
    Store::open(options).expect("opens")
}

fn number_from(variable: &str, otherwise: u32) -> u32 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn check<B: StoreFixture>(cases: u32, length: usize, bench: impl Fn() -> B) {
    let config = Config {
        cases: number_from("OPTIK_TEST_CASES", cases),
        rng_seed: RngSeed::Fixed(u64::from(number_from("OPTIK_TEST_SEED", 1))),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let property = |plan: Vec<PlanStep>| {
        let done = runtime.block_on(run(&bench(), &plan));
        done.map_err(TestCaseError::fail)
    };
    if let Err(failure) = TestRunner::new(config).run(&steps(length), property) {
        panic!("{failure}");
    }
}

#[test]
fn store_matches_model_in_memory() {
    check(300, 100, || EphemeralFixture);
}

#[test]
fn store_matches_model_on_disk_with_restarts() {
    let bench = || OnDiskFixture(tempfile::tempdir().expect("a directory"));
    check(60, 80, bench);
}
