//! A tape parser: read access to a JSON document without building a tree.
//!
//! One pass records where each value begins and ends; the values stay in the bytes. This is several
//! times as fast as a tree and allocates nothing per value: a list of thousands of objects reuses
//! one [`Tape`].

use super::{DEPTH_MAX, Value};
use crate::splice::CorruptBytes;
use std::borrow::Cow;

/// The positions of the values of a document. Reading another document reuses the memory.
#[derive(Debug, Default)]
pub struct Tape {
    nodes: Vec<TapeNode>,
    open: Vec<u32>,
}

/// The position of a value. Nested values follow their container; in an object, names and values
/// alternate.
#[derive(Clone, Copy, Debug)]
struct TapeNode {
    kind: JsonKind,
    start: u32,
    end: u32,
    /// The index of the node after this one and everything nested in it.
    next: u32,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    Null,
    Bool,
    Number,
    /// A string without escapes.
    Text,
    Escaped,
    List,
    Object,
}

/// A value of a document on a tape.
#[derive(Clone, Copy, Debug)]
pub struct JsonView<'t> {
    bytes: &'t [u8],
    nodes: &'t [TapeNode],
    at: usize,
}

impl Tape {
    /// Records the positions of the values of a document. The contents of strings and numbers are
    /// not checked here, but when they are read.
    pub fn read<'t>(&'t mut self, bytes: &'t [u8]) -> Result<JsonView<'t>, CorruptBytes> {
        self.nodes.clear();
        self.open.clear();
        if u32::try_from(bytes.len()).is_err() {
            return Err(CorruptBytes { at: 0 });
        }
        let mut scanner = TapeScanner { bytes, at: 0 };
        scanner
            .document(&mut self.nodes, &mut self.open)
            .ok_or(CorruptBytes { at: scanner.at })?;
        Ok(JsonView {
            bytes,
            nodes: &self.nodes,
            at: 0,
        })
    }
}

/// Most names and strings are shorter than this many words of eight bytes.
const SHORT_WORDS: usize = 4;

