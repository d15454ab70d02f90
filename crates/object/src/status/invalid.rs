//! Validation failures: 422 Invalid, with one cause per field error.

use super::conflicts::{details_of, with_kind_as_resource};
use super::{Details, Reason, Status};
use crate::field_error::{FieldError, aggregate_message, reported_errors};
use crate::go::{quote, string_slice};
use crate::resource::{ResourceName, qualify};

/// Invalid options of a list or watch (`CONC-F1` to `CONC-F5`, CONC §5.2). One request may have
/// several; they are reported in this order of declaration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ListOptionsError {
    /// `CONC-F1`
    MatchWithoutRevision,
    /// `CONC-F2`
    MatchWithContinue,
    /// `CONC-F3`
    ExactAtZero,
    /// `CONC-F4`
    UnknownMatch(String),
    /// `CONC-F5`
    InitialEventsOnList,
    /// CONC §5.2, first row
    InitialEventsWithoutNotOlderThan,
    /// CONC §5.2, third row
    MatchOnWatchWithoutInitialEvents,
    /// CONC §5.2, second and third row: a watch supports only NotOlderThan
    UnsupportedMatchOnWatch(String),
}

const MATCH: &str = "resourceVersionMatch";
const INITIAL_EVENTS: &str = "sendInitialEvents";

impl ListOptionsError {
    fn to_field_error(&self) -> FieldError {
        match self {
            Self::MatchWithoutRevision => FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            Self::MatchWithContinue => FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ),
            Self::ExactAtZero => FieldError::forbidden(
                MATCH,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            Self::UnknownMatch(value) => {
                FieldError::not_supported(MATCH, value.as_str(), &["Exact", "NotOlderThan", ""])
            }
            Self::InitialEventsOnList => {
                FieldError::forbidden(INITIAL_EVENTS, "sendInitialEvents is forbidden for list")
            }
            Self::InitialEventsWithoutNotOlderThan => FieldError::forbidden(
                MATCH,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            Self::MatchOnWatchWithoutInitialEvents => FieldError::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            Self::UnsupportedMatchOnWatch(value) => {
                FieldError::not_supported(MATCH, value.as_str(), &["NotOlderThan"])
            }
        }
    }
}

impl Status {
    /// 422: the object fails validation: `Deployment.apps "n" is invalid: …`.
    #[must_use]
    pub fn invalid(resource: ResourceName<'_>, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind((resource.kind, resource.group), name, errors)
    }

    /// 422: the query options fail validation: `CreateOptions.meta.k8s.io "" is invalid: …`.
    #[must_use]
    pub fn invalid_options(kind: &str, errors: &[FieldError]) -> Self {
        Self::invalid_kind((kind, "meta.k8s.io"), "", errors)
    }

    /// `CONC-F1` to `CONC-F5` and CONC §5.2
    #[must_use]
    pub fn invalid_list_options(errors: &[ListOptionsError]) -> Self {
        let errors: Vec<FieldError> = errors
            .iter()
            .map(ListOptionsError::to_field_error)
            .collect();
        Self::invalid_options("ListOptions", &errors)
    }

    /// `CONC-I1`: the kind does not allow unconditional updates. Names the resource, not the kind.
    #[must_use]
    pub fn resource_version_required(resource: ResourceName<'_>, name: &str) -> Self {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            0,
            "must be specified for an update",
        );
        Self::invalid_kind((resource.plural, resource.group), name, &[error])
    }

    /// `CONC-I2`: upstream validates this twice and reports both causes.
    #[must_use]
    pub fn finalizers_added_while_deleting(
        resource: ResourceName<'_>,
        name: &str,
        added: &[&str],
    ) -> Self {
        let text = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {}",
            string_slice(added)
        );
        let error = FieldError::forbidden("metadata.finalizers", text);
        Self::invalid(resource, name, &[error.clone(), error])
    }

    /// `CONC-I3`: a JSON patch that does not apply.
    #[must_use]
    pub fn patch_rejected() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::failure(Reason::Invalid, message).with_details(Details::default())
    }

    fn invalid_kind((kind, group): (&str, &str), name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{} {} is invalid", qualify(kind, group), quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate_message(errors));
        }
        let resource = ResourceName {
            group,
            plural: kind,
            kind,
        };
        Self::failure(Reason::Invalid, message).with_details(Details {
            causes: reported_errors(errors)
                .iter()
                .map(FieldError::cause)
                .collect(),
            ..details_of(with_kind_as_resource(resource), name)
        })
    }
}
