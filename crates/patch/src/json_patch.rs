//! JSON Patch (RFC 6902), with Kubernetes' deviations: replacing a missing member adds it, negative
//! indices count from the end, and any text may precede the first slash of a path.

mod document;
mod pointer;

use crate::StrictDecoding;
use crate::go::strict_error;
use document::{Container, DocumentNode};
use optik_object::{DEPTH_MAX, Status, Value, json_type, parse};
use pointer::Pointer;

const OPERATIONS_MAX: usize = 10_000;
/// The maximum number of bytes that the `copy` operations of a patch may add.
const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The maximum number of values visited to compute depths. Without it, moving a large value back
/// and forth would visit it ten thousand times.
const COUNTED_VALUES_MAX: usize = 8_000_000;

/// A decoded patch.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Value>,
    /// `json patch unknown field "[0].bogus"`; empty if strict decoding is off.
    pub strict_errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    #[error("{0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {operations}")]
    TooManyOperations { operations: usize },
    /// An operation failed. The reason is not sent to clients.
    #[error("operation {operation}: {why}")]
    Rejected { operation: usize, why: Rejection },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("unknown operation")]
    UnknownOperation,
    #[error("op, path or from is missing or not a string")]
    MissingMember,
    #[error("path not found")]
    NoSuchPath,
    #[error("test failed: value differs")]
    TestFailed,
    #[error("document must be an object or an array")]
    NotADocument,
    #[error("copy operations exceed the size limit")]
    CopiesTooMuch,
    #[error("exceeded max depth")]
    TooDeep,
}

impl JsonPatchError {
    /// The `Status` for the client.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Malformed(text) => Status::bad_request(text.as_str()),
            Self::TooManyOperations { .. } => Status::too_large(&self.to_string()),
            Self::Rejected { .. } => Status::patch_rejected(),
        }
    }
}

impl JsonPatch {
    /// Decodes a body.
    pub fn decode(body: &[u8], checks: StrictDecoding) -> Result<Self, JsonPatchError> {
        let malformed = |text: String| {
            JsonPatchError::Malformed(match checks {
                StrictDecoding::On => format!("error decoding patch: {text}"),
                StrictDecoding::Off => text,
            })
        };
        let parsed = parse(body).map_err(|error| malformed(error.to_string()))?;
        let (list, item) = match checks {
            StrictDecoding::On => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            StrictDecoding::Off => ("jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let misfit = |value: &Value, wanted: &str| {
            let found = json_type(value);
            malformed(format!(
                "json: cannot unmarshal {found} into Go value of type {wanted}"
            ))
        };
        let operations = match parsed.value {
            Value::Null => Vec::new(),
            Value::Array(operations) => operations,
            other => return Err(misfit(&other, list)),
        };
        for operation in &operations {
            match operation {
                Value::Null => {}
                Value::Object(_) if checks == StrictDecoding::Off => {}
                Value::Object(_) => check_members(operation).map_err(malformed)?,
                other => return Err(misfit(other, item)),
            }
        }
        let complaints = match checks {
            StrictDecoding::On => strict_errors(&operations, &parsed.duplicates),
            StrictDecoding::Off => Vec::new(),
        };
        if operations.len() > OPERATIONS_MAX {
            let operations = operations.len();
            return Err(JsonPatchError::TooManyOperations { operations });
        }
        Ok(Self {
            operations,
            strict_errors: complaints,
        })
    }

    /// Applies all operations, or none.
    pub fn apply(&self, document: Value) -> Result<Value, JsonPatchError> {
        let mut run = JsonPatchRun {
            document: DocumentNode::Plain(document),
            copied_bytes: 0,
            counted: 0,
        };
        for (at, operation) in self.operations.iter().enumerate() {
            let done = run.apply(operation);
            done.map_err(|why| JsonPatchError::Rejected { operation: at, why })?;
        }
        Ok(run.document.collapse())
    }
}

const MEMBERS: [&str; 4] = ["op", "path", "from", "value"];

/// Checks that `op`, `path` and `from` are strings.
fn check_members(operation: &Value) -> Result<(), String> {
    for name in &MEMBERS[..3] {
        match operation.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type \
                     string",
                    json_type(other)
                ));
            }
        }
    }
    Ok(())
}

/// Duplicate members, then unknown ones. A duplicate unknown member is reported only as unknown.
fn strict_errors(operations: &[Value], duplicates: &[String]) -> Vec<String> {
    let unknown = operations.iter().enumerate().flat_map(|(at, operation)| {
        let members = operation.as_object().into_iter().flatten();
        let names = members.map(|(name, _)| name.as_str());
        names
            .filter(|name| !MEMBERS.contains(name))
            .map(move |name| format!("[{at}].{name}"))
    });
    let unknown: Vec<String> = unknown.take(100).collect();
    let duplicates = duplicates.iter().filter(|path| !unknown.contains(path));
    let duplicates = duplicates.map(|path| strict_error("json patch duplicate", path));
    let unknown = unknown
        .iter()
        .map(|path| strict_error("json patch unknown", path));
    duplicates.chain(unknown).collect()
}

