//! Field paths in validation errors. A path is formatted only if there is an error.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: FieldPathElement<'a>,
}

#[derive(Clone, Copy, Debug)]
enum FieldPathElement<'a> {
    Member(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    pub(crate) const fn root(member: &'a str) -> Self {
        Self {
            parent: None,
            step: FieldPathElement::Member(member),
        }
    }

    pub(crate) fn child<'b>(&'b self, member: &'b str) -> FieldPath<'b> {
        self.step(FieldPathElement::Member(member))
    }

    pub(crate) fn index(&self, at: usize) -> FieldPath<'_> {
        self.step(FieldPathElement::Index(at))
    }

    pub(crate) fn key<'b>(&'b self, key: &'b str) -> FieldPath<'b> {
        self.step(FieldPathElement::Key(key))
    }

    fn step<'b>(&'b self, step: FieldPathElement<'b>) -> FieldPath<'b> {
        FieldPath {
            parent: Some(self),
            step,
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            FieldPathElement::Member(name) if self.parent.is_some() => write!(f, ".{name}"),
            FieldPathElement::Member(name) => f.write_str(name),
            FieldPathElement::Index(at) => write!(f, "[{at}]"),
            FieldPathElement::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_path_format_matches_kubernetes() {
        let spec = FieldPath::root("spec");
        let list = spec.child("containers");
        let first = list.index(0);
        assert_eq!(first.child("name").to_string(), "spec.containers[0].name");
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
    }
}
