//! Field sets: the paths of the fields that a manager owns.
//!
//! A set is a trie. Each step is a [`PathElement`]; a node is a member of the set, or only on the
//! path to members. `spec.containers[name="a"]` and its `image` make
//!
//! ```text
//! .spec ─ .containers ─ [name="a"] (member) ─ .image (member)
//! ```

mod algebra;
mod element;
mod fields_v1;

pub use element::PathElement;
pub use fields_v1::FieldsV1Error;

use std::fmt;

/// A set of paths. Sorted on each level: fields, keys, values, indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) nodes: Vec<FieldNode>,
}

/// A node of the trie. It is a member, or a node below it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldNode {
    pub(crate) element: PathElement,
    pub(crate) is_member: bool,
    pub(crate) below: FieldSet,
}

impl FieldSet {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A set of fields, each given by the names on its path.
    #[must_use]
    pub fn from_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        let nodes = self.nodes.iter();
        nodes
            .map(|node| usize::from(node.is_member) + node.below.len())
            .sum()
    }

    /// Adds a path. The empty path, the whole object, cannot be added.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let at = match self.place(first) {
            Ok(at) => at,
            Err(at) => {
                let node = FieldNode {
                    element: first.clone(),
                    is_member: false,
                    below: Self::new(),
                };
                self.nodes.insert(at, node);
                at
            }
        };
        if rest.is_empty() {
            self.nodes[at].is_member = true;
        } else {
            self.nodes[at].below.insert(rest);
        }
    }

    #[must_use]
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.node(last).is_some_and(|node| node.is_member),
            [first, rest @ ..] => self
                .node(first)
                .is_some_and(|node| node.below.contains(rest)),
        }
    }

    /// The subset below an element.
    #[must_use]
    pub fn with_prefix(&self, element: &PathElement) -> Option<&Self> {
        self.node(element).map(|node| &node.below)
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&FieldNode> {
        self.place(element).ok().map(|at| &self.nodes[at])
    }

    fn place(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes
            .binary_search_by(|node| node.element.cmp(element))
    }

    /// A set of nodes in any order; the elements must be unique.
    pub(crate) fn from_unique_nodes(mut nodes: Vec<FieldNode>) -> Self {
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes.sort_by(|a, b| a.element.cmp(&b.element));
        }
        Self { nodes }
    }

    /// Calls `visit` for every member. On each level, members that end there come first.
    pub fn for_each(&self, mut visit: impl FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), &mut visit);
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.is_member) {
            path.push(node.element.clone());
            visit(path);
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.below.is_empty()) {
            path.push(node.element.clone());
            node.below.walk(path, visit);
            path.pop();
        }
    }

    /// The members in the form of conflicts: `.spec.containers[name="a"].image`.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.for_each(|path| paths.push(path.iter().map(ToString::to_string).collect()));
        paths
    }
}

/// One line, for debugging.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.paths().join(" "))
    }
}
