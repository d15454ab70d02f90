//! What the labels of a namespace say counts at once, and so do pods that were just made.

use crate::world::World;
use optik_api_testkit::pod_security::{cases, is_hasty, play};

#[tokio::test(flavor = "multi_thread")]
async fn labels_about_security_count_at_once() {
    let world = World::begin().await;
    let mut hasty = 0;
    for (number, case) in cases().unwrap().iter().enumerate() {
        if is_hasty(case) {
            hasty += 1;
            let namespace = format!("secured-{number}");
            play(&world.client, &namespace, case).await.unwrap();
        }
    }
    assert!(hasty > 5, "{hasty}");
}
