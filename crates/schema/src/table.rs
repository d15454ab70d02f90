//! The parser of the text format of a schema table.
//!
//! ```text
//! =v1.PodSpec                                      a structure; `!` atomic, `?` keeps unknown
//!  containers [name|@1] + n merge key=name         its fields: name, type, attributes
//!  dnsPolicy s
//! =v1.Container                                    structure number 1
//!  name s + z
//! @ v1 Pod 0                                       group (here empty), version, kind, number
//! ```
//!
//! Types: `s` string, `i` int32, `l` int64, `n` number, `b` boolean, `x` int or string, `q`
//! quantity, `t` date and time, `y` bytes, `u` deduced, `r` untyped and atomic, `@3` a structure,
//! `{T}` a map (`{!T}` atomic), `[T]` an atomic list, `[=T]` a set, `[key,key|T]` a keyed list.
//!
//! Attributes: `+` required, `z` written as zero when empty, `n` written as null when empty, `d=…`
//! default as JSON, `merge`, `replace`, `retainKeys`, `key=…` for strategic merge patches.

use crate::schema::Schema;
use crate::type_node::{
    ElementRelationship, EmptyEncoding, ListOf, MapOf, PatchStrategy, Scalar, Struct, StructField,
    Text, TypeId, TypeNode, UnknownFields, Untyped,
};
use optik_object::Value;
use std::collections::BTreeMap;

/// The maximum nesting of a type expression; deeper types use structures.
const TYPE_EXPR_DEPTH_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schema table line {line}: {what}")]
pub struct SchemaTableError {
    pub line: usize,
    pub what: &'static str,
}

type ReadResult<T> = Result<T, &'static str>;

/// Structures come first in the schema, so that `@3` can refer to number 3 before it is parsed.
pub(crate) fn parse(table: &'static str) -> Result<Schema, SchemaTableError> {
    let structures = table.lines().filter(|line| line.starts_with('=')).count();
    let mut reader = TableReader {
        schema: Schema {
            nodes: vec![TypeNode::Struct(Struct::default()); structures],
            root: Some(TypeId(0)),
            ..Schema::default()
        },
        structures,
        begun: 0,
        types_by_expr: BTreeMap::new(),
    };
    for (at, line) in table.lines().enumerate() {
        let line_number = at + 1;
        reader.line(line).map_err(|what| SchemaTableError {
            line: line_number,
            what,
        })?;
    }
    reader.finish()
}

struct TableReader {
    schema: Schema,
    structures: usize,
    /// The number of structures that have begun.
    begun: usize,
    /// Types without a name, which are created once per expression.
    types_by_expr: BTreeMap<&'static str, TypeId>,
}

impl TableReader {
    fn line(&mut self, line: &'static str) -> ReadResult<()> {
        match line.as_bytes().first() {
            None | Some(b'#') => Ok(()),
            Some(b'=') => self.begin(&line[1..]),
            Some(b' ') => self.field(&line[1..]),
            Some(b'@') => self.kind(&line[1..]),
            Some(_) => Err("unknown line prefix"),
        }
    }

    fn begin(&mut self, text: &'static str) -> ReadResult<()> {
        let mut words = text.split(' ');
        let mut structure = Struct {
            name: words.next().unwrap_or_default().into(),
            ..Struct::default()
        };
        for word in words {
            match word {
                "!" => structure.atomic = true,
                "?" => structure.unknown = UnknownFields::Kept,
                _ => return Err("unknown struct flag"),
            }
        }
        let node = self.schema.nodes.get_mut(self.begun);
        *node.ok_or("too many structures")? = TypeNode::Struct(structure);
        self.begun += 1;
        Ok(())
    }

    fn field(&mut self, text: &'static str) -> ReadResult<()> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let of = self.type_expr(words.next().ok_or("a field without a type")?)?;
        let mut field = StructField::new(name, of);
        for word in words {
            field_attribute(&mut field, word)?;
        }
        if field.empty_encoding == EmptyEncoding::Zero && field.default.is_none() {
            field.default = self.zero_default(of);
        }
        let current = self
            .begun
            .checked_sub(1)
            .ok_or("a field before a structure")?;
        match &mut self.schema.nodes[current] {
            TypeNode::Struct(structure) => structure.fields.push(field),
            _ => return Err("field outside a struct"),
        }
        Ok(())
    }

    fn kind(&mut self, text: &'static str) -> ReadResult<()> {
        let words: Vec<&'static str> = text.split(' ').collect();
        let [group, version, kind, number] = words[..] else {
            return Err("expected: group, version, kind, struct number");
        };
        let id = self.structure(number)?;
        self.schema.kinds.push(([group, version, kind], id));
        Ok(())
    }

