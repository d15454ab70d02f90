//! The action for a flag of an emulated program.
//!
//! A flag that affects authentication, authorization or stored data is honoured or rejected. Only
//! flags that affect none of these may be ignored.

use super::{Flags, last_value};

/// The action for one flag.
#[derive(Clone, Copy)]
pub(super) enum FlagAction {
    /// `optik serve` has a flag of the same name and meaning.
    Same,
    /// Handled by the program's own translation.
    Translated,
    /// Ignored: affects neither access nor data.
    Ignored,
    /// Accepted if the value describes what Optik does anyway; the error is a sentence.
    Checked(fn(&str) -> Result<(), String>),
    /// Rejected with this reason if it has a value.
    Refused(&'static str),
}

/// Several flags with the same action.
pub(super) type FlagGroup = (FlagAction, &'static [&'static str]);

pub(super) fn action_of(rules: &[FlagGroup], name: &str) -> Option<FlagAction> {
    let mut matching = rules.iter().filter(|(_, names)| names.contains(&name));
    matching.next().map(|(treatment, _)| *treatment)
}

/// Rejects flags that must not be ignored.
pub(super) fn check_flags(rules: &[FlagGroup], flags: &Flags) -> Result<(), String> {
    for (name, values) in flags {
        let said = last_value(flags, name).unwrap_or_default();
        let outcome = match action_of(rules, name) {
            Some(FlagAction::Refused(reason)) if is_set(said) => Err(reason.to_owned()),
            Some(FlagAction::Checked(check)) => values.iter().try_for_each(|value| check(value)),
            _ => Ok(()),
        };
        outcome.map_err(|reason| format!("--{name}: {reason}"))?;
    }
    Ok(())
}

/// Whether the value differs from an absent flag: `false` and empty values do not.
fn is_set(value: &str) -> bool {
    !["", "false"].contains(&value)
}
