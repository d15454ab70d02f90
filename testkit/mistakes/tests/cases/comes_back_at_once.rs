use optik_controller::Outcome;
use std::time::Duration;

fn outcome() -> Outcome {
    Outcome::After(Duration::ZERO)
}

fn main() {}
