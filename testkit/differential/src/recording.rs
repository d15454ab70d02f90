//! Recorded responses as text.

use std::fmt::Write;

/// The responses to a script, by the titles of its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseRecording {
    entries: Vec<(String, String)>,
}

/// One request with two responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingDifference {
    pub title: String,
    /// Empty if the recording has no response to the request.
    pub expected: String,
    pub found: String,
}

const TITLE: &str = "### ";

impl ResponseRecording {
    pub(crate) fn push(&mut self, title: String, answer: String) {
        self.entries.push((title, answer));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Parses the output of [`Self::write`].
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut record = Self::default();
        for line in text.lines() {
            match (line.strip_prefix(TITLE), record.entries.last_mut()) {
                (Some(title), _) => record.push(title.into(), String::new()),
                (None, Some((_, answer))) => {
                    answer.push_str(line);
                    answer.push('\n');
                }
                (None, None) => {}
            }
        }
        record
    }

    #[must_use]
    pub fn write(&self) -> String {
        let mut text = String::new();
        for (title, answer) in &self.entries {
            text.push_str(TITLE);
            text.push_str(title);
            text.push('\n');
            text.push_str(answer);
        }
        text
    }

    fn answer(&self, title: &str) -> Option<&str> {
        let found = self.entries.iter().find(|(other, _)| other == title);
        found.map(|(_, answer)| answer.as_str())
    }
}

/// The requests with different responses, in the order of the actual responses.
#[must_use]
pub fn compare(
    expected: &ResponseRecording,
    found: &ResponseRecording,
) -> Vec<RecordingDifference> {
    let mut differences = Vec::new();
    for (title, found) in &found.entries {
        let expected = expected.answer(title).unwrap_or_default();
        if expected != found {
            differences.push(RecordingDifference {
                title: title.clone(),
                expected: expected.into(),
                found: found.clone(),
            });
        }
    }
    for (title, expected) in &expected.entries {
        if found.answer(title).is_none() {
            differences.push(RecordingDifference {
                title: title.clone(),
                expected: expected.clone(),
                found: String::new(),
            });
        }
    }
    differences
}

impl std::fmt::Display for RecordingDifference {
    /// The lines that are missing in the other response.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!("{TITLE}{}\n", self.title);
        let (expected, found) = (&self.expected, &self.found);
        for line in expected.lines().filter(|line| !has_line(found, line)) {
            writeln!(text, "- {line}")?;
        }
        for line in found.lines().filter(|line| !has_line(expected, line)) {
            writeln!(text, "+ {line}")?;
        }
        if text.lines().count() == 1 {
            writeln!(
                text,
                "  the same lines in another order, or another number of them"
            )?;
        }
        f.write_str(&text)
    }
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|other| other == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(entries: &[(&str, &str)]) -> ResponseRecording {
        let own = |(title, answer): &(&str, &str)| ((*title).into(), (*answer).into());
        ResponseRecording {
            entries: entries.iter().map(own).collect(),
        }
    }

    #[test]
    fn recording_round_trips() {
        let one = record(&[("a", "200\nx\n"), ("b", "404\n{\n}\n")]);
        assert_eq!(ResponseRecording::read(&one.write()), one);
    }

    #[test]
    fn recording_differences_are_reported() {
        let one = record(&[("a", "200\nx\n"), ("b", "404\n")]);
        let two = record(&[("a", "200\ny\n"), ("c", "1\n")]);
        let titles: Vec<_> = compare(&one, &two)
            .into_iter()
            .map(|difference| difference.title)
            .collect();
        assert_eq!(titles, ["a", "c", "b"]);
        assert_eq!(compare(&one, &two)[0].to_string(), "### a\n- x\n+ y\n");
        assert!(compare(&one, &one).is_empty());
    }
}
