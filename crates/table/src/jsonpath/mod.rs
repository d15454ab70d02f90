//! Paths into an object, as printer columns name them: `.spec.parts[0].name`.
//!
//! It is the JSONPath of kubectl with its habits, among them that a quoted key is a path
//! again: `['a.b']` is `.a.b`, and `['a\.b']` is one member.

mod compare;
mod evaluate;
mod parse;

use compare::FilterOperator;
pub(crate) use evaluate::JsonPathValue;

/// A path, read once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonPath(Vec<JsonPathStep>);

#[derive(Clone, Debug, PartialEq)]
enum JsonPathStep {
    /// `.name`
    Field(String),
    /// `[0]`, `[*]`, `[1:3]`
    Slice(JsonPathSlice),
    /// `.*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[0,2]`
    Union(Vec<JsonPath>),
    /// `[?(@.type=="Ready")]`
    Filter(JsonPathFilter),
    /// A value that stands in a filter.
    Literal(FilterLiteral),
    /// A word that means nothing: the path is one, but leads nowhere.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct JsonPathSlice {
    from: i64,
    to: SliceEnd,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SliceEnd {
    /// One item.
    Next,
    Open,
    Before(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct JsonPathFilter {
    left: JsonPath,
    /// `None`: it is enough to be there.
    right: Option<(FilterOperator, JsonPath)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FilterLiteral {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}