/// The index of the first quote or backslash among eight bytes. The first byte is the lowest.
fn first_quote_or_backslash(word: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // The lowest zero byte has its highest bit set; those above it may have it set, too.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    let marks = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

struct TapeScanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl TapeScanner<'_> {
    fn document(&mut self, nodes: &mut Vec<TapeNode>, open: &mut Vec<u32>) -> Option<()> {
        loop {
            // A value is expected here.
            self.skip_whitespace();
            let container = self.value(nodes)?;
            if let Some(kind) = container {
                let this = u32::try_from(nodes.len() - 1).ok()?;
                self.skip_whitespace();
                let end = if kind == JsonKind::Object { b'}' } else { b']' };
                if self.peek() == Some(end) {
                    self.at += 1;
                    self.close(nodes, this)?;
                } else {
                    if open.len() >= DEPTH_MAX {
                        return None;
                    }
                    open.push(this);
                    if kind == JsonKind::Object {
                        self.name(nodes)?;
                    }
                    continue;
                }
            }
            // A value has ended here.
            loop {
                self.skip_whitespace();
                let Some(&owner) = open.last() else {
                    return (self.at == self.bytes.len()).then_some(());
                };
                let kind = nodes.get(owner as usize)?.kind;
                match (self.take()?, kind) {
                    (b',', JsonKind::Object) => {
                        self.skip_whitespace();
                        self.name(nodes)?;
                        break;
                    }
                    (b',', _) => break,
                    (b'}', JsonKind::Object) | (b']', JsonKind::List) => {
                        open.pop();
                        self.close(nodes, owner)?;
                    }
                    _ => return None,
                }
            }
        }
    }

    fn close(&self, nodes: &mut [TapeNode], owner: u32) -> Option<()> {
        let next = u32::try_from(nodes.len()).ok()?;
        let node = nodes.get_mut(owner as usize)?;
        node.end = self.at as u32;
        node.next = next;
        Some(())
    }

    fn name(&mut self, nodes: &mut Vec<TapeNode>) -> Option<()> {
        if self.take()? != b'"' {
            return None;
        }
        self.string(nodes)?;
        self.skip_whitespace();
        (self.take()? == b':').then_some(())
    }

    /// Reads a scalar or the opening bracket of a container. Returns `Some` of the type of the
    /// container, `Some(None)` for a scalar, and `None` if the value is malformed.
    fn value(&mut self, nodes: &mut Vec<TapeNode>) -> Option<Option<JsonKind>> {
        let start = self.at;
        match self.take()? {
            b'"' => self.string(nodes)?,
            b'{' => {
                push(nodes, JsonKind::Object, start, start);
                return Some(Some(JsonKind::Object));
            }
            b'[' => {
                push(nodes, JsonKind::List, start, start);
                return Some(Some(JsonKind::List));
            }
            b't' => self.literal(nodes, start, b"true", JsonKind::Bool)?,
            b'f' => self.literal(nodes, start, b"false", JsonKind::Bool)?,
            b'n' => self.literal(nodes, start, b"null", JsonKind::Null)?,
            b'-' | b'0'..=b'9' => {
                while let Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') = self.peek() {
                    self.at += 1;
                }
                push(nodes, JsonKind::Number, start, self.at);
            }
            _ => return None,
        }
        Some(None)
    }

    fn literal(
        &mut self,
        nodes: &mut Vec<TapeNode>,
        start: usize,
        word: &[u8],
        kind: JsonKind,
    ) -> Option<()> {
        let rest = self.bytes.get(start..)?;
        if !rest.starts_with(word) {
            return None;
        }
        self.at = start + word.len();
        push(nodes, kind, start, self.at);
        Some(())
    }

    /// Reads a string after its opening quote.
    fn string(&mut self, nodes: &mut Vec<TapeNode>) -> Option<()> {
        let start = self.at - 1;
        let mut kind = JsonKind::Text;
        // Most strings are short and end before the setup of `memchr` pays off.
        for _ in 0..SHORT_WORDS {
            let Some(word) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<8>) else {
                break;
            };
            let Some(found) = first_quote_or_backslash(u64::from_le_bytes(*word)) else {
                self.at += 8;
                continue;
            };
            self.at += found;
            if word[found] == b'"' {
                self.at += 1;
                push(nodes, kind, start, self.at);
                return Some(());
            }
            break;
        }
        loop {
            let rest = self.bytes.get(self.at..)?;
            let found = memchr::memchr2(b'"', b'\\', rest)?;
            self.at += found + 1;
            if rest[found] == b'"' {
                break;
            }
            kind = JsonKind::Escaped;
            self.at += 1;
        }
        push(nodes, kind, start, self.at);
        Some(())
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }
}

fn push(nodes: &mut Vec<TapeNode>, kind: JsonKind, start: usize, end: usize) {
    // A document is shorter than 4 GiB, so its offsets fit.
    let (start, end, next) = (start as u32, end as u32, nodes.len() as u32 + 1);
    nodes.push(TapeNode {
        kind,
        start,
        end,
        next,
    });
}

impl<'t> JsonView<'t> {
    fn node(self) -> TapeNode {
        self.nodes[self.at]
    }

    /// The index of the value on the tape. The whole document has index 0.
    pub(crate) fn index_in_document(self) -> u32 {
        self.at as u32
    }

    /// The value with this index in the same document.
    pub(crate) fn seek(self, number: u32) -> Self {
        Self {
            at: number as usize,
            ..self
        }
    }

