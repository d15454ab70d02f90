//! Tests of the supervisor: restarts, status and shutdown.

use optik_platform::ManualClock;
use optik_supervisor::{Impact, Supervisor, Task, TaskStatus};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
const TASK: Task = Task::serving("task");

fn status(supervisor: &Supervisor) -> TaskStatus {
    let mut tasks = supervisor.tasks();
    assert_eq!(tasks.len(), 1);
    tasks.remove(0)
}

/// A supervisor, and a task that reports its starts and ends when the test says so.
fn start_controlled(task: Task) -> (Supervisor, mpsc::UnboundedReceiver<()>, Arc<Notify>) {
    let supervisor = Supervisor::new(Arc::new(ManualClock::new(Default::default())));
    let (tell, told) = mpsc::unbounded_channel();
    let end = Arc::new(Notify::new());
    let ends = Arc::clone(&end);
    supervisor.spawn(task, move || {
        let (tell, end) = (tell.clone(), Arc::clone(&ends));
        async move {
            // The test may have dropped the receiver.
            let _ = tell.send(());
            end.notified().await;
        }
    });
    (supervisor, told, end)
}

#[tokio::test(start_paused = true)]
async fn panicked_task_is_counted_reported_and_restarted() {
    let (supervisor, mut starts, _end) = start_controlled(TASK);
    starts.recv().await.expect("it starts");
    assert!(status(&supervisor).is_up);
    let hold = supervisor.panic_next("task");
    while status(&supervisor).is_up {
        tokio::task::yield_now().await;
    }
    let down = status(&supervisor);
    assert_eq!((down.panics, down.restarts), (1, 0));
    assert_eq!(down.impact, Impact::Serving);
    assert!(
        supervisor
            .metrics()
            .contains("optik_background_task_up{task=\"task\"} 0\n")
    );
    drop(hold);
    starts.recv().await.expect("it starts again");
    let up = status(&supervisor);
    assert_eq!((up.is_up, up.panics, up.restarts), (true, 1, 1));
    let page = supervisor.metrics();
    for line in [
        "# TYPE optik_background_task_panics_total counter",
        "optik_background_task_panics_total{task=\"task\"} 1",
        "optik_background_task_restarts_total{task=\"task\"} 1",
        "optik_background_task_up{task=\"task\"} 1",
    ] {
        assert!(page.lines().any(|own| own == line), "no {line} in\n{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn task_that_returns_is_restarted_unless_it_completes() {
    let (supervisor, mut starts, end) = start_controlled(TASK);
    starts.recv().await.expect("it starts");
    end.notify_one();
    starts.recv().await.expect("it starts again");
    let again = status(&supervisor);
    assert_eq!((again.panics, again.restarts), (0, 1));

    let (supervisor, mut starts, end) = start_controlled(TASK.that_completes());
    starts.recv().await.expect("it starts");
    end.notify_one();
    let more = timeout(PATIENCE, starts.recv()).await.expect("it is over");
    assert_eq!(more, None, "it is not started again");
    assert_eq!(supervisor.tasks(), [], "and no longer shown");
}

#[tokio::test(start_paused = true)]
async fn restart_pauses_grow_while_a_task_keeps_failing() {
    let supervisor = Supervisor::new(Arc::new(ManualClock::new(Default::default())));
    let (tell, mut starts) = mpsc::unbounded_channel();
    supervisor.spawn(TASK, move || {
        let _ = tell.send(Instant::now());
        async { panic!("always") }
    });
    let mut last = starts.recv().await.expect("it starts");
    for millis in [
        100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ] {
        let next = starts.recv().await.expect("it starts again");
        assert_eq!(next - last, Duration::from_millis(millis));
        last = next;
    }
}

#[tokio::test(start_paused = true)]
async fn panic_in_task_start_is_restarted() {
    let supervisor = Supervisor::default();
    let starts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&starts);
    let supervised = supervisor.supervise(TASK.that_completes(), move || {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        assert!(number > 0, "the first start fails");
        async {}
    });
    supervised.await;
    assert_eq!(starts.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn stopped_supervisor_restarts_no_task() {
    let (supervisor, mut starts, end) = start_controlled(TASK);
    starts.recv().await.expect("it starts");
    let _hold = supervisor.panic_next("task");
    while status(&supervisor).is_up {
        tokio::task::yield_now().await;
    }
    supervisor.stop();
    let more = timeout(PATIENCE, starts.recv()).await.expect("it is over");
    assert_eq!(more, None, "a task in back-off is given up");
    drop(end);

    let (supervisor, mut starts, end) = start_controlled(TASK);
    starts.recv().await.expect("it starts");
    supervisor.stop();
    end.notify_one();
    let more = timeout(PATIENCE, starts.recv()).await.expect("it is over");
    assert_eq!(more, None, "an end is no failure any more");
}

#[tokio::test]
async fn supervisor_shutdown_ends_spawned_tasks() {
    let supervisor = Supervisor::default();
    let (tell, mut told) = mpsc::channel::<()>(1);
    supervisor.spawn(TASK, move || {
        let tell = tell.clone();
        async move {
            let _tell = tell;
            pending::<()>().await;
        }
    });
    supervisor.shutdown().await;
    assert_eq!(told.recv().await, None);
    assert_eq!(supervisor.tasks(), []);
}

#[tokio::test]
async fn supervise_once_task_stays_failed_after_a_panic() {
    let supervisor = Supervisor::default();
    let (tell, mut told) = mpsc::channel(1);
    let fail = move |reason: &str| tell.try_send(reason.to_owned()).expect("one failure");
    let work = async { panic!("half of it") };
    supervisor.supervise_once(TASK, work, fail).await;
    assert_eq!(told.recv().await.as_deref(), Some("half of it"));
    let failed = status(&supervisor);
    assert_eq!(
        (failed.is_up, failed.panics, failed.restarts),
        (false, 1, 0)
    );

    let supervisor = Supervisor::default();
    let never = |_: &str| panic!("nothing failed");
    supervisor.supervise_once(TASK, async {}, never).await;
    assert_eq!(supervisor.tasks(), [], "its work is over");
}

/// For example one instance for each port: the name is down while any instance is.
#[tokio::test(start_paused = true)]
async fn task_instances_of_one_name_share_a_status() {
    let (supervisor, mut starts, _end) = start_controlled(TASK);
    starts.recv().await.expect("it starts");
    supervisor.spawn(TASK, pending);
    let _hold = supervisor.panic_next("task");
    while status(&supervisor).is_up {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(&supervisor).panics, 1);
}
