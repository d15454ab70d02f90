//! Runs scenarios that need something from outside, and says so if it is missing:
//! the usual harness would call them passed.

use std::pin::Pin;

pub(crate) type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// Runs the scenarios whose names contain an argument, or all.
#[expect(clippy::print_stderr, reason = "this is a harness")]
pub(crate) fn run(scenarios: Vec<Scenario<'_>>) {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |name: &str| {
        let mut names = arguments
            .iter()
            .filter(|argument| !argument.starts_with('-'));
        names.clone().next().is_none() || names.any(|part| name.contains(part.as_str()))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    for (name, scenario) in scenarios {
        if wanted(name) {
            eprintln!("{name} …");
            runtime.block_on(scenario);
        }
    }
    eprintln!("all passed");
}

/// What a variable says, or `None`, said loudly. Tools that only list tests get none.
#[expect(clippy::print_stderr, reason = "says that nothing was tested")]
pub(crate) fn variable(name: &str) -> Option<String> {
    if std::env::args().any(|argument| argument == "--list") {
        return None;
    }
    let value = std::env::var(name).ok();
    if value.is_none() {
        eprintln!("{name} is not set: not run");
    }
    value
}
