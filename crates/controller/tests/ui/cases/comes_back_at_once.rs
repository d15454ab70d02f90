use optik_controller::Outcome;
use std::time::Duration;

fn outcome() -> Outcome {
    Outcome::RequeueAfter(Duration::ZERO)
}

fn main() {}
