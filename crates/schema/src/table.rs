//! Reads a table of types.
//!
//! ```text
//! =v1.PodSpec                                      a structure; `!` atomic, `?` keeps unknown
//!  containers [name|@1] + n merge key=name         its fields: name, type, facts
//!  dnsPolicy s
//! =v1.Container                                    structure number 1
//!  name s + z
//! @ v1 Pod 0                                       group (here empty), version, kind, number
//! ```
//!
//! Types: `s` string, `i` int32, `l` int64, `n` number, `b` boolean, `x` int or string,
//! `q` quantity, `t` date and time, `y` bytes, `u` deduced, `r` untyped and atomic, `@3` a
//! structure, `{T}` a map (`{!T}` atomic), `[T]` an atomic list, `[=T]` a set,
//! `[key,key|T]` a keyed list.
//!
//! Facts: `+` required, `z` written as zero when empty, `n` written as null when empty,
//! `d=…` default as JSON, `merge`, `replace`, `retainKeys`, `key=…` for strategic patches.

use crate::node::{
    Field, Item, List, MapOf, Merge, Node, Scalar, Struct, Text, TypeId, Unknown, Untyped, Written,
};
use crate::schema::Schema;
use optik_object::Value;
use std::collections::BTreeMap;

/// How deep a type may be spelt; deeper ones go through structures.
const SPELLING_DEPTH_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the table: {what}")]
pub struct TableError {
    pub line: usize,
    pub what: &'static str,
}

type Step<T> = Result<T, &'static str>;

/// Structures come first in the schema, so that `@3` is number 3 before it is read.
pub(crate) fn parse(table: &'static str) -> Result<Schema, TableError> {
    let structures = table.lines().filter(|line| line.starts_with('=')).count();
    let mut reader = Reader {
        schema: Schema {
            nodes: vec![Node::Struct(Struct::default()); structures],
            root: Some(TypeId(0)),
            ..Schema::default()
        },
        structures,
        begun: 0,
        spelt: BTreeMap::new(),
    };
    for (at, line) in table.lines().enumerate() {
        let line_number = at + 1;
        reader.line(line).map_err(|what| TableError {
            line: line_number,
            what,
        })?;
    }
    reader.finish()
}

struct Reader {
    schema: Schema,
    structures: usize,
    /// How many of the structures have begun.
    begun: usize,
    /// Types without a name are made once.
    spelt: BTreeMap<&'static str, TypeId>,
}

impl Reader {
    fn line(&mut self, line: &'static str) -> Step<()> {
        match line.as_bytes().first() {
            None | Some(b'#') => Ok(()),
            Some(b'=') => self.begin(&line[1..]),
            Some(b' ') => self.field(&line[1..]),
            Some(b'@') => self.kind(&line[1..]),
            Some(_) => Err("unknown beginning"),
        }
    }

    fn begin(&mut self, text: &'static str) -> Step<()> {
        let mut words = text.split(' ');
        let mut structure = Struct {
            name: words.next().unwrap_or_default().into(),
            ..Struct::default()
        };
        for word in words {
            match word {
                "!" => structure.atomic = true,
                "?" => structure.unknown = Unknown::Kept,
                _ => return Err("unknown property of a structure"),
            }
        }
        let node = self.schema.nodes.get_mut(self.begun);
        *node.ok_or("too many structures")? = Node::Struct(structure);
        self.begun += 1;
        Ok(())
    }

    fn field(&mut self, text: &'static str) -> Step<()> {
        let mut words = text.split(' ');
        let name = words.next().unwrap_or_default();
        let of = self.spelt(words.next().ok_or("a field without a type")?)?;
        let mut field = Field::new(name, of);
        for word in words {
            fact(&mut field, word)?;
        }
        if field.written == Written::Zero && field.default.is_none() {
            field.default = self.zero(of);
        }
        let current = self
            .begun
            .checked_sub(1)
            .ok_or("a field before a structure")?;
        match &mut self.schema.nodes[current] {
            Node::Struct(structure) => structure.fields.push(field),
            _ => return Err("a field outside a structure"),
        }
        Ok(())
    }

    fn kind(&mut self, text: &'static str) -> Step<()> {
        let words: Vec<&'static str> = text.split(' ').collect();
        let [group, version, kind, number] = words[..] else {
            return Err("a kind is group, version, kind, number");
        };
        let id = self.structure(number)?;
        self.schema.kinds.push(([group, version, kind], id));
        Ok(())
    }

    /// Sorted for the binary searches, whatever the table's order is.
    fn finish(mut self) -> Result<Schema, TableError> {
        for node in &mut self.schema.nodes[..self.structures] {
            if let Node::Struct(structure) = node {
                structure.fields.sort_by(|a, b| a.name.cmp(&b.name));
            }
        }
        self.schema.kinds.sort();
        Ok(self.schema)
    }

    fn structure(&self, number: &str) -> Step<TypeId> {
        let number: u32 = number
            .parse()
            .map_err(|_| "not the number of a structure")?;
        let exists = usize::try_from(number).is_ok_and(|number| number < self.structures);
        exists.then_some(TypeId(number)).ok_or("no such structure")
    }

    fn spelt(&mut self, text: &'static str) -> Step<TypeId> {
        self.spelt_within(text, SPELLING_DEPTH_MAX)
    }

