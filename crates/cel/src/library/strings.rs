//! The strings library: functions on strings.

use super::{args, check_result_size};
use crate::value::{EvalError, Result, StringValue, Value};

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

pub(crate) fn contains<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::String(part) => {
        Ok(Value::Bool(text.as_str().contains(part.as_str())))
    })
}

pub(crate) fn starts_with<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::String(part) => {
        Ok(Value::Bool(text.as_str().starts_with(part.as_str())))
    })
}

pub(crate) fn ends_with<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::String(part) => {
        Ok(Value::Bool(text.as_str().ends_with(part.as_str())))
    })
}

/// The byte offset of a character index; the index of the end is valid.
fn byte_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.take(index + 1)
        .enumerate()
        .last()
        .and_then(|(count, at)| (count == index).then_some(at))
}

pub(crate) fn char_at<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::Int(index) => {
        let start = byte_of(text.as_str(), *index).ok_or_else(|| out_of_range(*index))?;
        let c = text.as_str()[start..].chars().next();
        Ok(Value::string(c.map(String::from).unwrap_or_default()))
    })
}

/// The character index of the first occurrence of `part` at or behind an offset.
pub(crate) fn index_of(text: &str, part: &str, offset: i64) -> Result<i64> {
    if part.is_empty() {
        return Ok(offset);
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(start) = byte_of(text, offset) else {
        return Ok(-1);
    };
    let found = text[start..].find(part);
    Ok(found.map_or(-1, |found| count(&text[..start + found])))
}

/// The character index of the last occurrence of `part` up to an offset.
pub(crate) fn last_index_of(text: &str, part: &str, offset: Option<i64>) -> Result<i64> {
    let length = count(text);
    if part.is_empty() {
        return Ok(offset.unwrap_or(length));
    }
    let offset = match offset {
        None => length,
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        Some(offset) if offset >= length => return Ok(-1),
        Some(offset) => offset,
    };
    let start = byte_of(text, offset).unwrap_or(text.len());
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end));
    let found = text[..end.unwrap_or(text.len())].rfind(part);
    Ok(found.map_or(-1, |found| count(&text[..found])))
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

pub(crate) fn lower<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::string(text.as_str().to_ascii_lowercase())))
}

pub(crate) fn upper<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => Ok(Value::string(text.as_str().to_ascii_uppercase())))
}

/// Removes leading and trailing white space as Go defines it.
pub(crate) fn trim<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        Ok(match text {
            StringValue::Borrowed(text) => Value::String(StringValue::Borrowed(text.trim())),
            StringValue::Shared(text) => Value::string(text.trim()),
        })
    })
}

pub(crate) fn replace<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, from, to, most) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [
            Value::String(text),
            Value::String(from),
            Value::String(to),
            Value::Int(most),
        ] => (text, from, to, *most),
        _ => return Err(EvalError::no_overload()),
    };
    let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
    let found = match from {
        "" => text.chars().count() + 1,
        from => text.matches(from).count(),
    };
    let times = usize::try_from(most).unwrap_or(found).min(found);
    check_result_size(text.len().saturating_add(times.saturating_mul(to.len())))?;
    Ok(Value::string(text.replacen(from, to, times)))
}

pub(crate) fn split<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, by, most) = match args {
        [Value::String(text), Value::String(by)] => (text, by, -1),
        [Value::String(text), Value::String(by), Value::Int(most)] => (text, by, *most),
        _ => return Err(EvalError::no_overload()),
    };
    let (text, by) = (text.as_str(), by.as_str());
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    if !by.is_empty() {
        return Ok(Value::strings(text.splitn(most, by)));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == most {
            parts.push(rest);
            break;
        }
        let (first, after) = rest.split_at(c.len_utf8());
        parts.push(first);
        rest = after;
    }
    Ok(Value::strings(parts))
}

pub(crate) fn substring<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::no_overload()),
    };
    let text = text.as_str();
    if let Some(end) = end.filter(|end| start > *end) {
        let text = format!("invalid substring range. start: {start}, end: {end}");
        return Err(EvalError::new(text));
    }
    let from = byte_of(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_of(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::string(&text[from..to]))
}

pub(crate) fn join<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, by) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(by)] => (list, by.as_str()),
        _ => return Err(EvalError::no_overload()),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        let item = item?;
        let Value::String(text) = &item else {
            let text = format!("join: invalid input: {}", item.type_name().0);
            return Err(EvalError::new(text));
        };
        check_result_size(joined.len() + by.len() + text.as_str().len())?;
        if index > 0 {
            joined.push_str(by);
        }
        joined.push_str(text.as_str());
    }
    Ok(Value::string(joined))
}

/// Quotes a string as a CEL literal in double quotes.
pub(crate) fn quote<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    let [Value::String(text)] = args else {
        return Err(EvalError::no_overload());
    };
    let mut out = String::with_capacity(text.as_str().len() + 2);
    out.push('"');
    for c in text.as_str().chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Value::string(out))
}

/// Escapes a key for use in a JSON Pointer (JSON Patch path).
pub(crate) fn escape_key<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        Ok(Value::string(text.as_str().replace('~', "~0").replace('/', "~1")))
    })
}
