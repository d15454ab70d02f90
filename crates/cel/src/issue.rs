//! Compile errors of CEL expressions, in the format of `cel-go`.

use std::fmt::Write;

/// Source lines longer than this are not quoted.
const SNIPPET_MAX: usize = 16384;

/// One compile error and its position.
#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) line: u32,
    /// Zero-based.
    pub(crate) column: u32,
    pub(crate) text: String,
}

/// All compile errors of an expression.
#[derive(Debug)]
pub struct Issues {
    source: String,
    issues: Vec<Issue>,
}

impl Issue {
    pub(crate) fn without_location(text: String) -> Self {
        Self {
            line: 0,
            column: 0,
            text,
        }
    }

    /// A compile error at a character offset of the source.
    pub(crate) fn at_offset(source: &str, place: u32, text: String) -> Self {
        let before = source.chars().take(place as usize);
        let (mut line, mut column) = (1, 0);
        for c in before {
            if c == '\n' {
                line += 1;
                column = 0;
            } else {
                column += 1;
            }
        }
        Self { line, column, text }
    }
}

impl Issues {
    pub(crate) fn single(source: &str, issue: Issue) -> Self {
        Self::multiple(source, vec![issue])
    }

    pub(crate) fn multiple(source: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| (issue.line, issue.column));
        Self {
            source: source.to_owned(),
            issues,
        }
    }
}

impl std::fmt::Display for Issues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let Issue { line, column, text } = issue;
            if *line == 0 {
                write!(f, "ERROR: <input>:-1:0: {text}")?;
                continue;
            }
            write!(f, "ERROR: <input>:{line}:{}: {text}", column + 1)?;
            let shown = self.source.split('\n').nth(*line as usize - 1);
            if let Some(shown) = shown.filter(|shown| shown.len() <= SNIPPET_MAX) {
                let shown = shown.replace('\t', " ");
                write!(f, "\n | {shown}\n | ")?;
                let mut chars = shown.chars();
                for c in chars.by_ref().take(*column as usize) {
                    f.write_char(if c.len_utf8() > 1 { '．' } else { '.' })?;
                }
                let wide = chars.next().is_some_and(|c| c.len_utf8() > 1);
                f.write_char(if wide { '＾' } else { '^' })?;
            }
        }
        Ok(())
    }
}