    #[must_use]
    pub fn kind(self) -> JsonKind {
        self.node().kind
    }

    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The JSON of the value.
    #[must_use]
    pub fn raw_json(self) -> &'t [u8] {
        let node = self.node();
        &self.bytes[node.start as usize..node.end as usize]
    }

    /// The range of the value in the document.
    #[must_use]
    pub fn byte_range(self) -> std::ops::Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// The string; `None` if the value is not a string or is malformed.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'t, str>> {
        match self.kind() {
            JsonKind::Text => {
                let json = self.raw_json();
                let inside = json.get(1..json.len() - 1)?;
                std::str::from_utf8(inside).ok().map(Cow::Borrowed)
            }
            JsonKind::Escaped => serde_json::from_slice(self.raw_json()).ok().map(Cow::Owned),
            _ => None,
        }
    }

    /// The bytes of a string without escapes. They are not checked to be UTF-8.
    pub(crate) fn unescaped_bytes(self) -> Option<&'t [u8]> {
        let node = self.node();
        if node.kind != JsonKind::Text {
            return None;
        }
        self.bytes
            .get(node.start as usize + 1..node.end as usize - 1)
    }

    /// Whether the value is the string `text`.
    #[must_use]
    pub fn equals_str(self, text: &str) -> bool {
        match self.kind() {
            JsonKind::Text => {
                let json = self.raw_json();
                &json[1..json.len() - 1] == text.as_bytes()
            }
            JsonKind::Escaped => self.as_str().is_some_and(|own| own == text),
            _ => false,
        }
    }

    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == JsonKind::Bool).then(|| self.raw_json() == b"true")
    }

    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        self.number()?.parse().ok()
    }

    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        self.number()?.parse().ok()
    }

    fn number(self) -> Option<&'t str> {
        if self.kind() != JsonKind::Number {
            return None;
        }
        std::str::from_utf8(self.raw_json()).ok()
    }

    /// The items of a list; none if the value is not a list.
    #[must_use]
    pub fn items(self) -> JsonItems<'t> {
        let node = self.node();
        let is_list = node.kind == JsonKind::List;
        JsonItems {
            bytes: self.bytes,
            nodes: self.nodes,
            next: self.at + 1,
            end: if is_list { node.next as usize } else { 0 },
        }
    }

    /// The members of an object; none if the value is not an object.
    #[must_use]
    pub fn members(self) -> JsonMembers<'t> {
        let node = self.node();
        let is_object = node.kind == JsonKind::Object;
        JsonMembers(JsonItems {
            bytes: self.bytes,
            nodes: self.nodes,
            next: self.at + 1,
            end: if is_object { node.next as usize } else { 0 },
        })
    }

    /// A member of an object; the last one if the name is duplicated.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Self> {
        let mut found = None;
        for (key, value) in self.members() {
            if key.equals_str(name) {
                found = Some(value);
            }
        }
        found
    }

    /// The value at a path of member names.
    #[must_use]
    pub fn get_path(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |view, name| view.get(name))
    }

    /// Parses the value into a tree.
    pub fn to_value(self) -> Result<Value, CorruptBytes> {
        let parsed = super::parse(self.raw_json());
        parsed.map(|parsed| parsed.value).map_err(|_| CorruptBytes {
            at: self.byte_range().start,
        })
    }
}

/// See [`JsonView::items`].
#[derive(Clone, Debug)]
pub struct JsonItems<'t> {
    bytes: &'t [u8],
    nodes: &'t [TapeNode],
    next: usize,
    end: usize,
}

impl<'t> Iterator for JsonItems<'t> {
    type Item = JsonView<'t>;

    fn next(&mut self) -> Option<JsonView<'t>> {
        if self.next >= self.end {
            return None;
        }
        let view = JsonView {
            bytes: self.bytes,
            nodes: self.nodes,
            at: self.next,
        };
        self.next = view.node().next as usize;
        Some(view)
    }
}

/// See [`JsonView::members`].
#[derive(Clone, Debug)]
pub struct JsonMembers<'t>(JsonItems<'t>);

