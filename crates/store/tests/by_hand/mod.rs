//! A harness for scenarios that need an external program. It reports a missing one: the usual
//! harness would report the scenarios as passed.

use std::pin::Pin;

pub(crate) type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = ()> + 'a>>);

/// Runs the scenarios whose names contain an argument, or all of them.
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

/// Returns the value of a variable. If it is not set, prints a notice and returns `None`. Tools
/// that only list tests get no notice.
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
