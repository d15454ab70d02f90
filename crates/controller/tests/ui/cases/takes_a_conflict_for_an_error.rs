use optik_controller::ReconcileError;

fn is_conflict(fault: &ReconcileError) -> bool {
    matches!(fault, ReconcileError::Conflict(_))
}

fn main() {}
