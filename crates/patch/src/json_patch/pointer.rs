//! JSON pointers (RFC 6901), with Kubernetes' deviations.

use super::document::{Container, DocumentNode};

/// `/metadata/annotations/a.io~1b`
#[derive(Clone, Copy, Debug)]
pub(super) struct Pointer<'a>(pub(super) &'a str);

impl Pointer<'_> {
    /// Whether the pointer refers to the whole document.
    pub(super) fn is_whole(self) -> bool {
        self.0.is_empty()
    }

    /// The number of containers around the value.
    pub(super) fn depth(self) -> usize {
        self.0.bytes().filter(|byte| *byte == b'/').count()
    }

    /// The container of the value, and the last word of the pointer. All containers on the path
    /// must exist.
    pub(super) fn find(self, document: &mut DocumentNode) -> Option<(Container<'_>, String)> {
        // Text before the first slash is ignored.
        let (_, words) = self.0.split_once('/')?;
        let (parents, last) = match words.rsplit_once('/') {
            Some((parents, last)) => (Some(parents), last),
            None => (None, words),
        };
        let mut place = document;
        for word in parents.into_iter().flat_map(|words| words.split('/')) {
            let word = unescape(word);
            place = match place.expand()? {
                Container::Members(members) => members.get_mut(&word)?,
                Container::Items(items) => {
                    let at = index(&word, items.len())?;
                    items.at(at)
                }
            };
        }
        Some((place.expand()?, unescape(last)))
    }
}

/// Unescapes in one pass: `~01` is `~1`, not a slash.
fn unescape(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        let (text, skipped) = match after.as_bytes().first() {
            Some(b'0') => ("~", 1),
            Some(b'1') => ("/", 1),
            _ => ("~", 0),
        };
        out.push_str(text);
        rest = &after[skipped..];
    }
    out.push_str(rest);
    out
}

/// The index in a list of `length` items; a negative one counts from the end.
pub(super) fn index(word: &str, length: usize) -> Option<usize> {
    let number: i64 = word.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if number < 0 { number + length } else { number };
    usize::try_from(at).ok().filter(|_| at < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_pointer_unescapes_in_one_pass() {
        for (word, expected) in [
            ("a.io~1b", "a.io/b"),
            ("~01", "~1"),
            ("~", "~"),
            ("a~2", "a~2"),
        ] {
            assert_eq!(unescape(word), expected);
        }
    }

    #[test]
    fn json_pointer_indices_are_parsed() {
        for (word, expected) in [
            ("0", Some(0)),
            ("2", Some(2)),
            ("3", None),
            ("-1", Some(2)),
            ("-3", Some(0)),
            ("-4", None),
            ("+1", Some(1)),
            ("01", Some(1)),
            ("1.0", None),
            ("", None),
            ("-", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(index(word, 3), expected, "{word}");
        }
    }
}
