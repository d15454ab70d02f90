//! The columns of each built-in kind, read from a generated text:
//!
//! ```text
//! /apps/v1/deployments
//! string name 0 Name          type, format (`-` for none), priority, name
//! ```

use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: Cow<'static, str>,
    /// The column type: `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: Cow<'static, str>,
    /// `name` marks the column of the object's name.
    pub format: Cow<'static, str>,
    /// Only columns of CRDs have a description here.
    pub description: Cow<'static, str>,
    /// Columns with a priority above zero appear in wide output only.
    pub priority: i32,
}

const TABLE: &str = include_str!("columns.txt");

/// The columns of a built-in kind; `None` if it has no columns of its own.
pub(crate) fn for_kind(group: &str, version: &str, plural: &str) -> Option<Vec<Column>> {
    let wanted = format!("/{group}/{version}/{plural}");
    let mut lines = TABLE.lines().skip_while(|line| *line != wanted);
    lines.next()?;
    let columns = lines.take_while(|line| !line.starts_with('/'));
    Some(columns.filter_map(column).collect())
}

fn column(line: &'static str) -> Option<Column> {
    let mut words = line.splitn(4, ' ');
    let (kind, format) = (words.next()?, words.next()?);
    let priority = words.next()?.parse().ok()?;
    Some(Column {
        name: words.next()?.into(),
        kind: kind.into(),
        format: if format == "-" { "" } else { format }.into(),
        description: Cow::Borrowed(""),
        priority,
    })
}

/// The columns of kinds without their own.
pub(crate) fn fallback() -> Vec<Column> {
    let column = |name, kind, format| Column {
        name: Cow::Borrowed(name),
        kind: Cow::Borrowed(kind),
        format: Cow::Borrowed(format),
        description: Cow::Borrowed(""),
        priority: 0,
    };
    vec![
        column("Name", "string", "name"),
        column("Created At", "date", ""),
    ]
}

/// Group, version and plural of every kind in the generated text.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.strip_prefix('/')?.splitn(3, '/');
        Some((words.next()?, words.next()?, words.next()?))
    })
}
