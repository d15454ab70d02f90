//! `fieldPath` of a CEL rule: the field its failures are reported for.

use crate::structural::Structural;

/// The path as errors print it; `None` if the schema has no such field.
pub(crate) fn normalize(path: &str, schema: &Structural) -> Option<String> {
    let mut out = String::new();
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = match rest.as_bytes()[0] {
            b'.' => {
                let rest = &rest[1..];
                let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
                if end == 0 {
                    return None;
                }
                (rest[..end].to_owned(), &rest[end..])
            }
            b'[' => {
                let (name, after) = parse_quoted(&rest[1..])?;
                (name, after.strip_prefix(']')?)
            }
            _ => return None,
        };
        if !at.properties.is_empty() {
            at = at.property(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            at = at.additional_schema()?;
            out.push('[');
            out.push_str(&name);
            out.push(']');
        }
        rest = after;
    }
    Some(out)
}

/// Whether the path is that of a field of the schema.
pub(crate) fn is_valid_field_path(path: &str, schema: &Structural) -> bool {
    normalize(path, schema).is_some()
}

/// The text in single quotes, and the text after it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.strip_prefix('\'')?.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((out, &text[at + 2..])),
            '\\' => out.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                '\'' => '\'',
                '\\' => '\\',
                _ => return None,
            }),
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rule_field_paths_resolve_to_fields() {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b.c": {"type": "string"}}},
            "m": {"type": "object", "additionalProperties": {"type": "string"}},
        }}));
        for (path, expected) in [
            (".a", Some("a")),
            (".a['b.c']", Some("a.b.c")),
            (".m.x", Some("m[x]")),
            (".m['x.y']", Some("m[x.y]")),
            ("['a']", Some("a")),
            ("a", None),
            (".b", None),
            (".a.", None),
            (".a['b.c'", None),
            (".a[0]", None),
            (".m['\\q']", None),
        ] {
            assert_eq!(normalize(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