    fn spelt_within(&mut self, text: &'static str, depth: usize) -> Step<TypeId> {
        if let Some(number) = text.strip_prefix('@') {
            return self.structure(number);
        }
        if let Some(id) = self.spelt.get(text) {
            return Ok(*id);
        }
        let depth = depth.checked_sub(1).ok_or("a type spelt too deep")?;
        let node = match text.as_bytes() {
            [b'[', .., b']'] => self.list(&text[1..text.len() - 1], depth)?,
            [b'{', .., b'}'] => self.map(&text[1..text.len() - 1], depth)?,
            _ => plain(text)?,
        };
        let next = u32::try_from(self.schema.nodes.len()).map_err(|_| "too many types")?;
        let id = TypeId(next);
        self.schema.nodes.push(node);
        self.spelt.insert(text, id);
        Ok(id)
    }

    fn list(&mut self, text: &'static str, depth: usize) -> Step<Node> {
        // A bar further in belongs to a list of the items.
        let outer = text.find(['[', '{']).unwrap_or(text.len());
        let bar = text[..outer].find('|');
        let (item, of) = match (bar, text.strip_prefix('=')) {
            (Some(bar), _) => {
                let keys = text[..bar].split(',').map(Text::from).collect();
                (Item::Keys(keys), &text[bar + 1..])
            }
            (None, Some(of)) => (Item::Value, of),
            (None, None) => (Item::Atomic, text),
        };
        let of = self.spelt_within(of, depth)?;
        Ok(Node::List(List { of, item }))
    }

    fn map(&mut self, text: &'static str, depth: usize) -> Step<Node> {
        let stripped = text.strip_prefix('!');
        let value = self.spelt_within(stripped.unwrap_or(text), depth)?;
        let atomic = stripped.is_some();
        Ok(Node::Map(MapOf { value, atomic }))
    }

    /// The default that a scalar has because it is written when empty.
    fn zero(&self, of: TypeId) -> Option<Value> {
        match self.schema.at(of).node() {
            Node::Scalar(Scalar::String) => Some("".into()),
            Node::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Number) => Some(0.into()),
            Node::Scalar(Scalar::Boolean) => Some(false.into()),
            _ => None,
        }
    }
}

fn plain(text: &str) -> Step<Node> {
    Ok(match text {
        "s" => Node::Scalar(Scalar::String),
        "i" => Node::Scalar(Scalar::Int32),
        "l" => Node::Scalar(Scalar::Int64),
        "n" => Node::Scalar(Scalar::Number),
        "b" => Node::Scalar(Scalar::Boolean),
        "x" => Node::Scalar(Scalar::IntOrString),
        "q" => Node::Scalar(Scalar::Quantity),
        "t" => Node::Scalar(Scalar::DateTime),
        "y" => Node::Scalar(Scalar::Bytes),
        "u" => Node::Untyped(Untyped::Deduced),
        "r" => Node::Untyped(Untyped::Atomic),
        _ => return Err("unknown type"),
    })
}

fn fact(field: &mut Field, word: &'static str) -> Step<()> {
    let Merge {
        merge,
        replace,
        retain_keys,
        key,
    } = &mut field.merge;
    match word.split_once('=') {
        None => match word {
            "+" => field.required = true,
            "z" => field.written = Written::Zero,
            "n" => field.written = Written::Null,
            "merge" => *merge = true,
            "replace" => *replace = true,
            "retainKeys" => *retain_keys = true,
            _ => return Err("unknown fact"),
        },
        Some(("d", json)) => {
            let value = serde_json::from_str(json).map_err(|_| "a default that is not JSON")?;
            field.default = Some(value);
        }
        Some(("key", name)) => *key = name.into(),
        Some(_) => return Err("unknown fact"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (table, line, what) in [
            ("x", 1, "unknown beginning"),
            (" a s", 1, "a field before a structure"),
            ("=A\n a", 2, "a field without a type"),
            ("=A\n a w", 2, "unknown type"),
            ("=A\n a @1", 2, "no such structure"),
            (
                "=A\n a [[[[[[[[[[[[[[[[[[s]]]]]]]]]]]]]]]]]]",
                2,
                "a type spelt too deep",
            ),
            ("=A\n a s nonsense", 2, "unknown fact"),
            ("=A\n a s d={", 2, "a default that is not JSON"),
            ("=A x", 1, "unknown property of a structure"),
            ("=A\n@a b", 2, "a kind is group, version, kind, number"),
        ] {
            assert_eq!(parse(table), Err(TableError { line, what }), "{table}");
        }
    }

    #[test]
    fn what_is_right_is_read() {
        let schema = parse("=A ? !\n b [k,l|@0] + z\n a {!s} d=\"x\" merge key=k").unwrap();
        let root = schema.root().as_struct().unwrap();
        assert!(root.atomic && root.unknown == Unknown::Kept);
        let names: Vec<&str> = root.fields().iter().map(|f| f.name.as_ref()).collect();
        assert_eq!(names, ["a", "b"], "sorted");
        let list = schema.at(root.fields()[1].of).node();
        let keys = Item::Keys(vec!["k".into(), "l".into()]);
        assert_eq!(
            list,
            &Node::List(List {
                of: TypeId(0),
                item: keys
            })
        );
        assert_eq!(root.fields()[0].default, Some("x".into()));
        assert!(root.fields()[0].merge.merge && root.fields()[0].merge.key == "k");
    }
}
