//! Paths in values and schemas, rendered as text only when needed.

use std::fmt::Write;

/// A path as a step from its parent.
#[derive(Clone, Copy)]
pub(super) struct StructuralPath<'a> {
    parent: Option<&'a StructuralPath<'a>>,
    step: StructuralPathStep<'a>,
}

#[derive(Clone, Copy)]
enum StructuralPathStep<'a> {
    /// The text at the start of a path; may be empty.
    Root(&'a str),
    /// `.name`
    Member(&'a str),
    /// `[name]`
    Key(&'a str),
    /// `[3]`
    Index(usize),
}

impl<'a> StructuralPath<'a> {
    pub(super) const fn root(text: &'a str) -> Self {
        Self {
            parent: None,
            step: StructuralPathStep::Root(text),
        }
    }

    pub(super) const fn member(&'a self, name: &'a str) -> Self {
        self.step(StructuralPathStep::Member(name))
    }

    pub(super) const fn key(&'a self, name: &'a str) -> Self {
        self.step(StructuralPathStep::Key(name))
    }

    pub(super) const fn index(&'a self, index: usize) -> Self {
        self.step(StructuralPathStep::Index(index))
    }

    const fn step(&'a self, step: StructuralPathStep<'a>) -> Self {
        Self {
            parent: Some(self),
            step,
        }
    }

    /// Renders the path: `spec.ports[1].name`. Empty for a root without text.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            StructuralPathStep::Root(text) => out.push_str(text),
            StructuralPathStep::Member(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            StructuralPathStep::Key(name) => {
                let _ = write!(out, "[{name}]");
            }
            StructuralPathStep::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

/// What Go prints for a nil path.
pub(super) const NIL_PATH: &str = "<nil>";
