//! The YAML writer, compatible with Go's library for Kubernetes: block style, lists not indented
//! below their key, long texts folded at 80 columns, quotes only where a plain text would be read
//! as another type.

use super::scalar;
use crate::go;
use crate::json::{Map, Value};
use std::cmp::Ordering;

/// Lines are folded at the first blank after this column.
const LINE_COLUMNS_MAX: usize = 80;
const INDENT_STEP: usize = 2;
/// Longer keys are written as explicit keys with a `?`.
const SIMPLE_KEY_LENGTH_MAX: usize = 128;

/// Writes a document.
#[must_use]
pub fn write(value: &Value) -> String {
    let mut writer = YamlWriter::default();
    writer.value(value, BlockPosition::TOP);
    writer.end_line();
    writer.out
}

/// Appends a value as an item of a list that is a member of the document.
pub fn write_item(value: &Value, out: &mut Vec<u8>) {
    let mut writer = YamlWriter::default();
    writer.out.push_str("- ");
    writer.column = 2;
    writer.value(
        value,
        BlockPosition {
            indent: INDENT_STEP,
            inline: true,
        },
    );
    writer.end_line();
    out.extend_from_slice(writer.out.as_bytes());
}

/// The position of a value in the output.
#[derive(Clone, Copy)]
struct BlockPosition {
    /// The indentation of its lines.
    indent: usize,
    /// Whether its first line has begun.
    inline: bool,
}

impl BlockPosition {
    const TOP: Self = Self {
        indent: 0,
        inline: true,
    };
}

#[derive(Default)]
struct YamlWriter {
    out: String,
    column: usize,
}