struct JsonPatchRun {
    document: DocumentNode,
    copied_bytes: usize,
    counted: usize,
}

type OperationResult = Result<(), Rejection>;

impl JsonPatchRun {
    fn apply(&mut self, operation: &Value) -> OperationResult {
        match text(operation, "op") {
            Some("add") => self.add(pointer(operation, "path")?, value(operation)),
            Some("remove") => self.take(pointer(operation, "path")?).map(drop),
            Some("replace") => self.replace(pointer(operation, "path")?, value(operation)),
            Some("test") => self.test(pointer(operation, "path")?, operation.get("value")),
            Some("move") => {
                let node = self.take(pointer(operation, "from")?)?;
                self.add(pointer(operation, "path")?, node)
            }
            Some("copy") => self.copy(operation),
            _ => Err(Rejection::UnknownOperation),
        }
    }

    fn find(&mut self, path: Pointer<'_>) -> Result<(Container<'_>, String), Rejection> {
        path.find(&mut self.document).ok_or(Rejection::NoSuchPath)
    }

    fn add(&mut self, path: Pointer<'_>, node: DocumentNode) -> OperationResult {
        self.check_depth(path, &node)?;
        match self.find(path)? {
            (Container::Members(members), name) => drop(members.insert(name, node)),
            (Container::Items(items), word) => {
                let at = if word == "-" {
                    items.len()
                } else {
                    pointer::index(&word, items.len() + 1).ok_or(Rejection::NoSuchPath)?
                };
                items.insert(at, node);
            }
        }
        Ok(())
    }

    fn take(&mut self, path: Pointer<'_>) -> Result<DocumentNode, Rejection> {
        match self.find(path)? {
            (Container::Members(members), name) => members.remove(&name),
            (Container::Items(items), word) => {
                pointer::index(&word, items.len()).map(|at| items.remove(at))
            }
        }
        .ok_or(Rejection::NoSuchPath)
    }

    fn replace(&mut self, path: Pointer<'_>, node: DocumentNode) -> OperationResult {
        self.check_depth(path, &node)?;
        if path.is_whole() {
            if !node.is_container() {
                return Err(Rejection::NotADocument);
            }
            self.document = node;
            return Ok(());
        }
        match self.find(path)? {
            (Container::Members(members), name) => drop(members.insert(name, node)),
            (Container::Items(items), word) => {
                let at = pointer::index(&word, items.len()).ok_or(Rejection::NoSuchPath)?;
                *items.at(at) = node;
            }
        }
        Ok(())
    }

    /// The `test` operation. A missing member equals null.
    fn test(&mut self, path: Pointer<'_>, wanted: Option<&Value>) -> OperationResult {
        let wanted = wanted.unwrap_or(&Value::Null);
        let equal = match self.get(path)? {
            Some(found) => found.equals(wanted),
            None => wanted.is_null(),
        };
        equal.then_some(()).ok_or(Rejection::TestFailed)
    }

    /// The value at a path; `None` for a missing member.
    fn get(&mut self, path: Pointer<'_>) -> Result<Option<&DocumentNode>, Rejection> {
        if path.is_whole() {
            return Ok(Some(&self.document));
        }
        match self.find(path)? {
            (Container::Members(members), name) => Ok(members.get(&name)),
            (Container::Items(items), word) => {
                let at = pointer::index(&word, items.len()).ok_or(Rejection::NoSuchPath)?;
                Ok(Some(items.at(at)))
            }
        }
    }

    fn copy(&mut self, operation: &Value) -> OperationResult {
        let from = pointer(operation, "from")?;
        if from.is_whole() {
            return Err(Rejection::NoSuchPath);
        }
        let value = self.get(from)?.map(|node| node.clone().collapse());
        if let Some(value) = &value {
            self.copied_bytes += optik_object::to_bytes(value).len();
        }
        if self.copied_bytes > COPIED_BYTES_MAX {
            return Err(Rejection::CopiesTooMuch);
        }
        let node = DocumentNode::Plain(value.unwrap_or_default());
        self.add(pointer(operation, "path")?, node)
    }

    /// Limits the depth of the document to that of documents that can be parsed.
    fn check_depth(&mut self, path: Pointer<'_>, node: &DocumentNode) -> OperationResult {
        let depth = node.depth(&mut self.counted);
        let fits = path.depth() + depth <= DEPTH_MAX && self.counted <= COUNTED_VALUES_MAX;
        fits.then_some(()).ok_or(Rejection::TooDeep)
    }
}

fn text<'o>(operation: &'o Value, name: &str) -> Option<&'o str> {
    operation.get(name)?.as_str()
}

fn pointer<'o>(operation: &'o Value, name: &str) -> Result<Pointer<'o>, Rejection> {
    text(operation, name)
        .map(Pointer)
        .ok_or(Rejection::MissingMember)
}

/// A missing value is null.
fn value(operation: &Value) -> DocumentNode {
    DocumentNode::Plain(operation.get("value").cloned().unwrap_or_default())
}
