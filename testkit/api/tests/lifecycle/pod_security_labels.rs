//! Pod Security labels of a namespace, and new pods, are observed immediately.

use crate::fixture::LifecycleFixture;
use optik_api_testkit::pod_security::{cases, needs_immediate_effect, run_case};

#[tokio::test(flavor = "multi_thread")]
async fn pod_security_labels_take_effect_at_once() {
    let world = LifecycleFixture::start().await;
    let mut hasty = 0;
    for (number, case) in cases().unwrap().iter().enumerate() {
        if needs_immediate_effect(case) {
            hasty += 1;
            let namespace = format!("secured-{number}");
            run_case(&world.client, &namespace, case).await.unwrap();
        }
    }
    assert!(hasty > 5, "{hasty}");
}