impl YamlWriter {
    fn value(&mut self, value: &Value, place: BlockPosition) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(true) => self.put("true"),
            Value::Bool(false) => self.put("false"),
            Value::Number(number) => {
                let text = match number.as_f64() {
                    Some(float) if number.is_f64() => go::json_float(float),
                    _ => number.to_string(),
                };
                self.put(&text);
            }
            Value::String(text) => {
                self.string(text, place.indent.max(INDENT_STEP), Folding::Allowed);
            }
            Value::Array(items) => self.list(items, place),
            Value::Object(members) => self.map(members, place),
        }
    }

    fn list(&mut self, items: &[Value], place: BlockPosition) {
        if items.is_empty() {
            return self.put("[]");
        }
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !place.inline {
                self.begin_line(place.indent);
            }
            self.put("- ");
            let indent = place.indent + INDENT_STEP;
            self.value(
                item,
                BlockPosition {
                    indent,
                    inline: true,
                },
            );
        }
    }

    fn map(&mut self, members: &Map, place: BlockPosition) {
        if members.is_empty() {
            return self.put("{}");
        }
        let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| compare_keys(a, b));
        for (at, (name, value)) in sorted.into_iter().enumerate() {
            if at > 0 || !place.inline {
                self.begin_line(place.indent);
            }
            self.member(name, value, place.indent);
        }
    }

    fn member(&mut self, name: &str, value: &Value, indent: usize) {
        if name.len() > SIMPLE_KEY_LENGTH_MAX || name.contains('\n') {
            self.put("? ");
            self.string(name, indent + INDENT_STEP, Folding::Allowed);
            self.begin_line(indent);
            self.put(": ");
            let place = BlockPosition {
                indent: indent + INDENT_STEP,
                inline: true,
            };
            return self.value(value, place);
        }
        self.string(name, indent + INDENT_STEP, Folding::Forbidden);
        self.put(":");
        match value {
            // Lists are not indented relative to their key.
            Value::Array(items) if !items.is_empty() => {
                let place = BlockPosition {
                    indent,
                    inline: false,
                };
                self.list(items, place);
            }
            Value::Object(members) if !members.is_empty() => {
                let place = BlockPosition {
                    indent: indent + INDENT_STEP,
                    inline: false,
                };
                self.map(members, place);
            }
            value => {
                self.put(" ");
                let place = BlockPosition {
                    indent: indent + INDENT_STEP,
                    inline: true,
                };
                self.value(value, place);
            }
        }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn put_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn begin_line(&mut self, indent: usize) {
        self.end_line();
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    fn end_line(&mut self) {
        if self.column > 0 {
            self.out.push('\n');
            self.column = 0;
        }
    }

    fn string(&mut self, text: &str, indent: usize, folding: Folding) {
        let traits = ScalarStyles::for_text(text);
        let is_key = folding == Folding::Forbidden;
        if text.contains('\n') && traits.block && !is_key {
            return self.literal(text, indent);
        }
        let wanted_plain = !text.contains('\n') && resolves_to_string(text);
        if wanted_plain && traits.plain {
            return self.folded(text, indent, folding, |writer, c| writer.put_char(c));
        }
        if wanted_plain && traits.single {
            self.put("'");
            let inner = |writer: &mut Self, c| {
                if c == '\'' {
                    writer.put_char('\'');
                }
                writer.put_char(c);
            };
            self.folded(text, indent, folding, inner);
            return self.put("'");
        }
        self.double_quoted(text, indent, folding);
    }

    /// Folds at single blanks that are not at an end of the text.
    fn folded(
        &mut self,
        text: &str,
        indent: usize,
        folding: Folding,
        put: impl Fn(&mut Self, char),
    ) {
        let mut after_blank = false;
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let folds = c == ' '
                && folding == Folding::Allowed
                && !after_blank
                && self.column > LINE_COLUMNS_MAX
                && !first
                && chars.peek().is_some_and(|next| *next != ' ');
            if folds {
                self.begin_line(indent);
            } else {
                put(self, c);
            }
            after_blank = c == ' ';
            first = false;
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, folding: Folding) {
        self.put("\"");
        let mut after_blank = false;
        let mut first = true;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let folds = c == ' '
                && folding == Folding::Allowed
                && !after_blank
                && self.column > LINE_COLUMNS_MAX
                && !first
                && chars.peek().is_some();
            if folds {
                self.begin_line(indent);
                if chars.peek() == Some(&' ') {
                    self.put("\\");
                }
            } else if let Some(escape) = escape(c) {
                self.put(&escape);
            } else {
                self.put_char(c);
            }
            after_blank = c == ' ';
            first = false;
        }
        self.put("\"");
    }

    /// The literal style `|`: lines unchanged.
    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with([' ', '\n']) {
            self.put("2");
        }
        if !text.ends_with('\n') {
            self.put("-");
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put("+");
        }
        self.end_line();
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let last = lines.peek().is_none();
            if !line.is_empty() {
                self.out.extend(std::iter::repeat_n(' ', indent));
                self.out.push_str(line);
                self.column = 1;
            }
            if !last {
                self.out.push('\n');
                self.column = 0;
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Folding {
    Allowed,
    /// A key must be on one line.
    Forbidden,
}

/// The styles a text can be written in.
struct ScalarStyles {
    plain: bool,
    single: bool,
    block: bool,
}

impl ScalarStyles {
    fn for_text(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut space_break, mut break_space) = (false, false, false);
        let mut before: Option<char> = None;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let blank_follows = chars
                .peek()
                .is_none_or(|next| matches!(next, ' ' | '\t' | '\n'));
            let blank_before = before.is_none_or(|before| matches!(before, ' ' | '\t' | '\n'));
            indicators |= match (before, c) {
                (
                    None,
                    '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"'
                    | '%' | '@' | '`',
                ) => true,
                (None, '?' | ':' | '-') => blank_follows,
                (Some(_), ':') => blank_follows,
                (Some(_), '#') => blank_before,
                _ => false,
            };
            special |= !is_printable(c);
            space_break |= c == '\n' && before == Some(' ');
            break_space |= c == ' ' && before == Some('\n');
            before = Some(c);
        }
        let edges = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let bad = space_break || special;
        Self {
            plain: !(indicators || edges || bad || break_space || text.contains('\n')),
            single: !(bad || break_space),
            block: !(bad || text.ends_with(' ')),
        }
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && c != '\u{feff}'
}

/// Whether a text without quotes would be resolved as a string.
fn resolves_to_string(text: &str) -> bool {
    let read = scalar::resolve(text, true, None);
    let same = matches!(read, Ok(Value::String(_)));
    same && text != "<<" && !is_time(text) && !is_base_60(text)
}

/// `2006-01-02`, with or without a time.
fn is_time(text: &str) -> bool {
    let digits = |text: &str, max: usize| {
        let count = text.bytes().take_while(u8::is_ascii_digit).count();
        (1..=max).contains(&count).then_some(count)
    };
    let date = || {
        let rest = text.get(4..)?.strip_prefix('-')?;
        if !text.get(..4)?.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let rest = rest.get(digits(rest, 2)?..)?.strip_prefix('-')?;
        rest.get(digits(rest, 2)?..)
    };
    let Some(rest) = date() else { return false };
    if rest.is_empty() {
        return true;
    }
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return false;
    };
    let clock = rest.bytes();
    let mut colons = 0;
    for byte in clock {
        match byte {
            b':' => colons += 1,
            b'0'..=b'9' | b'.' | b'Z' | b'+' | b'-' => {}
            _ => return false,
        }
    }
    colons >= 2
}

