//! The JSONPath parser.

use super::{
    FilterLiteral, FilterOperator, JsonPath, JsonPathFilter, JsonPathSlice, JsonPathStep, SliceEnd,
};

/// Longer paths are invalid.
const PATH_BYTES_MAX: usize = 4096;
/// Nesting limit of paths in filters and unions; practical paths need fewer levels.
const DEPTH_MAX: usize = 8;

impl JsonPath {
    /// Parses a path; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        (text.len() <= PATH_BYTES_MAX).then_some(())?;
        parse_nested(text, DEPTH_MAX)
    }
}

fn parse_nested(text: &str, depth: usize) -> Option<JsonPath> {
    let mut reader = JsonPathParser {
        rest: text,
        depth: depth.checked_sub(1)?,
        steps: Vec::new(),
    };
    while !reader.rest.is_empty() {
        reader.step()?;
    }
    Some(JsonPath(reader.steps))
}

struct JsonPathParser<'t> {
    rest: &'t str,
    depth: usize,
    steps: Vec<JsonPathStep>,
}

/// Whether the character ends a name.
fn is_terminator(c: char) -> bool {
    matches!(
        c,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

impl<'t> JsonPathParser<'t> {
    /// Consumes `length` bytes.
    fn take(&mut self, length: usize) -> Option<&'t str> {
        let taken = self.rest.get(..length)?;
        self.rest = self.rest.get(length..)?;
        Some(taken)
    }

    fn step(&mut self) -> Option<()> {
        if self.rest.starts_with("[?(") {
            return self.filter();
        }
        if self.rest.starts_with("..") {
            return self.below();
        }
        let first = self.rest.chars().next()?;
        match first {
            // The current object.
            ' ' | '@' | '$' => self.take(1).map(|_| ()),
            '[' => self.brackets(),
            '"' | '\'' => self.quoted(first),
            '.' => {
                self.take(1)?;
                self.field()
            }
            '+' | '-' | '0'..='9' => self.number(),
            c if is_word(c) => self.word(),
            _ => None,
        }
    }

    fn field(&mut self) -> Option<()> {
        let mut name = String::new();
        let mut escaped = false;
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            if !escaped && is_terminator(c) {
                end = at;
                break;
            }
            escaped = !escaped && c == '\\';
            if c != '\\' {
                name.push(c);
            }
        }
        let step = match self.take(end)? {
            "*" => JsonPathStep::Wildcard,
            _ => JsonPathStep::Field(name),
        };
        self.steps.push(step);
        Some(())
    }

    fn below(&mut self) -> Option<()> {
        if self.steps.last() == Some(&JsonPathStep::Recursive) {
            return None;
        }
        self.take(2)?;
        self.steps.push(JsonPathStep::Recursive);
        match self.rest.chars().next() {
            Some(c) if is_word(c) => self.field(),
            _ => Some(()),
        }
    }

    fn number(&mut self) -> Option<()> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..)?;
        let length = digits.find(|c: char| c != '.' && !c.is_ascii_digit());
        let text = self.take(sign + length.unwrap_or(digits.len()))?;
        let literal = match text.parse() {
            Ok(number) => FilterLiteral::Integer(number),
            Err(_) => FilterLiteral::Float(text.parse().ok()?),
        };
        self.steps.push(JsonPathStep::Literal(literal));
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let end = self.rest.find(is_terminator).unwrap_or(self.rest.len());
        let step = match self.take(end)? {
            "true" => JsonPathStep::Literal(FilterLiteral::Flag(true)),
            "false" => JsonPathStep::Literal(FilterLiteral::Flag(false)),
            _ => JsonPathStep::Word,
        };
        self.steps.push(step);
        Some(())
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        self.take(1)?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        let end = loop {
            let (at, c) = chars.next()?;
            match c {
                '\n' => return None,
                '\\' => text.push(unescaped(chars.next()?.1, quote)?),
                c if c == quote => break at + 1,
                c => text.push(c),
            }
        };
        self.take(end)?;
        self.steps
            .push(JsonPathStep::Literal(FilterLiteral::Text(text)));
        Some(())
    }

    fn brackets(&mut self) -> Option<()> {
        let end = self.rest.find([']', '\n'])?;
        let text = self.take(end + 1)?.strip_prefix('[')?.strip_suffix(']')?;
        let key = text.strip_prefix('\'').and_then(|it| it.strip_suffix('\''));
        if text.contains(',') {
            let parts = text.split(',');
            let parts = parts
                .map(|part| parse_nested(&format!("[{}]", part.trim_matches(' ')), self.depth));
            self.steps
                .push(JsonPathStep::Union(parts.collect::<Option<_>>()?));
        } else if let Some(key) = key.filter(|key| !key.contains('\'')) {
            self.steps
                .extend(parse_nested(&format!(".{key}"), self.depth)?.0);
        } else {
            self.steps.push(JsonPathStep::Slice(slice(text)?));
        }
        Some(())
    }

    fn filter(&mut self) -> Option<()> {
        self.take("[?(".len())?;
        let end = end_of_filter(self.rest)?;
        let text = self.take(end)?;
        self.take(")".len())?;
        self.rest.starts_with(']').then(|| self.take(1))?;
        let is_sign = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let signs = text.find(is_sign).filter(|at| *at > 0);
        let parts = signs.and_then(|at| {
            let (left, rest) = text.split_at_checked(at)?;
            let length = rest.find(|c| !is_sign(c))?;
            let (signs, right) = rest.split_at_checked(length)?;
            Some((left, signs, right))
        });
        self.steps.push(JsonPathStep::Filter(match parts {
            Some((left, signs, right)) => JsonPathFilter {
                left: parse_nested(left, self.depth)?,
                right: Some((
                    FilterOperator::parse(signs),
                    parse_nested(right, self.depth)?,
                )),
            },
            None => JsonPathFilter {
                left: parse_nested(text, self.depth)?,
                right: None,
            },
        }));
        Some(())
    }
}

/// The offset of the closing parenthesis, ignoring quoted ones.
fn end_of_filter(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = false;
    let mut before = '(';
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '"' | '\'' => closed |= before != '\\' && quote == Some(c),
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        before = c;
    }
    None
}

fn unescaped(c: char, quote: char) -> Option<char> {
    Some(match c {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        c if c == quote => c,
        _ => return None,
    })
}

/// Parses `*`, `1`, `-1`, `1:3` or `::2`.
fn slice(text: &str) -> Option<JsonPathSlice> {
    let text = if text == "*" { ":" } else { text };
    let mut parts = text.split(':');
    // A number may be missing, but not malformed.
    let number = |part: Option<&str>| match part.unwrap_or_default() {
        "" => Some(None),
        part if part.starts_with('+') => None,
        part => part.parse::<i64>().ok().map(Some),
    };
    let from = number(parts.next())?.unwrap_or(0);
    let to = match (parts.next(), text.contains(':')) {
        (_, false) => SliceEnd::Next,
        (part, true) => number(part)?.map_or(SliceEnd::Open, SliceEnd::Before),
    };
    let step = number(parts.next())?;
    parts
        .next()
        .is_none()
        .then_some(JsonPathSlice { from, to, step })
}
