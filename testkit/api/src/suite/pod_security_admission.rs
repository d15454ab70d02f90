//! Pod Security admission by the labels of the namespace.

use crate::check::checks;
use crate::failure::RowFailures;
use crate::pod_security::{cases, needs_immediate_effect, run_case};
use crate::{Outcome, Scope};

checks! { pod_security_admission:
    [] pod_security_follows_namespace_labels [Admission, Patch],
}

async fn pod_security_follows_namespace_labels(scope: Scope) -> Outcome {
    let mut rows = RowFailures::default();
    for (number, case) in cases()?.iter().enumerate() {
        if !needs_immediate_effect(case) {
            let namespace = format!("{}-{number}", scope.namespace);
            let outcome = run_case(&scope.client, &namespace, case).await;
            rows.record(&case["name"], outcome);
        }
    }
    rows.outcome()
}
