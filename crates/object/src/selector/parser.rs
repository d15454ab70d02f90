//! The grammar of label selectors, with upstream's errors.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = key | "!" key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ]
//!             | key ( "in" | "notin" ) "(" [ value ] { "," [ value ] } ")"
//! ```

use super::labels::{LabelOperator, LabelRequirement, check_name};
use super::lexer::{SelectorToken, tokenize};
use crate::names;
use std::collections::BTreeSet;

/// The requirements in the order of the text.
pub(super) fn parse(selector: &str) -> Result<Vec<LabelRequirement>, String> {
    let tokens = tokenize(selector);
    Parser { tokens, at: 0 }.parse()
}

struct Parser<'a> {
    tokens: Vec<SelectorToken<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next token. `End` is never consumed.
    fn peek(&self) -> SelectorToken<'a> {
        self.tokens
            .get(self.at)
            .copied()
            .unwrap_or(SelectorToken::End)
    }

    fn take(&mut self) -> SelectorToken<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn parse(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        match self.peek() {
            SelectorToken::Word(_) | SelectorToken::Not => {}
            SelectorToken::End => return Ok(requirements),
            other => {
                return Err(unexpected_token(
                    other,
                    "expected: !, identifier, or 'end of string'",
                ));
            }
        }
        loop {
            let requirement = self
                .requirement()
                .map_err(|error| format!("unable to parse requirement: {error}"))?;
            requirements.push(requirement);
            match self.take() {
                SelectorToken::End => return Ok(requirements),
                SelectorToken::Comma => {}
                other => return Err(unexpected_token(other, "expected: ',' or 'end of string'")),
            }
            if !matches!(self.peek(), SelectorToken::Word(_) | SelectorToken::Not) {
                return Err(unexpected_token(
                    self.peek(),
                    "expected: identifier after ','",
                ));
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let negated = self.peek() == SelectorToken::Not;
        if negated {
            self.take();
        }
        let key = self.key()?;
        let ends = matches!(self.peek(), SelectorToken::End | SelectorToken::Comma);
        let (operator, values) = match (negated, ends) {
            (true, _) => (LabelOperator::DoesNotExist, BTreeSet::new()),
            (false, true) => (LabelOperator::Exists, BTreeSet::new()),
            (false, false) => self.operator_and_values()?,
        };
        LabelRequirement {
            key: key.to_owned(),
            operator,
            values: values.into_iter().map(str::to_owned).collect(),
        }
        .check()
    }

    fn key(&mut self) -> Result<&'a str, String> {
        match self.take() {
            SelectorToken::Word(key) => {
                let mut errors = Vec::new();
                // Upstream has no field path here and prints `<nil>`.
                check_name(
                    "<nil>".into(),
                    key,
                    &names::qualified_name(key),
                    &mut errors,
                );
                errors.pop().map_or(Ok(key), |error| Err(error.to_string()))
            }
            other => Err(unexpected_token(other, "expected: identifier")),
        }
    }

    fn operator_and_values(&mut self) -> Result<(LabelOperator, BTreeSet<&'a str>), String> {
        let operator = match self.take() {
            SelectorToken::Word("in") => return Ok((LabelOperator::In, self.values()?)),
            SelectorToken::Word("notin") => return Ok((LabelOperator::NotIn, self.values()?)),
            SelectorToken::Equals => LabelOperator::Equals,
            SelectorToken::DoubleEquals => LabelOperator::DoubleEquals,
            SelectorToken::NotEquals => LabelOperator::NotEquals,
            SelectorToken::Greater => LabelOperator::GreaterThan,
            SelectorToken::Less => LabelOperator::LessThan,
            other => {
                return Err(unexpected_token(
                    other,
                    "expected: in, notin, =, ==, !=, gt, lt",
                ));
            }
        };
        Ok((operator, [self.value()?].into()))
    }

    fn value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek(), SelectorToken::End | SelectorToken::Comma) {
            return Ok("");
        }
        match self.take() {
            SelectorToken::Word(value) => Ok(value),
            other => Err(unexpected_token(other, "expected: identifier")),
        }
    }

    /// `(a,b)`; `()` and empty positions are the empty value.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        match self.take() {
            SelectorToken::Open => {}
            // Upstream's message lacks the comma here.
            other => return Err(format!("found '{}' expected: '('", other.literal())),
        }
        match self.peek() {
            SelectorToken::Word(_) | SelectorToken::Comma => self.list(),
            SelectorToken::Close => {
                self.take();
                Ok([""].into())
            }
            other => Err(unexpected_token(other, "expected: ',', ')' or identifier")),
        }
    }

    /// Parses up to and including the closing parenthesis. The value before the first comma, after
    /// the last, or between two may be empty; but upstream rejects `,,)`.
    fn list(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let mut values = BTreeSet::new();
        loop {
            match self.take() {
                SelectorToken::Word(value) => {
                    values.insert(value);
                    if !matches!(self.peek(), SelectorToken::Comma | SelectorToken::Close) {
                        return Err(unexpected_token(self.peek(), "expected: ',' or ')'"));
                    }
                }
                SelectorToken::Comma => {
                    if values.is_empty()
                        || matches!(self.peek(), SelectorToken::Comma | SelectorToken::Close)
                    {
                        values.insert("");
                    }
                    if self.peek() == SelectorToken::Comma {
                        self.take();
                        continue;
                    }
                }
                other => return Err(unexpected_token(other, "expected: ',', or identifier")),
            }
            if self.peek() == SelectorToken::Close {
                self.take();
                return Ok(values);
            }
        }
    }
}

