//! Options common to writes: fieldManager, fieldValidation, dryRun.

use crate::request::query::Query;
use optik_object::{FieldError, Status, Value};

const FIELD_MANAGER_BYTES_MAX: usize = 128;

#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    /// As sent by the client; empty if it was not sent.
    pub(crate) field_validation_given: String,
    /// Empty if it was not sent.
    pub(crate) field_manager: String,
}

/// What happens to unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    /// They are dropped, and the client gets a warning.
    #[default]
    Warn,
    /// The request is rejected.
    Strict,
}

/// The name of the options in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsKind {
    Create,
    Update,
    Patch,
    Apply,
}

impl OptionsKind {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    pub(crate) fn read(query: &Query<'_>, kind: OptionsKind) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let manager = query.get_or_empty("fieldManager");
        if kind == OptionsKind::Apply && manager.is_empty() {
            let text = "is required for apply patch";
            errors.push(FieldError::required("fieldManager", text));
        }
        if kind == OptionsKind::Patch && query.get("force").is_some() {
            let text = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden("force", text));
        }
        check_manager(manager, &mut errors);
        let dry_run: Vec<&str> = query.all("dryRun").collect();
        check_dry_run(&dry_run, &mut errors);
        let validation_given = query.get_or_empty("fieldValidation");
        let validation = check_validation(validation_given, &mut errors);
        if !errors.is_empty() {
            return Err(Status::invalid_options(kind.name(), &errors));
        }
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            field_validation: validation,
            field_validation_given: validation_given.into(),
            field_manager: manager.into(),
        })
    }

    /// Adds the given options to an options document.
    pub(crate) fn add_to_document(&self, options: &mut Value) {
        let given = [
            ("fieldManager", &self.field_manager),
            ("fieldValidation", &self.field_validation_given),
        ];
        for (name, text) in given.into_iter().filter(|(_, text)| !text.is_empty()) {
            options[name] = text.as_str().into();
        }
    }
}

fn check_manager(manager: &str, errors: &mut Vec<FieldError>) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(
            "fieldManager",
            FIELD_MANAGER_BYTES_MAX,
        ));
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

fn check_validation(value: &str, errors: &mut Vec<FieldError>) -> FieldValidation {
    match value {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let supported = &["", "Ignore", "Strict", "Warn"];
            let error = FieldError::not_supported("fieldValidation", other, supported);
            errors.push(error);
            FieldValidation::Warn
        }
    }
}
