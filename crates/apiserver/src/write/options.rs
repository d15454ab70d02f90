//! Options that writes share.

use crate::query::Query;
use optik_object::{FieldError, Status};

const MANAGER_BYTES_MAX: usize = 128;

#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    /// Empty if the client did not say.
    pub(crate) manager: String,
}

/// What a refusal calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsKind {
    Create,
    Update,
}

impl OptionsKind {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
        }
    }
}

impl WriteOptions {
    pub(crate) fn read(query: &Query<'_>, kind: OptionsKind) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.text("fieldManager");
        check_manager(manager, &mut errors);
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        check_dry_run(&dry_run, &mut errors);
        check_validation(query.text("fieldValidation"), &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid_options(kind.name(), &errors));
        }
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            manager: manager.into(),
        })
    }
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
    }
    for (at, found) in manager.char_indices() {
        if found.is_control() {
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                found as u32
            );
            errors.push(FieldError::invalid("fieldManager", manager, detail));
            break;
        }
    }
}

pub(super) fn check_dry_run(values: &[&str], errors: &mut Vec<FieldError>) {
    if values.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported(
            "dryRun",
            values.to_vec(),
            &["All"],
        ));
    }
}

fn check_validation(value: &str, errors: &mut Vec<FieldError>) {
    if !matches!(value, "" | "Ignore" | "Warn" | "Strict") {
        let supported = &["", "Ignore", "Strict", "Warn"];
        errors.push(FieldError::not_supported(
            "fieldValidation",
            value,
            supported,
        ));
    }
}