fn unexpected_token(token: SelectorToken<'_>, expected: &str) -> String {
    format!("found '{}', {expected}", token.literal())
}

#[cfg(test)]
mod tests {
    use crate::selector::{LabelSelector, SELECTOR_BYTES_MAX};

    /// CONC §3.5.
    #[test]
    fn malformed_label_selectors_are_refused() {
        let requirement = "unable to parse requirement: ";
        for (selector, prefix, expected) in [
            (
                "a b",
                requirement,
                "found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            (
                "a (b)",
                requirement,
                "found '(', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("!", requirement, "found '', expected: identifier"),
            (
                "!=b",
                "",
                "found '!=', expected: !, identifier, or 'end of string'",
            ),
            (
                ",",
                "",
                "found ',', expected: !, identifier, or 'end of string'",
            ),
            (
                "=a",
                "",
                "found '=', expected: !, identifier, or 'end of string'",
            ),
            ("a,", "", "found '', expected: identifier after ','"),
            ("a,,b", "", "found ',', expected: identifier after ','"),
            ("!a=b", "", "found '=', expected: ',' or 'end of string'"),
            ("a=b c", "", "found 'c', expected: ',' or 'end of string'"),
            ("a=(", requirement, "found '(', expected: identifier"),
            ("a in b", requirement, "found 'b' expected: '('"),
            ("a in", requirement, "found '' expected: '('"),
            (
                "a in (",
                requirement,
                "found '', expected: ',', ')' or identifier",
            ),
            (
                "a in (=",
                requirement,
                "found '=', expected: ',', ')' or identifier",
            ),
            ("a in (b", requirement, "found '', expected: ',' or ')'"),
            ("a in (b c)", requirement, "found 'c', expected: ',' or ')'"),
            (
                "a in (b,=)",
                requirement,
                "found '=', expected: ',', or identifier",
            ),
            (
                "a in (b,,)",
                requirement,
                "found ')', expected: ',', or identifier",
            ),
            (
                "a>x",
                requirement,
                "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            let error = LabelSelector::parse(selector).unwrap_err().to_string();
            assert_eq!(error, format!("{prefix}{expected}"), "{selector}");
        }
    }

    #[test]
    fn label_selector_keys_and_values_are_validated() {
        for (selector, beginning) in [
            (
                "-a",
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of",
            ),
            (
                "A/b=c",
                "unable to parse requirement: <nil>: Invalid value: \"A/b\": prefix part a lowercase",
            ),
            (
                "a=-",
                "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be",
            ),
            (
                "a in (b,_)",
                "unable to parse requirement: values[0][a]: Invalid value: \"_\": a valid label",
            ),
        ] {
            let error = LabelSelector::parse(selector).unwrap_err().to_string();
            assert!(error.starts_with(beginning), "{error}");
        }
        let long = "a".repeat(SELECTOR_BYTES_MAX + 1);
        assert!(LabelSelector::parse(&long).is_err());
    }
}
