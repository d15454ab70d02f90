//! The order of members in a document, which a parsed [`Value`](super::Value) does not keep: its
//! members are sorted.

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// Every occurrence of the `wanted` members, in the order of the document. Paths have the form of
/// duplicate paths ([`ParsedDocument`](super::ParsedDocument)). A malformed document has no
/// members.
#[must_use]
pub fn occurrences(bytes: &[u8], wanted: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    if super::syntax::check_syntax(bytes).is_err() {
        return found;
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // `check_syntax` has already bounded the depth.
    reader.disable_recursion_limit();
    let mut path = String::new();
    let walk = OccurrenceVisitor {
        wanted,
        path: &mut path,
        found: &mut found,
    };
    // After an error, the occurrences found so far are the result.
    let _ = walk.deserialize(&mut reader);
    found
}

struct OccurrenceVisitor<'a> {
    wanted: &'a BTreeSet<String>,
    path: &'a mut String,
    found: &'a mut Vec<String>,
}

impl OccurrenceVisitor<'_> {
    /// A visitor one level deeper.
    fn descend(&mut self) -> OccurrenceVisitor<'_> {
        OccurrenceVisitor {
            wanted: self.wanted,
            path: self.path,
            found: self.found,
        }
    }
}

impl<'de> DeserializeSeed<'de> for OccurrenceVisitor<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OccurrenceVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let length = self.path.len();
        for index in 0_usize.. {
            // Writing to a string cannot fail.
            let _ = write!(self.path, "[{index}]");
            let item = items.next_element_seed(self.descend())?;
            self.path.truncate(length);
            if item.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let length = self.path.len();
        while let Some(name) = members.next_key::<String>()? {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if self.wanted.contains(self.path.as_str()) {
                self.found.push(self.path.clone());
            }
            if self.is_prefix_of_wanted() {
                members.next_value_seed(self.descend())?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
            self.path.truncate(length);
        }
        Ok(())
    }
}

impl OccurrenceVisitor<'_> {
    /// Whether the current path is a prefix of a wanted path.
    fn is_prefix_of_wanted(&self) -> bool {
        let from = self.wanted.range::<str, _>((
            std::ops::Bound::Excluded(self.path.as_str()),
            std::ops::Bound::Unbounded,
        ));
        let mut from = from.take_while(|path| path.starts_with(self.path.as_str()));
        from.any(|path| matches!(path.as_bytes().get(self.path.len()), Some(b'.' | b'[')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(document: &str, wanted: &[&str]) -> Vec<String> {
        let wanted = wanted.iter().map(|path| (*path).to_owned()).collect();
        occurrences(document.as_bytes(), &wanted)
    }

    #[test]
    fn occurrences_keep_document_order() {
        let document = r#"{"z":1,"l":[{"b":1,"a":2},{"b":1}],"d":{"x":1,"x":2},"z":3}"#;
        let wanted = ["d.x", "l[0].a", "l[1].b", "z", "absent"];
        let expected = ["z", "l[0].a", "l[1].b", "d.x", "d.x", "z"];
        assert_eq!(found(document, &wanted), expected);
    }

    #[test]
    fn occurrences_of_malformed_document_are_empty() {
        assert_eq!(found("{\"a\":", &["a"]), [""; 0]);
        assert_eq!(found("[[[", &["a"]), [""; 0]);
    }
}
