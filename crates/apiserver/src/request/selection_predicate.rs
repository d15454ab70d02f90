//! The selection predicate of lists and watches: label selector, field selector and name.

use crate::registry::served_resource::ServedResource;
use crate::request::query::Query;
use optik_object::selector::{FieldSelector, LabelSelector, SelectorError};
use optik_object::{ObjectMeta, Status, Value};
use optik_store::Version;
use std::collections::BTreeMap;

/// Selectors, validated against the fields the kind supports.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectionPredicate {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Whether matching needs the object, not just its key.
    needs_object: bool,
}

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

impl SelectionPredicate {
    /// Parses selectors, not yet validated [for a kind](Self::for_kind).
    pub(crate) fn parse(query: &Query<'_>) -> Result<Self, Status> {
        Ok(Self {
            labels: LabelSelector::parse(query.get_or_empty("labelSelector"))
                .map_err(bad_request)?,
            fields: FieldSelector::parse(query.get_or_empty("fieldSelector"))
                .map_err(bad_request)?,
            needs_object: false,
        })
    }

    /// Validates the selectors against the fields the kind supports.
    pub(crate) fn for_kind(mut self, kind: &ServedResource) -> Result<Self, Status> {
        let known = &kind.resource.selectable_fields;
        for term in self.fields.terms() {
            match term.field.as_str() {
                NAME => {}
                NAMESPACE if known.namespace => {}
                other => match known.rule(other) {
                    Some(_) => self.needs_object = true,
                    None => return Err(bad_request(known.unknown.to_error(other))),
                },
            }
        }
        Ok(self)
    }

    /// Restricts the predicate to the object named by the path; a field selector for another name
    /// is rejected.
    pub(crate) fn with_name(mut self, name: &str) -> Result<Self, Status> {
        if self.fields.is_empty() {
            self.fields = FieldSelector::one_term_equal(NAME, name);
        }
        match self.only_name() {
            Some(only) if only == name => Ok(self),
            _ => Err(Status::bad_request(
                "fieldSelector metadata.name doesn't match requested name",
            )),
        }
    }

    pub(crate) fn read(query: &Query<'_>, kind: &ServedResource) -> Result<Self, Status> {
        Self::parse(query)?.for_kind(kind)
    }

    /// Whether every object matches.
    pub(crate) fn matches_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can match, if the selector has one.
    pub(crate) fn only_name(&self) -> Option<&str> {
        self.fields.requires_exact_match(NAME)
    }

    /// Unreadable stored bytes match nothing.
    pub(crate) fn matches(&self, kind: &ServedResource, version: &Version) -> bool {
        self.matches_key(kind, version)
            && self.matches_labels(version)
            && self.matches_fields(kind, version)
    }

    /// Whether an object with this name and no other fields matches.
    pub(crate) fn matches_name_only(&self, name: &str) -> bool {
        self.matches_name("", name) && self.labels.matches(&BTreeMap::new())
    }

    fn matches_key(&self, kind: &ServedResource, version: &Version) -> bool {
        if self.fields.is_empty() {
            return true;
        }
        let (namespace, name) = kind.split_key(version.key());
        self.matches_name(namespace, name)
    }

    fn matches_name(&self, namespace: &str, name: &str) -> bool {
        let mut terms = self.fields.terms().iter();
        terms.all(|term| {
            let value = match term.field.as_str() {
                NAME => name,
                NAMESPACE => namespace,
                _ => return true,
            };
            (value == term.value) != term.negated
        })
    }

    fn matches_labels(&self, version: &Version) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let meta = ObjectMeta::from_json(version.value());
        meta.is_ok_and(|meta| self.labels.matches(&meta.labels))
    }

    fn matches_fields(&self, kind: &ServedResource, version: &Version) -> bool {
        if !self.needs_object {
            return true;
        }
        let Ok(object) = kind.decode_stored(version.value()) else {
            return false;
        };
        self.matches_tree(kind, &object.into())
    }

    fn matches_tree(&self, kind: &ServedResource, object: &Value) -> bool {
        let mut terms = self.fields.terms().iter();
        terms.all(|term| {
            let Some(rule) = kind.resource.selectable_fields.rule(&term.field) else {
                return true;
            };
            (rule.value(object) == term.value) != term.negated
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn bad_request(error: SelectorError) -> Status {
    Status::bad_request(error.to_string())
}