/// `1:30`, a sexagesimal number (90) in YAML 1.1.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let digits = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let mut rest = parts.peekable();
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && rest.peek().is_some()
        && rest.all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

fn escape(c: char) -> Option<String> {
    if is_printable(c) && !matches!(c, '"' | '\\' | '\n' | '\u{2028}' | '\u{2029}' | '\u{85}') {
        return None;
    }
    Some(match c {
        '\0' => "\\0".into(),
        '\u{7}' => "\\a".into(),
        '\u{8}' => "\\b".into(),
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\u{b}' => "\\v".into(),
        '\u{c}' => "\\f".into(),
        '\r' => "\\r".into(),
        '\u{1b}' => "\\e".into(),
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{85}' => "\\N".into(),
        '\u{2028}' => "\\L".into(),
        '\u{2029}' => "\\P".into(),
        c if (c as u32) <= 0xff => format!("\\x{:02X}", c as u32),
        c if (c as u32) <= 0xffff => format!("\\u{:04X}", c as u32),
        c => format!("\\U{:08X}", c as u32),
    })
}

/// The key order of Go's library: letters after everything else, numbers by value.
fn compare_keys(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let differ = a.iter().zip(&b).position(|(a, b)| a != b);
    let Some(at) = differ else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero counts only after a non-zero digit.
    let zero = a[at] == '0' || b[at] == '0';
    let behind = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
    let start = u64::from(zero && behind.into_iter().any(|c| *c != '0'));
    let number = |text: &[char]| {
        let digits = text[at..].iter().map_while(|c| c.to_digit(10));
        digits.fold((start, 0_usize), |(number, count), digit| {
            let number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            (number, count + 1)
        })
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse;
    use proptest::prelude::*;
    use serde_json::json;

    /// Output recorded from Go's library.
    #[test]
    fn yaml_is_written_as_go_writes_it() {
        let value = json!({
            "a": {"b": [], "c": {}, "d": null, "e": [1, [2, 3], {"x": 1, "y": {"z": "w"}}]},
            "quoted": ["1", "true", "", "a: b", "- a", "#x", "it's", "'x", "2026-01-02", "1:30",
                       "a\tb", "2026-11-15T13:54:35Z", " x", "*", "-", "a #b", "a#b", "x:y", "~"],
            "text": "one\ntwo\n", "text2": "one\n\ntwo", "text3": "one\n\n",
            "k10": 1, "k2": 2, "k": true, "0": 1.5,
        });
        let expected = r##""0": 1.5
a:
  b: []
  c: {}
  d: null
  e:
  - 1
  - - 2
    - 3
  - x: 1
    "y":
      z: w
k: true
k2: 2
k10: 1
quoted:
- "1"
- "true"
- ""
- 'a: b'
- '- a'
- '#x'
- it's
- '''x'
- "2026-01-02"
- "1:30"
- "a\tb"
- "2026-11-15T13:54:35Z"
- ' x'
- '*'
- '-'
- 'a #b'
- a#b
- x:y
- "~"
text: |
  one
  two
text2: |-
  one

  two
text3: |+
  one

"##;
        assert_eq!(write(&value), expected);
    }

    #[test]
    fn yaml_long_strings_are_folded() {
        let status = json!({"message": "only the following media types are accepted: \
            application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"});
        let expected = "message: 'only the following media types are accepted: \
                        application/json;stream=watch,\n  \
                        application/vnd.kubernetes.protobuf;stream=watch'\n";
        assert_eq!(write(&status), expected);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~\n\t]{0,12}",
            "[a-c :#'\"\\\\-]{0,120}",
            any::<String>()
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{0,6}|[a-z:{\"]{130}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_round_trips_any_value(value in any_value()) {
            let text = write(&json!({"a": [value.clone()]}));
            let read = parse(text.as_bytes());
            prop_assert_eq!(read.map(|read| read.value).unwrap_or_default(), json!({"a": [value]}), "{}", text);
        }
    }
}
