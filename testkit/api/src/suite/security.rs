//! Pods are held to what the labels of their namespace say.

use crate::check::checks;
use crate::failure::Rows;
use crate::pod_security::{cases, is_hasty, play};
use crate::{Outcome, Scope};

checks! { security:
    [] pods_are_held_to_the_labels_of_their_namespace [Admission, Patch],
}

async fn pods_are_held_to_the_labels_of_their_namespace(scope: Scope) -> Outcome {
    let mut rows = Rows::default();
    for (number, case) in cases()?.iter().enumerate() {
        if !is_hasty(case) {
            let namespace = format!("{}-{number}", scope.namespace);
            let outcome = play(&scope.client, &namespace, case).await;
            rows.row(&case["name"], outcome);
        }
    }
    rows.outcome()
}
