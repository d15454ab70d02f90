//! What is about to happen.

use super::Told;
use crate::exchange::User;
use crate::kinds::{Kind, Kinds};
use crate::write::{DeleteOptions, WriteOptions};
use optik_object::{Object, Value};
use optik_platform::Entropy;
use optik_store::Store;
use serde_json::json;
use std::sync::Arc;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
}

/// A write, as those see it who have a say in it.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    pub(crate) operation: Operation,
    /// The kinds of the request's moment.
    pub(crate) kinds: &'a Kinds,
    /// What the path of the request names.
    pub(crate) kind: &'a Arc<Kind>,
    /// `status`; empty for the resource itself.
    pub(crate) subresource: &'a str,
    /// What the object is: `Scale` for a `scale`, otherwise `kind`.
    pub(crate) of: &'a Arc<Kind>,
    /// Empty if it is not known yet, or for each object of a collection.
    pub(crate) name: &'a str,
    /// That of a namespace is its name; empty for other objects of the cluster.
    pub(crate) namespace: &'a str,
    /// What is there, with its revision.
    pub(crate) old: Option<&'a Object>,
    pub(crate) wish: Wish<'a>,
    pub(crate) user: &'a User,
    pub(crate) store: &'a Store,
    pub(crate) entropy: &'a dyn Entropy,
    /// Where warnings and audit annotations go.
    pub(crate) told: &'a Told,
}

impl Attributes<'_> {
    pub(crate) fn dry_run(&self) -> bool {
        match self.wish {
            Wish::Write(options) => options.dry_run,
            Wish::Delete(options) => options.dry_run,
        }
    }

    /// `pods`, `pods/status` and the like of a group.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.kind.resource.group == group && self.kind.resource.plural == plural
    }

    /// Whether it is about a namespace itself.
    pub(crate) fn is_namespace(&self) -> bool {
        self.is("", "namespaces")
    }

    /// The options as an object of `meta.k8s.io/v1`.
    pub(crate) fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        match self.wish {
            Wish::Write(wish) => wish.describe(&mut options),
            Wish::Delete(wish) => wish.describe(&mut options),
        }
        if self.dry_run() {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}
