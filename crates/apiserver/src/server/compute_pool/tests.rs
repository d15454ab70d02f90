use crate::server::compute_pool::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

fn user(name: &str) -> Arc<User> {
    Arc::new(User {
        name: name.into(),
        ..User::default()
    })
}

fn pool(threads: usize) -> ComputePool {
    ComputePool::start(threads, Handle::current(), || ()).unwrap()
}

#[tokio::test]
async fn compute_pool_runs_work_off_the_runtime_with_its_timers() {
    let pool = pool(1);
    let here = thread::current().id();
    let work = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        tokio::task::yield_now().await;
        thread::current().id()
    };
    assert_ne!(pool.run(user("a"), 1, work).await, here);
}

#[tokio::test]
async fn compute_pool_propagates_panics_to_the_caller() {
    let pool = pool(1);
    let panicking = async { std::panic::panic_any("no way") };
    let asked = AssertUnwindSafe(pool.run(user("a"), 1, panicking)).catch_unwind();
    let panic = asked.await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no way"));
    assert_eq!(
        pool.run(user("a"), 1, async { 7 }).await,
        7,
        "the thread goes on"
    );
}

/// At most one job per thread runs at a time, and a waiting job holds no thread.
#[tokio::test]
async fn compute_pool_threads_do_not_block_on_waiting_work() {
    let pool = pool(1);
    let go = Arc::new(Notify::new());
    let waits = {
        let go = Arc::clone(&go);
        async move { go.notified().await }
    };
    let passes = async {
        pool.run(user("b"), 1, async {}).await;
        go.notify_one();
    };
    futures::join!(pool.run(user("a"), 1, waits), passes);
}

#[tokio::test]
async fn compute_pool_concurrency_is_bounded_by_its_threads() {
    let pool = pool(2);
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let work = |_| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        pool.run(user("a"), 1, async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::hint::black_box((0..10_000).sum::<usize>());
            now.fetch_sub(1, Ordering::SeqCst);
        })
    };
    futures::future::join_all((0..200).map(work)).await;
    assert!(most.load(Ordering::SeqCst) <= 2);
}

/// Started work is finished after its caller is gone; queued work is dropped.
#[tokio::test]
async fn compute_pool_does_not_start_dropped_work() {
    let pool = pool(1);
    let go = Arc::new(Notify::new());
    let first = {
        let go = Arc::clone(&go);
        // Takes all the capacity of its user.
        pool.run(
            user("a"),
            USER_WEIGHT_MAX,
            async move { go.notified().await },
        )
    };
    let mut first = Box::pin(first);
    assert!(first.as_mut().now_or_never().is_none());
    let begun = Arc::new(AtomicUsize::new(0));
    let second = {
        let begun = Arc::clone(&begun);
        pool.run(
            user("a"),
            1,
            async move { begun.fetch_add(1, Ordering::SeqCst) },
        )
    };
    assert!(Box::pin(second).as_mut().now_or_never().is_none());
    go.notify_one();
    first.await;
    pool.run(user("a"), 1, async {}).await;
    assert_eq!(begun.load(Ordering::SeqCst), 0);
}

/// The waiting work of two users takes all the capacity; an administrator needs none.
#[tokio::test]
async fn compute_pool_admits_administrators_without_queueing() {
    let pool = pool(1);
    let go = Arc::new(Semaphore::new(0));
    let waits = |name: &str| {
        let go = Arc::clone(&go);
        let (pool, user) = (&pool, user(name));
        Box::pin(async move {
            let work = async move { drop(go.acquire().await.expect("is never closed")) };
            pool.run(user, USER_WEIGHT_MAX, work).await;
        })
    };
    let (mut a, mut b) = (waits("a"), waits("b"));
    assert!(a.as_mut().now_or_never().is_none() && b.as_mut().now_or_never().is_none());
    let admin = Arc::new(User::admin());
    assert_eq!(pool.run(admin, USER_WEIGHT_MAX, async { 7 }).await, 7);
    // Also if one of them has not begun to wait.
    go.add_permits(2);
    futures::future::join_all([a, b]).await;
}

#[tokio::test]
async fn compute_pool_answers_many_users() {
    let pool = pool(3);
    let work = |at: usize| {
        let user = user(&format!("user {}", at % 7));
        let pool = &pool;
        async move {
            let work = async move {
                for _ in 0..at % 5 {
                    tokio::task::yield_now().await;
                }
                at
            };
            pool.run(user, USER_WEIGHT_MAX / (1 + at % 4), work).await
        }
    };
    let done = futures::future::join_all((0..500).map(work)).await;
    assert!(done.into_iter().eq(0..500));
}
