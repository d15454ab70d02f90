use optik_controller::Fault;

fn is_conflict(fault: &Fault) -> bool {
    matches!(fault, Fault::Conflict(_))
}

fn main() {}
