//! What becomes of a flag of the program that we stand in for.
//!
//! A flag that would change who gets in, what they may do or what is kept is carried out
//! or refused. Only what changes none of that may be ignored.

use super::{Flags, last_value};

/// One flag's fate.
#[derive(Clone, Copy)]
pub(super) enum FlagAction {
    /// `optik serve` has a flag of the same name that means the same.
    Same,
    /// Part of a translation of its own.
    Translated,
    /// Changes neither access nor data.
    Ignored,
    /// Says something that is so, or is refused: the error is a sentence.
    Checked(fn(&str) -> Result<(), String>),
    /// May not be given a value, because of this.
    Refused(&'static str),
}

/// Several flags with the same fate.
pub(super) type FlagGroup = (FlagAction, &'static [&'static str]);

pub(super) fn action_of(rules: &[FlagGroup], name: &str) -> Option<FlagAction> {
    let mut matching = rules.iter().filter(|(_, names)| names.contains(&name));
    matching.next().map(|(treatment, _)| *treatment)
}

/// Refuses what must not be ignored.
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

/// Switches that are off and empty values are what a program does without the flag.
fn is_set(value: &str) -> bool {
    !["", "false"].contains(&value)
}
