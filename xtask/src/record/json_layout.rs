//! Breaks JSON into lines, so that a diff of a recording is readable. Only whitespace between
//! tokens changes: names keep their order, numbers and strings their spelling.

use std::path::{Path, PathBuf};

use crate::{Outcome, root};

/// The maximum width of a value on one line.
const COLUMNS_MAX: usize = 100;
const INDENT: usize = 2;

/// A value with its original spelling.
#[derive(Debug)]
enum Layout<'t> {
    Atom(&'t str),
    /// The brackets, and what is between: a name, if it is an object's, and a value.
    Group(char, char, Vec<(Option<&'t str>, Self)>),
}

/// Rewrites every JSON file of `recordings`.
pub(super) fn rewrite() -> Outcome {
    for path in files()? {
        let failed = |cause| format!("{}: {cause}", path.display());
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        let laid_out = lay_out(&text).map_err(|cause| format!("{}: {cause}", path.display()))?;
        if laid_out != text {
            std::fs::write(&path, laid_out).map_err(failed)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// The JSON files of `recordings`.
fn files() -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut directories = vec![root().join("recordings")];
    while let Some(directory) = directories.pop() {
        let failed = |cause| format!("{}: {cause}", directory.display());
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                directories.push(path);
            } else if is_json(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_json(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

/// The same document in lines.
pub(crate) fn lay_out(text: &str) -> Result<String, String> {
    let mut tokens = tokens(text)?.into_iter().peekable();
    let value = parse(&mut tokens)?;
    if let Some(token) = tokens.next() {
        return Err(format!("{token} after the end"));
    }
    let mut out = String::new();
    write(&value, 0, 0, &mut out);
    out.push('\n');
    Ok(out)
}

type Tokens<'t> = std::iter::Peekable<std::vec::IntoIter<&'t str>>;

fn tokens(text: &str) -> Result<Vec<&str>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            '"' => end_of_string(rest).ok_or("a string without end")?,
            _ => rest
                .find(|c: char| c.is_whitespace() || "{}[],:\"".contains(c))
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        found.push(token);
        rest = after.trim_start();
    }
    Ok(found)
}

fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    let (at, _) = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    })?;
    Some(at + 1)
}

fn parse<'t>(tokens: &mut Tokens<'t>) -> Result<Layout<'t>, String> {
    let (open, close) = match tokens.next().ok_or("it ends too soon")? {
        "{" => ('{', '}'),
        "[" => ('[', ']'),
        token @ ("}" | "]" | "," | ":") => return Err(format!("{token} in place of a value")),
        atom => return Ok(Layout::Atom(atom)),
    };
    let mut parts = Vec::new();
    loop {
        if tokens.peek().is_some_and(|token| token.starts_with(close)) {
            tokens.next();
            return Ok(Layout::Group(open, close, parts));
        }
        if !parts.is_empty() && tokens.next() != Some(",") {
            return Err("no comma between values".to_owned());
        }
        let name = if open == '{' { tokens.next() } else { None };
        if name.is_some() && tokens.next() != Some(":") {
            return Err("no colon after a name".to_owned());
        }
        parts.push((name, parse(tokens)?));
    }
}

/// On one line.
fn flat(value: &Layout<'_>, out: &mut String) {
    let (open, close, parts) = match value {
        Layout::Atom(atom) => return out.push_str(atom),
        Layout::Group(open, close, parts) => (open, close, parts),
    };
    out.push(*open);
    for (index, (name, part)) in parts.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if let Some(name) = name {
            out.push_str(name);
            out.push_str(": ");
        }
        flat(part, out);
    }
    out.push(*close);
}

/// `used` columns of the line are taken.
fn write(value: &Layout<'_>, depth: usize, used: usize, out: &mut String) {
    let mut line = String::new();
    flat(value, &mut line);
    let (open, close, parts) = match value {
        Layout::Group(open, close, parts) if used + line.chars().count() > COLUMNS_MAX => {
            (open, close, parts)
        }
        _ => return out.push_str(&line),
    };
    let indent = INDENT * (depth + 1);
    out.push(*open);
    for (index, (name, part)) in parts.iter().enumerate() {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        out.push_str(&" ".repeat(indent));
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        out.push_str(&name);
        // One column is for the comma.
        let used = indent + name.chars().count() + 1;
        write(part, depth + 1, used, out);
    }
    out.push('\n');
    out.push_str(&" ".repeat(INDENT * depth));
    out.push(*close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_broken_and_short_ones_are_not() {
        let long = "x".repeat(90);
        let text = format!(r#"[{{"b":"{long}","a":[1.50,"\"}}"]}},{{}},null]"#);
        let expected = format!(
            "[\n  {{\n    \"b\": \"{long}\",\n    \"a\": [1.50, \"\\\"}}\"]\n  }},\n  {{}},\n  null\n]\n"
        );
        assert_eq!(lay_out(&text), Ok(expected.clone()));
        assert_eq!(lay_out(&expected), Ok(expected));
    }

    #[test]
    fn what_is_no_json_is_rejected() {
        for wrong in [
            "",
            "[",
            "[1 2]",
            "{\"a\" 1}",
            "{\"a\":}",
            "\"a",
            "1 2",
            "[1,]",
        ] {
            assert!(lay_out(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn recordings_are_laid_out() {
        for path in files().expect("they are there") {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let laid_out = lay_out(&text);
            assert!(
                laid_out.as_ref() == Ok(&text),
                "{}: cargo xtask record layout",
                path.display()
            );
        }
    }
}
