//! Writes the cells of one table row as JSON.

use crate::format::text_at;
use crate::human_duration::human_duration;
use optik_object::{JsonView, Timestamp};

/// The JSON list of a row's cells.
pub struct RowWriter<'o> {
    out: &'o mut Vec<u8>,
    now: Timestamp,
    empty: bool,
}

impl<'o> RowWriter<'o> {
    /// Starts a list of cells at the end of `out`.
    pub fn new(out: &'o mut Vec<u8>, now: Timestamp) -> Self {
        out.push(b'[');
        Self {
            out,
            now,
            empty: true,
        }
    }

    pub fn end(self) {
        self.out.push(b']');
    }

    fn next(&mut self) {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
    }

    pub fn text(&mut self, text: &str) {
        self.next();
        if text.bytes().all(is_plain) {
            self.out.push(b'"');
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
        } else {
            self.out.extend_from_slice(&optik_object::to_bytes(text));
        }
    }

    pub fn number(&mut self, number: i64) {
        self.next();
        self.out.extend_from_slice(number.to_string().as_bytes());
    }

    pub fn float(&mut self, number: f64) {
        self.next();
        self.out.extend_from_slice(&optik_object::to_bytes(&number));
    }

    pub fn flag(&mut self, flag: bool) {
        self.next();
        let word: &[u8] = if flag { b"true" } else { b"false" };
        self.out.extend_from_slice(word);
    }

    pub fn null(&mut self) {
        self.next();
        self.out.extend_from_slice(b"null");
    }

    /// Copies a value verbatim from the object.
    pub fn copy(&mut self, value: JsonView<'_>) {
        self.next();
        self.out.extend_from_slice(value.raw_json());
    }

    /// The string at a path, or `other`.
    pub fn text_or(&mut self, object: JsonView<'_>, path: &[&str], other: &str) {
        match object
            .get_path(path)
            .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        {
            Some(value) => self.copy(value),
            None => self.text(other),
        }
    }

    /// The number at a path, or zero.
    pub fn count(&mut self, object: JsonView<'_>, path: &[&str]) {
        self.number(
            object
                .get_path(path)
                .and_then(JsonView::as_i64)
                .unwrap_or(0),
        );
    }

    pub fn name(&mut self, object: JsonView<'_>) {
        self.text_or(object, &["metadata", "name"], "");
    }

    /// The age of the object.
    pub fn age(&mut self, object: JsonView<'_>) {
        let age = self.since(&text_at(object, &["metadata", "creationTimestamp"]));
        self.text(&age);
    }

    /// The time since a timestamp.
    #[must_use]
    pub fn since(&self, moment: &str) -> String {
        match moment.parse::<Timestamp>() {
            Ok(moment) => human_duration(self.now.micros() - moment.micros()),
            Err(_) => "<unknown>".to_owned(),
        }
    }
}

/// Whether a byte needs no escape. Go escapes more characters than JSON requires.
fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0..0x20 | b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2)
}
