//! Admission attributes: the description of a write that admission plugins receive.

use crate::admission::WarningRecorder;
use crate::handlers::write::{DeleteOptions, WriteOptions};
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::http_types::User;
use optik_object::{Object, Value};
use optik_platform::Entropy;
use optik_store::Store;
use serde_json::json;
use std::sync::Arc;

/// The operation of a write.
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

/// A write, as admission plugins see it.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionAttributes<'a> {
    pub(crate) operation: AdmissionOperation,
    /// The resource registry at the time of the request.
    pub(crate) registry: &'a ResourceRegistry,
    /// The resource that the request path names.
    pub(crate) resource: &'a Arc<ServedResource>,
    /// `status`; empty for the resource itself.
    pub(crate) subresource: &'a str,
    /// The kind of the object: `Scale` for a `scale`, otherwise `kind`.
    pub(crate) object_kind: &'a Arc<ServedResource>,
    /// Empty if it is not known yet, and for a whole collection.
    pub(crate) name: &'a str,
    /// For a Namespace object its own name; empty for other cluster-scoped objects.
    pub(crate) namespace: &'a str,
    /// The live object, with its revision.
    pub(crate) old: Option<&'a Object>,
    pub(crate) operation_options: OperationOptions<'a>,
    pub(crate) user: &'a User,
    pub(crate) store: &'a Store,
    pub(crate) entropy: &'a dyn Entropy,
    /// Collects warnings and audit annotations.
    pub(crate) recorder: &'a WarningRecorder,
}

impl AdmissionAttributes<'_> {
    pub(crate) fn dry_run(&self) -> bool {
        match self.operation_options {
            OperationOptions::Write(options) => options.dry_run,
            OperationOptions::Delete(options) => options.dry_run,
        }
    }

    /// Whether the resource is the given one, subresources included.
    pub(crate) fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.resource.resource.group == group && self.resource.resource.plural == plural
    }

    /// Whether the write is to a Namespace object.
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
