//! What is about to happen.

use crate::admission::WarningRecorder;
use crate::handlers::write::{DeleteOptions, WriteOptions};
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::http_types::User;
use optik_object::{Object, Value};
use optik_platform::Entropy;
use optik_store::Store;
use serde_json::json;
use std::sync::Arc;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
}

impl AdmissionOperation {
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
pub(crate) enum OperationOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
}

/// A write, as those see it who have a say in it.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionAttributes<'a> {
    pub(crate) operation: AdmissionOperation,
    /// The kinds of the request's moment.
    pub(crate) registry: &'a ResourceRegistry,
    /// What the path of the request names.
    pub(crate) resource: &'a Arc<ServedResource>,
    /// `status`; empty for the resource itself.
    pub(crate) subresource: &'a str,
    /// What the object is: `Scale` for a `scale`, otherwise `kind`.
    pub(crate) object_kind: &'a Arc<ServedResource>,
    /// Empty if it is not known yet, or for each object of a collection.
    pub(crate) name: &'a str,
    /// That of a namespace is its name; empty for other objects of the cluster.
    pub(crate) namespace: &'a str,
    /// What is there, with its revision.
    pub(crate) old: Option<&'a Object>,
    pub(crate) operation_options: OperationOptions<'a>,
    pub(crate) user: &'a User,
    pub(crate) store: &'a Store,
    pub(crate) entropy: &'a dyn Entropy,
    /// Where warnings and audit annotations go.
    pub(crate) recorder: &'a WarningRecorder,
}

impl AdmissionAttributes<'_> {
    pub(crate) fn dry_run(&self) -> bool {
        match self.operation_options {
            OperationOptions::Write(options) => options.dry_run,
            OperationOptions::Delete(options) => options.dry_run,
        }
    }

    /// `pods`, `pods/status` and the like of a group.
    pub(crate) fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.resource.resource.group == group && self.resource.resource.plural == plural
    }

    /// Whether it is about a namespace itself.
    pub(crate) fn is_namespace(&self) -> bool {
        self.is_resource("", "namespaces")
    }

    /// The options as an object of `meta.k8s.io/v1`.
    pub(crate) fn options_object(&self) -> Value {
        let kind = match self.operation {
            AdmissionOperation::Create => "CreateOptions",
            AdmissionOperation::Update => "UpdateOptions",
            AdmissionOperation::Delete => "DeleteOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        match self.operation_options {
            OperationOptions::Write(wish) => wish.add_to_document(&mut options),
            OperationOptions::Delete(wish) => wish.describe(&mut options),
        }
        if self.dry_run() {
            options["dryRun"] = json!(["All"]);
        }
        options
    }
}