    /// Sorts for the binary searches, whatever the order of the table.
    fn finish(mut self) -> Result<Schema, SchemaTableError> {
        for node in &mut self.schema.nodes[..self.structures] {
            if let TypeNode::Struct(structure) = node {
                structure.fields.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        self.schema.kinds.sort();
        Ok(self.schema)
    }

    fn structure(&self, number: &str) -> ReadResult<TypeId> {
        let number: u32 = number
            .parse()
            .map_err(|_| "not the number of a structure")?;
        let exists = usize::try_from(number).is_ok_and(|number| number < self.structures);
        exists.then_some(TypeId(number)).ok_or("no such structure")
    }

    fn type_expr(&mut self, text: &'static str) -> ReadResult<TypeId> {
        self.type_expr_within(text, TYPE_EXPR_DEPTH_MAX)
    }

    fn type_expr_within(&mut self, text: &'static str, depth: usize) -> ReadResult<TypeId> {
        if let Some(number) = text.strip_prefix('@') {
            return self.structure(number);
        }
        if let Some(id) = self.types_by_expr.get(text) {
            return Ok(*id);
        }
        let depth = depth.checked_sub(1).ok_or("a type spelt too deep")?;
        let node = match text.as_bytes() {
            [b'[', .., b']'] => self.list(&text[1..text.len() - 1], depth)?,
            [b'{', .., b'}'] => self.map(&text[1..text.len() - 1], depth)?,
            _ => scalar(text)?,
        };
        let next = u32::try_from(self.schema.nodes.len()).map_err(|_| "too many types")?;
        let id = TypeId(next);
        self.schema.nodes.push(node);
        self.types_by_expr.insert(text, id);
        Ok(id)
    }

    fn list(&mut self, text: &'static str, depth: usize) -> ReadResult<TypeNode> {
        // A bar after another bracket belongs to a nested list.
        let outer = text.find(['[', '{']).unwrap_or(text.len());
        let bar = text[..outer].find('|');
        let (item, of) = match (bar, text.strip_prefix('=')) {
            (Some(bar), _) => {
                let keys = text[..bar].split(',').map(Text::from).collect();
                (ElementRelationship::Keys(keys), &text[bar + 1..])
            }
            (None, Some(of)) => (ElementRelationship::Value, of),
            (None, None) => (ElementRelationship::Atomic, text),
        };
        let of = self.type_expr_within(of, depth)?;
        Ok(TypeNode::List(ListOf {
            of,
            relationship: item,
        }))
    }

    fn map(&mut self, text: &'static str, depth: usize) -> ReadResult<TypeNode> {
        let stripped = text.strip_prefix('!');
        let value = self.type_expr_within(stripped.unwrap_or(text), depth)?;
        let atomic = stripped.is_some();
        Ok(TypeNode::Map(MapOf { value, atomic }))
    }

    /// The default of a scalar that is written when empty: its zero value.
    fn zero_default(&self, of: TypeId) -> Option<Value> {
        match self.schema.at(of).node() {
            TypeNode::Scalar(Scalar::String) => Some("".into()),
            TypeNode::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number) => Some(0.into()),
            TypeNode::Scalar(Scalar::Boolean) => Some(false.into()),
            _ => None,
        }
    }
}

fn scalar(text: &str) -> ReadResult<TypeNode> {
    Ok(match text {
        "s" => TypeNode::Scalar(Scalar::String),
        "i" => TypeNode::Scalar(Scalar::Int32),
        "l" => TypeNode::Scalar(Scalar::Int64),
        "n" => TypeNode::Scalar(Scalar::Number),
        "b" => TypeNode::Scalar(Scalar::Boolean),
        "x" => TypeNode::Scalar(Scalar::IntOrString),
        "q" => TypeNode::Scalar(Scalar::Quantity),
        "t" => TypeNode::Scalar(Scalar::DateTime),
        "y" => TypeNode::Scalar(Scalar::Bytes),
        "u" => TypeNode::Untyped(Untyped::Deduced),
        "r" => TypeNode::Untyped(Untyped::Atomic),
        _ => return Err("unknown type"),
    })
}

fn field_attribute(field: &mut StructField, word: &'static str) -> ReadResult<()> {
    let PatchStrategy {
        merge,
        replace,
        retain_keys,
        key,
    } = &mut field.patch_strategy;
    match word.split_once('=') {
        None => match word {
            "+" => field.required = true,
            "z" => field.empty_encoding = EmptyEncoding::Zero,
            "n" => field.empty_encoding = EmptyEncoding::Null,
            "merge" => *merge = true,
            "replace" => *replace = true,
            "retainKeys" => *retain_keys = true,
            _ => return Err("unknown field attribute"),
        },
        Some(("d", json)) => {
            let value = serde_json::from_str(json).map_err(|_| "a default that is not JSON")?;
            field.default = Some(value);
        }
        Some(("key", name)) => *key = name.into(),
        Some(_) => return Err("unknown field attribute"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_table_errors_name_the_line() {
        for (table, line, what) in [
            ("x", 1, "unknown line prefix"),
            (" a s", 1, "a field before a structure"),
            ("=A\n a", 2, "a field without a type"),
            ("=A\n a w", 2, "unknown type"),
            ("=A\n a @1", 2, "no such structure"),
            (
                "=A\n a [[[[[[[[[[[[[[[[[[s]]]]]]]]]]]]]]]]]]",
                2,
                "a type spelt too deep",
            ),
            ("=A\n a s nonsense", 2, "unknown field attribute"),
            ("=A\n a s d={", 2, "a default that is not JSON"),
            ("=A x", 1, "unknown struct flag"),
            (
                "=A\n@a b",
                2,
                "expected: group, version, kind, struct number",
            ),
        ] {
            assert_eq!(
                parse(table),
                Err(SchemaTableError { line, what }),
                "{table}"
            );
        }
    }

    #[test]
    fn schema_table_is_parsed() {
        let schema = parse("=A ? !\n b [k,l|@0] + z\n a {!s} d=\"x\" merge key=k").unwrap();
        let root = schema.root().as_struct().unwrap();
        assert!(root.atomic && root.unknown == UnknownFields::Kept);
        let names: Vec<&str> = root.fields().iter().map(|f| f.name.as_ref()).collect();
        assert_eq!(names, ["a", "b"], "sorted");
        let list = schema.at(root.fields()[1].of).node();
        let keys = ElementRelationship::Keys(vec!["k".into(), "l".into()]);
        assert_eq!(
            list,
            &TypeNode::List(ListOf {
                of: TypeId(0),
                relationship: keys
            })
        );
        assert_eq!(root.fields()[0].default, Some("x".into()));
        assert!(
            root.fields()[0].patch_strategy.merge && root.fields()[0].patch_strategy.key == "k"
        );
    }
}
