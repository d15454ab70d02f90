//! Paths into an object, as printer columns name them: `.spec.parts[0].name`.
//!
//! It is the JSONPath of kubectl with its habits, among them that a quoted key is a path
//! again: `['a.b']` is `.a.b`, and `['a\.b']` is one member.

mod compare;
mod find;
mod parse;

use compare::Operator;
pub(crate) use find::Found;

/// A path, read once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.name`
    Field(String),
    /// `[0]`, `[*]`, `[1:3]`
    Slice(Slice),
    /// `.*`
    Everything,
    /// `..`
    Below,
    /// `[0,2]`
    Union(Vec<Path>),
    /// `[?(@.type=="Ready")]`
    Filter(Filter),
    /// A value that stands in a filter.
    Literal(Literal),
    /// A word that means nothing: the path is one, but leads nowhere.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    from: i64,
    to: End,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// One item.
    Next,
    Open,
    Before(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Path,
    /// `None`: it is enough to be there.
    right: Option<(Operator, Path)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}
