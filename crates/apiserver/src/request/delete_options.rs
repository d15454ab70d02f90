//! DeleteOptions: preconditions, grace period, propagation policy.

use crate::request::body::decode_options;
use crate::request::query::Query;
use crate::request::write_options::check_dry_run;
use http::HeaderMap;
use optik_object::{FieldError, Map, Status, Value, json_type};

#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) propagation: Option<PropagationPolicy>,
    /// As the client gave it: the current option, and the deprecated `orphanDependents`.
    pub(crate) given_propagation_policy: Option<PropagationPolicy>,
    pub(crate) given_orphan_dependents: Option<bool>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Adds the given options to a DeleteOptions document.
    pub(crate) fn describe(&self, options: &mut Value) {
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (name, given) in [("uid", &self.uid), ("resourceVersion", &self.revision)] {
            if let Some(given) = given {
                options["preconditions"][name] = given.as_str().into();
            }
        }
        if let Some(policy) = self.given_propagation_policy {
            options["propagationPolicy"] = policy.name().into();
        }
        if let Some(orphan) = self.given_orphan_dependents {
            options["orphanDependents"] = orphan.into();
        }
    }
}

/// What happens to dependents of the deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Orphan,
    /// Dependents are deleted first.
    Foreground,
    /// Dependents are deleted afterwards.
    Background,
}

impl PropagationPolicy {
    const fn name(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Foreground => "Foreground",
            Self::Background => "Background",
        }
    }
}

impl DeleteOptions {
    /// Reads the options from the body if there is one, otherwise from the query.
    pub(crate) fn read(
        query: &Query<'_>,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Self, Status> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return from_query(query);
        }
        let options = decode_options("DeleteOptions", headers, body)?;
        from_body(options.members())
    }
}

impl DeleteOptions {
    /// Reads options that are part of another body; `None` means no options.
    pub(crate) fn from_value(options: Option<&Value>, dry_run: bool) -> Result<Self, Status> {
        let empty = Map::new();
        let members = options.and_then(Value::as_object).unwrap_or(&empty);
        let mut read = from_body(members)?;
        read.dry_run |= dry_run;
        Ok(read)
    }
}

fn from_query(query: &Query<'_>) -> Result<DeleteOptions, Status> {
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    validate(&RawDeleteOptions {
        grace_period_seconds: query.number("gracePeriodSeconds")?,
        // As upstream, the query a collection is listed by is then a precondition, too.
        uid: query.get("uid").filter(|uid| !uid.is_empty()),
        revision: query
            .get("resourceVersion")
            .filter(|revision| !revision.is_empty()),
        orphan: query.flag("orphanDependents"),
        policy: query.get("propagationPolicy"),
        dry_run,
    })
}

fn from_body(members: &Map) -> Result<DeleteOptions, Status> {
    let options = TypedMembers {
        of: Some(members),
        go_name: "DeleteOptions.",
    };
    check_kind(options)?;
    let conditions = TypedMembers {
        of: options.get("preconditions", "v1.Preconditions", Value::as_object)?,
        go_name: "Preconditions.preconditions.",
    };
    let dry_run = options.get("dryRun", "[]string", Value::as_array)?;
    let dry_run = dry_run.into_iter().flatten().map(|item| {
        let text = item.as_str();
        text.ok_or_else(|| options.type_error("dryRun", item, "string"))
    });
    let policy = "propagationPolicy";
    validate(&RawDeleteOptions {
        grace_period_seconds: options.get("gracePeriodSeconds", "int64", Value::as_i64)?,
        uid: conditions.get("uid", "types.UID", Value::as_str)?,
        revision: conditions.get("resourceVersion", "string", Value::as_str)?,
        orphan: options.get("orphanDependents", "bool", Value::as_bool)?,
        policy: options.get(policy, "v1.DeletionPropagation", Value::as_str)?,
        dry_run: dry_run.collect::<Result<_, _>>()?,
    })
}

fn check_kind(options: TypedMembers<'_>) -> Result<(), Status> {
    let text = |name| {
        let at_the_root = TypedMembers {
            go_name: ".",
            ..options
        };
        let text = at_the_root.get(name, "string", Value::as_str);
        text.map(Option::unwrap_or_default).map_err(|status| {
            let trouble = "couldn't get version/kind; json parse error";
            Status::bad_request(format!("{trouble}: {}", status.message()))
        })
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    if matches!(kind, "" | "DeleteOptions") {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
         \"pkg/runtime/scheme.go:111\""
    )))
}

/// Members whose types are checked: ignoring an unreadable precondition would drop it.
#[derive(Clone, Copy)]
struct TypedMembers<'m> {
    of: Option<&'m Map>,
    /// Go's name of the type they are members of.
    go_name: &'static str,
}

impl<'m> TypedMembers<'m> {
    /// An absent member is the same as null.
    fn get<T>(
        self,
        name: &str,
        wanted: &str,
        read: impl Fn(&'m Value) -> Option<T>,
    ) -> Result<Option<T>, Status> {
        match self.of.and_then(|members| members.get(name)) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.type_error(name, value, wanted)),
            },
        }
    }

    fn type_error(self, name: &str, found: &Value, wanted: &str) -> Status {
        let shown = match found {
            Value::Number(number) if wanted == "int64" => format!("number {number}"),
            other => json_type(other).to_owned(),
        };
        let called = self.go_name;
        Status::bad_request(format!(
            "json: cannot unmarshal {shown} into Go struct field {called}{name} of type {wanted}"
        ))
    }
}

struct RawDeleteOptions<'a> {
    grace_period_seconds: Option<i64>,
    uid: Option<&'a str>,
    revision: Option<&'a str>,
    orphan: Option<bool>,
    policy: Option<&'a str>,
    dry_run: Vec<&'a str>,
}

fn validate(raw: &RawDeleteOptions<'_>) -> Result<DeleteOptions, Status> {
    let mut errors = Vec::new();
    if let (Some(policy), Some(_)) = (raw.policy, raw.orphan) {
        let text = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, text));
    }
    let by_policy = match raw.policy {
        None => None,
        Some("Orphan") => Some(PropagationPolicy::Orphan),
        Some("Foreground") => Some(PropagationPolicy::Foreground),
        Some("Background") => Some(PropagationPolicy::Background),
        Some(other) => {
            let supported = &["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                other,
                supported,
            ));
            None
        }
    };
    check_dry_run(&raw.dry_run, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid_options("DeleteOptions", &errors));
    }
    let by_flag = raw.orphan.map(|orphan| match orphan {
        true => PropagationPolicy::Orphan,
        false => PropagationPolicy::Background,
    });
    Ok(DeleteOptions {
        grace_period_seconds: raw.grace_period_seconds,
        uid: raw.uid.map(String::from),
        revision: raw.revision.map(String::from),
        propagation: by_policy.or(by_flag),
        given_propagation_policy: by_policy,
        given_orphan_dependents: raw.orphan,
        dry_run: !raw.dry_run.is_empty(),
    })
}
