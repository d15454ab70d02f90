//! Where in an object something is. A path is spelt only if something is wrong there.

use std::fmt;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Member(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    pub(crate) const fn root(member: &'a str) -> Self {
        Self {
            parent: None,
            step: Step::Member(member),
        }
    }

    pub(crate) fn child<'b>(&'b self, member: &'b str) -> Path<'b> {
        self.step(Step::Member(member))
    }

    pub(crate) fn index(&self, at: usize) -> Path<'_> {
        self.step(Step::Index(at))
    }

    pub(crate) fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        self.step(Step::Key(key))
    }

    fn step<'b>(&'b self, step: Step<'b>) -> Path<'b> {
        Path {
            parent: Some(self),
            step,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Member(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Member(name) => f.write_str(name),
            Step::Index(at) => write!(f, "[{at}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelt_as_kubernetes_does() {
        let spec = Path::root("spec");
        let list = spec.child("containers");
        let first = list.index(0);
        assert_eq!(first.child("name").to_string(), "spec.containers[0].name");
        assert_eq!(spec.key("a/b").to_string(), "spec[a/b]");
    }
}
