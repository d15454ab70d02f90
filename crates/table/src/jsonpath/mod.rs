//! JSONPath as used by printer columns: `.spec.parts[0].name`.
//!
//! It is the JSONPath of kubectl with its peculiarities. For example, a quoted key is parsed as a
//! path again: `['a.b']` is `.a.b`, and `['a\.b']` is one member.

mod compare;
mod evaluate;
mod parse;

use compare::FilterOperator;
pub(crate) use evaluate::JsonPathValue;

/// A parsed path.
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
    /// A literal value in a filter.
    Literal(FilterLiteral),
    /// An unknown word: the path parses, but evaluates to nothing.
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
    /// A single index: the end is the next item.
    Next,
    Open,
    Before(i64),
}

#[derive(Clone, Debug, PartialEq)]
struct JsonPathFilter {
    left: JsonPath,
    /// `None`: an existence test.
    right: Option<(FilterOperator, JsonPath)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FilterLiteral {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
}
