//! How a deletion is to be done.

use super::options::check_dry_run;
use crate::body::decode_as;
use crate::query::Query;
use http::HeaderMap;
use optik_object::{FieldError, Map, Status, Value};

#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) revision: Option<String>,
    pub(crate) dependents: Option<Dependents>,
    /// The same as it was asked for: the new option, and the old one.
    pub(crate) policy: Option<Dependents>,
    pub(crate) orphan: Option<bool>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Adds what was asked for to a document about it.
    pub(crate) fn describe(&self, options: &mut Value) {
        if let Some(seconds) = self.grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        for (name, given) in [("uid", &self.uid), ("resourceVersion", &self.revision)] {
            if let Some(given) = given {
                options["preconditions"][name] = given.as_str().into();
            }
        }
        if let Some(policy) = self.policy {
            options["propagationPolicy"] = policy.name().into();
        }
        if let Some(orphan) = self.orphan {
            options["orphanDependents"] = orphan.into();
        }
    }
}

/// What becomes of objects that name this one as their owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    Orphan,
    /// They go first.
    Foreground,
    /// They go later.
    Background,
}

impl Dependents {
    const fn name(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Foreground => "Foreground",
            Self::Background => "Background",
        }
    }
}

impl DeleteOptions {
    /// The body has the say if there is one, otherwise the query.
    pub(crate) fn read(
        query: &Query<'_>,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Self, Status> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return from_query(query);
        }
        let options = decode_as("v1", "DeleteOptions", headers, body)?;
        from_body(options.members())
    }
}

impl DeleteOptions {
    /// Those that are part of another body; none are none.
    pub(crate) fn of(options: Option<&Value>, dry_run: bool) -> Result<Self, Status> {
        let empty = Map::new();
        let members = options.and_then(Value::as_object).unwrap_or(&empty);
        let mut read = from_body(members)?;
        read.dry_run |= dry_run;
        Ok(read)
    }
}

fn from_query(query: &Query<'_>) -> Result<DeleteOptions, Status> {
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    judge(Raw {
        grace_period_seconds: query.number("gracePeriodSeconds")?,
        uid: None,
        revision: None,
        orphan: query.flag("orphanDependents"),
        policy: query
            .get("propagationPolicy")
            .filter(|text| !text.is_empty()),
        dry_run,
    })
}

fn from_body(members: &Map) -> Result<DeleteOptions, Status> {
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or("");
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "decoded object cannot be converted to DeleteOptions: {kind}"
        )));
    }
    let preconditions = members.get("preconditions");
    let condition = |name: &str| {
        let value = preconditions?.get(name)?.as_str()?;
        Some(value.to_owned())
    };
    let dry_run = members.get("dryRun").and_then(Value::as_array);
    judge(Raw {
        grace_period_seconds: members.get("gracePeriodSeconds").and_then(Value::as_i64),
        uid: condition("uid"),
        revision: condition("resourceVersion"),
        orphan: members.get("orphanDependents").and_then(Value::as_bool),
        policy: members.get("propagationPolicy").and_then(Value::as_str),
        dry_run: dry_run
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect(),
    })
}

struct Raw<'a> {
    grace_period_seconds: Option<i64>,
    uid: Option<String>,
    revision: Option<String>,
    orphan: Option<bool>,
    policy: Option<&'a str>,
    dry_run: Vec<&'a str>,
}

fn judge(raw: Raw<'_>) -> Result<DeleteOptions, Status> {
    let mut errors = Vec::new();
    let by_policy = match raw.policy {
        None => None,
        Some("Orphan") => Some(Dependents::Orphan),
        Some("Foreground") => Some(Dependents::Foreground),
        Some("Background") => Some(Dependents::Background),
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
    if let (Some(policy), Some(_)) = (raw.policy, raw.orphan) {
        let text = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", policy, text));
    }
    check_dry_run(&raw.dry_run, &mut errors);
    if !errors.is_empty() {
        return Err(Status::invalid_options("DeleteOptions", &errors));
    }
    let by_flag = raw.orphan.map(|orphan| match orphan {
        true => Dependents::Orphan,
        false => Dependents::Background,
    });
    Ok(DeleteOptions {
        grace_period_seconds: raw.grace_period_seconds,
        uid: raw.uid,
        revision: raw.revision,
        dependents: by_policy.or(by_flag),
        policy: by_policy,
        orphan: raw.orphan,
        dry_run: !raw.dry_run.is_empty(),
    })
}