impl<'t> Iterator for JsonMembers<'t> {
    type Item = (JsonView<'t>, JsonView<'t>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_bytes;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn tape_finds_values_by_path() {
        let mut tape = Tape::default();
        let text = br#" {"a":[1,{"b":"x\n"},[]],"c":{},"d":null,"e":-1.5,"f":true,"g":"t"} "#;
        let view = tape.read(text).unwrap();
        let items: Vec<_> = view
            .get("a")
            .unwrap()
            .items()
            .map(JsonView::raw_json)
            .collect();
        assert_eq!(items, [&b"1"[..], br#"{"b":"x\n"}"#, b"[]"]);
        let inner = view.get("a").unwrap().items().nth(1).unwrap();
        assert_eq!(inner.get("b").unwrap().as_str().unwrap(), "x\n");
        assert!(inner.get("b").unwrap().equals_str("x\n"));
        assert_eq!(view.get("c").unwrap().members().count(), 0);
        assert!(view.get("d").unwrap().is_null());
        assert_eq!(view.get("e").unwrap().as_f64(), Some(-1.5));
        assert_eq!(view.get("f").unwrap().as_bool(), Some(true));
        assert!(view.get("g").unwrap().equals_str("t"));
        assert_eq!(view.members().count(), 6);
        assert!(view.get_path(&["a", "b"]).is_none());
    }

    #[test]
    fn tape_finds_quotes_and_backslashes_at_any_offset() {
        for at in 0..8 {
            for (mark, behind) in [(b'"', b'"'), (b'"', b'\\'), (b'\\', b'"'), (b'"', b'#')] {
                let mut word = *b"!#[]a\x00\xff\x22";
                word[7] = b'x';
                word[at] = mark;
                if let Some(next) = word.get_mut(at + 1) {
                    *next = behind;
                }
                assert_eq!(first_quote_or_backslash(u64::from_le_bytes(word)), Some(at));
            }
        }
        assert_eq!(
            first_quote_or_backslash(u64::from_le_bytes(*b"!#[]a\x00\xffx")),
            None
        );
    }

    #[test]
    fn tape_refuses_malformed_documents() {
        let mut tape = Tape::default();
        for text in [
            "",
            "{",
            "[",
            "]",
            "{]",
            "[}",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "nul",
            "\"",
            "\"\\",
            "1 2",
            "[1 2]",
            "{1:2}",
        ] {
            assert!(tape.read(text.as_bytes()).is_err(), "{text}");
        }
        let deep = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(tape.read(&deep(DEPTH_MAX)).is_ok());
        assert!(tape.read(&deep(DEPTH_MAX + 2)).is_err());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\]{0,2}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn rebuilt(view: JsonView<'_>) -> Value {
        match view.kind() {
            JsonKind::Null => Value::Null,
            JsonKind::Bool => json!(view.as_bool().unwrap()),
            JsonKind::Number => json!(view.as_i64().unwrap()),
            JsonKind::Text | JsonKind::Escaped => json!(view.as_str().unwrap()),
            JsonKind::List => view.items().map(rebuilt).collect(),
            JsonKind::Object => {
                let members = view.members();
                let members =
                    members.map(|(name, value)| (name.as_str().unwrap().into(), rebuilt(value)));
                Value::Object(members.collect())
            }
        }
    }

    proptest! {
        #[test]
        fn tape_view_agrees_with_parsed_value(value in any_value()) {
            let bytes = to_bytes(&value);
            let mut tape = Tape::default();
            let view = tape.read(&bytes).unwrap();
            prop_assert_eq!(rebuilt(view), value.clone());
            prop_assert_eq!(view.to_value().unwrap(), value);
        }

        #[test]
        fn tape_read_never_panics(text in r#"[\[\]{}:,"\\a01.e\- tn]{0,20}"#) {
            let mut tape = Tape::default();
            if let Ok(view) = tape.read(text.as_bytes()) {
                fn walk(view: JsonView<'_>) {
                    let _ = (view.as_str(), view.as_f64(), view.as_i64(), view.as_bool());
                    view.items().for_each(walk);
                    view.members().for_each(|(name, value)| {
                        let _ = name.as_str();
                        walk(value);
                    });
                }
                walk(view);
            }
        }
    }
}
