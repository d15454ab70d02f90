//! A document under modification by a JSON Patch.
//!
//! One patch may insert and remove an item at the front of a list of a million items ten thousand
//! times. So the containers on the path of an operation are expanded: a list into chunks, in which
//! an item moves only its neighbours. Each level is expanded once and collapsed once, so the total
//! work is linear in the size of the expanded containers.

use optik_object::{Map, Value};
use std::collections::BTreeMap;

/// The initial number of items of a chunk; with twice as many it is split.
const CHUNK_ITEMS: usize = 512;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum DocumentNode {
    /// A value that has not been expanded.
    Plain(Value),
    Members(BTreeMap<String, DocumentNode>),
    Items(ChunkedList),
}

/// An expanded container.
pub(super) enum Container<'d> {
    Members(&'d mut BTreeMap<String, DocumentNode>),
    Items(&'d mut ChunkedList),
}

impl DocumentNode {
    /// Expands a container; `None` if the value is a scalar.
    pub(super) fn expand(&mut self) -> Option<Container<'_>> {
        if let Self::Plain(value) = self {
            *self = match std::mem::take(value) {
                Value::Object(members) => {
                    let members = members.into_iter();
                    Self::Members(members.map(|(k, v)| (k, Self::Plain(v))).collect())
                }
                Value::Array(items) => Self::Items(ChunkedList::from_values(items)),
                other => Self::Plain(other),
            };
        }
        match self {
            Self::Plain(_) => None,
            Self::Members(members) => Some(Container::Members(members)),
            Self::Items(items) => Some(Container::Items(items)),
        }
    }

    pub(super) fn collapse(self) -> Value {
        match self {
            Self::Plain(value) => value,
            Self::Members(members) => {
                let members = members.into_iter().map(|(k, v)| (k, v.collapse()));
                Value::Object(members.collect::<Map>())
            }
            Self::Items(items) => {
                let mut values = Vec::with_capacity(items.len());
                let chunks = items.chunks.into_iter();
                chunks.for_each(|chunk| values.extend(chunk.into_iter().map(Self::collapse)));
                Value::Array(values)
            }
        }
    }

    pub(super) fn is_container(&self) -> bool {
        match self {
            Self::Plain(value) => value.is_object() || value.is_array(),
            Self::Members(_) | Self::Items(_) => true,
        }
    }

    pub(super) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Plain(value), other) => value == other,
            (Self::Members(members), Value::Object(others)) => {
                let mut pairs = members.iter().zip(others);
                members.len() == others.len()
                    && pairs.all(|((key, node), (other_key, other))| {
                        key == other_key && node.equals(other)
                    })
            }
            (Self::Items(items), Value::Array(others)) => {
                let mut pairs = items.iter().zip(others);
                items.len() == others.len() && pairs.all(|(node, other)| node.equals(other))
            }
            _ => false,
        }
    }

    /// The depth of the innermost value in the node, in containers.
    pub(super) fn depth(&self, counted: &mut usize) -> usize {
        *counted += 1;
        let mut deepest = 0;
        match self {
            Self::Plain(value) => {
                *counted -= 1;
                return depth(value, counted);
            }
            Self::Members(members) => {
                members
                    .values()
                    .for_each(|node| deepest = deepest.max(node.depth(counted)));
            }
            Self::Items(items) => {
                items
                    .iter()
                    .for_each(|node| deepest = deepest.max(node.depth(counted)));
            }
        }
        1 + deepest
    }
}

fn depth(value: &Value, counted: &mut usize) -> usize {
    *counted += 1;
    let inner = match value {
        Value::Array(items) => items.iter().map(|it| depth(it, counted)).max(),
        Value::Object(members) => members.values().map(|it| depth(it, counted)).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// A list in non-empty chunks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ChunkedList {
    chunks: Vec<Vec<DocumentNode>>,
    count: usize,
}

impl ChunkedList {
    fn from_values(values: Vec<Value>) -> Self {
        let count = values.len();
        let mut chunks = Vec::with_capacity(count.div_ceil(CHUNK_ITEMS));
        let mut nodes = values.into_iter().map(DocumentNode::Plain);
        while nodes.len() > 0 {
            chunks.push(nodes.by_ref().take(CHUNK_ITEMS).collect());
        }
        Self { chunks, count }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn iter(&self) -> impl Iterator<Item = &DocumentNode> {
        self.chunks.iter().flatten()
    }

    /// The chunk of an item, and the index in the chunk. The index after the last item is at the
    /// end of the last chunk.
    fn find(&self, mut at: usize) -> (usize, usize) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            let is_last = number + 1 == self.chunks.len();
            if at < chunk.len() || (is_last && at == chunk.len()) {
                return (number, at);
            }
            at -= chunk.len();
        }
        (0, 0)
    }

    /// The item at an existing index.
    pub(super) fn at(&mut self, at: usize) -> &mut DocumentNode {
        let (number, at) = self.find(at);
        &mut self.chunks[number][at]
    }

    pub(super) fn insert(&mut self, at: usize, node: DocumentNode) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        let (number, at) = self.find(at);
        let chunk = &mut self.chunks[number];
        chunk.insert(at, node);
        self.count += 1;
        if chunk.len() > 2 * CHUNK_ITEMS {
            let rest = chunk.split_off(CHUNK_ITEMS);
            self.chunks.insert(number + 1, rest);
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> DocumentNode {
        let (number, at) = self.find(at);
        let chunk = &mut self.chunks[number];
        let node = chunk.remove(at);
        if chunk.is_empty() {
            self.chunks.remove(number);
        }
        self.count -= 1;
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn chunked_list_behaves_as_a_vector(
            count in 0usize..3_000,
            edits in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..3_000),
        ) {
            let mut vector: Vec<Value> = (0..count).map(Value::from).collect();
            let mut items = ChunkedList::from_values(vector.clone());
            for (number, (inserts, index)) in edits.into_iter().enumerate() {
                if inserts || vector.is_empty() {
                    let at = index.index(vector.len() + 1);
                    vector.insert(at, json!({"new": number}));
                    items.insert(at, DocumentNode::Plain(json!({"new": number})));
                } else {
                    let at = index.index(vector.len());
                    prop_assert!(items.at(at).equals(&vector[at]));
                    prop_assert_eq!(items.remove(at).collapse(), vector.remove(at));
                }
                prop_assert_eq!(items.len(), vector.len());
            }
            prop_assert_eq!(DocumentNode::Items(items).collapse(), Value::Array(vector));
        }
    }
}
