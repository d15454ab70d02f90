//! A PEM decoder that accepts what Go's `encoding/pem` accepts: text around blocks is ignored, and
//! malformed blocks are skipped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// One PEM block, between its BEGIN and END lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PemBlock<'t> {
    pub(crate) label: &'t str,
    pub(crate) has_headers: bool,
    pub(crate) der: Vec<u8>,
}

/// All PEM blocks of a text, in one pass over its lines.
pub(crate) fn blocks(text: &str) -> Vec<PemBlock<'_>> {
    let mut found = Vec::new();
    let mut open: Option<OpenPemBlock<'_>> = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(label) = framed(line, BEGIN) {
            open = Some(OpenPemBlock::new(label));
        } else if let Some(label) = framed(line, END) {
            let closed = open.take().filter(|block| block.label == label);
            found.extend(closed.and_then(OpenPemBlock::close));
        } else if let Some(block) = &mut open {
            block.take(line);
        }
    }
    found
}

fn framed<'t>(line: &'t str, frame: &str) -> Option<&'t str> {
    line.strip_prefix(frame)?.strip_suffix(DASHES)
}

struct OpenPemBlock<'t> {
    label: &'t str,
    has_headers: bool,
    text: String,
}

impl<'t> OpenPemBlock<'t> {
    fn new(label: &'t str) -> Self {
        Self {
            label,
            has_headers: false,
            text: String::new(),
        }
    }

    fn take(&mut self, line: &str) {
        match self.text.is_empty() && line.contains(':') {
            true => self.has_headers = true,
            false => self.text.extend(line.split_ascii_whitespace()),
        }
    }

    fn close(self) -> Option<PemBlock<'t>> {
        let der = STANDARD.decode(self.text).ok()?;
        Some(PemBlock {
            label: self.label,
            has_headers: self.has_headers,
            der,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_blocks_are_found_in_surrounding_text() {
        let text = "hello\n-----BEGIN A-----\nAAAA\nAAAA\n-----END A-----\n\
                    -----BEGIN B-----\nX: y\n\nAAAA\n-----END B-----\r\n\
                    -----BEGIN C-----\nAAAA\n-----END D-----\n\
                    -----BEGIN E-----\n?\n-----END E-----\n-----BEGIN F-----\n";
        let found = blocks(text);
        let brief: Vec<_> = found
            .iter()
            .map(|block| (block.label, block.has_headers, block.der.len()))
            .collect();
        assert_eq!(brief, [("A", false, 6), ("B", true, 3)]);
    }
}
