//! A test that keeps the flag table in docs/operating.md up to date with `optik serve`.

use crate::Cli;
use clap::{Arg, CommandFactory};
use std::path::Path;

const BEGIN: &str = "<!-- flags: begin -->";
const END: &str = "<!-- flags: end -->";

/// With this environment variable set, the test writes the table.
const UPDATE: &str = "OPTIK_UPDATE_DOCS";

fn table() -> String {
    let command = Cli::command();
    let serve = command
        .find_subcommand("serve")
        .expect("there is a server to start");
    let mut lines = vec![
        "| flag | default | meaning |".to_owned(),
        "|---|---|---|".to_owned(),
    ];
    let mut flags: Vec<_> = serve.get_arguments().filter_map(row).collect();
    flags.sort();
    lines.append(&mut flags);
    lines.join("\n")
}

fn row(flag: &Arg) -> Option<String> {
    let long = flag.get_long().filter(|long| *long != "help")?;
    let value = flag.get_value_names().map(|names| names.join(" "));
    let takes_value = flag.get_action().takes_values();
    let value = value.filter(|_| takes_value).map(|name| format!(" {name}"));
    let defaults: Vec<_> = flag
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|value| value.to_string_lossy())
        .collect();
    let default = match defaults.join(",") {
        // The default data directory depends on the machine.
        _ if long == "data" => "`~/.local/share/optik`".to_owned(),
        text if text.is_empty() => String::new(),
        text => format!("`{text}`"),
    };
    let help = flag.get_long_help().or(flag.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let help = help.replace('|', "\\|");
    Some(format!(
        "| `--{long}{}` | {default} | {help} |",
        value.unwrap_or_default()
    ))
}

#[test]
fn operating_document_lists_every_flag_of_serve() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating.md");
    let text = std::fs::read_to_string(&path).expect("the document is there");
    let (before, rest) = text.split_once(BEGIN).expect("it has the section");
    let (found, after) = rest.split_once(END).expect("the section ends");
    let expected = format!("\n{}\n", table());
    if std::env::var_os(UPDATE).is_some() {
        let text = format!("{before}{BEGIN}{expected}{END}{after}");
        std::fs::write(&path, text).expect("the document can be written");
        return;
    }
    assert!(
        found == expected,
        "docs/operating.md is out of date: run {UPDATE}=1 cargo test -p optik-cli flag_docs"
    );
}
