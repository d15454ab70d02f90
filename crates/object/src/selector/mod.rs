//! Label selectors and field selectors of lists and watches (CONC §3.5).

mod fields;
mod label_selector_validation;
mod labels;
mod lexer;
mod parser;

pub use fields::{FieldSelector, FieldTerm, UnsupportedFieldLabel};
pub use label_selector_validation::validate_label_selector;
pub use labels::{LabelOperator, LabelRequirement, LabelSelector};

/// The maximum length of a selector. Longer ones are rejected before parsing.
pub const SELECTOR_BYTES_MAX: usize = 256 * 1024;

/// Why a selector is rejected; the text is the message of a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

fn check_length(selector: &str) -> Result<(), SelectorError> {
    if selector.len() > SELECTOR_BYTES_MAX {
        let text = format!("selector has more than {SELECTOR_BYTES_MAX} bytes");
        return Err(SelectorError::new(text));
    }
    Ok(())
}
