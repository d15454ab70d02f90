//! ListOptions of lists and watches: parsed, validated, and turned into a plan before any object is
//! read.

use crate::registry::served_resource::ServedResource;
use crate::request::query::Query;
use optik_object::{
    ContinueToken, ListOptionsError, ParseUintError, RequestedResourceVersion, Status,
    parse_query_resource_version,
};
use optik_store::Revision;
use std::num::NonZeroUsize;

/// The options as sent by the client.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    revision: String,
    revision_match: String,
    continue_token: String,
    limit: i64,
    send_initial_events: Option<bool>,
    bookmarks: bool,
    timeout_seconds: Option<i64>,
}

impl ListOptions {
    pub(crate) fn read(query: &Query<'_>) -> Result<Self, Status> {
        Ok(Self {
            revision: query.get_or_empty("resourceVersion").into(),
            revision_match: query.get_or_empty("resourceVersionMatch").into(),
            continue_token: query.get_or_empty("continue").into(),
            limit: query.number("limit")?.unwrap_or(0),
            send_initial_events: query.flag("sendInitialEvents"),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            timeout_seconds: query.number("timeoutSeconds")?,
        })
    }
}

/// The state from which a list is read (resourceVersion semantics).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListAt {
    /// The newest state: includes every write acknowledged before the request.
    Latest,
    /// Any available state.
    Any,
    NotOlderThan(Revision),
    Exact(Revision),
    /// No resourceVersionMatch was given; a page is read at exactly this revision, a named object
    /// at this revision or a later one.
    Page(Revision),
    /// The rest of a paginated list.
    Rest(ContinueToken),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPlan {
    pub(crate) at: ListAt,
    pub(crate) limit: Option<NonZeroUsize>,
}

impl ListOptions {
    /// CONC §3.2, cell by cell, for options that were [validated](Self::validate).
    pub(crate) fn plan_list(&self, kind: &ServedResource) -> Result<ListPlan, Status> {
        let limit = usize::try_from(self.limit).ok().and_then(NonZeroUsize::new);
        if !self.continue_token.is_empty() {
            let rest = ContinueToken::decode(&self.continue_token);
            let rest = rest.map_err(|error| Status::invalid_continue_token(&error))?;
            if !matches!(self.revision.as_str(), "" | "0") {
                return Err(Status::resource_version_with_continue());
            }
            let from_cache = self.revision == "0" && kind.resource.strategy_options.cached;
            return Ok(ListPlan {
                at: ListAt::Rest(rest),
                limit: limit.filter(|_| !from_cache),
            });
        }
        let asked = parse_query_resource_version(&self.revision)
            .map_err(|error| Status::invalid_resource_version(&error))?;
        Ok(match asked {
            RequestedResourceVersion::Unset => ListPlan {
                at: ListAt::Latest,
                limit,
            },
            // As upstream, a kind with a watch cache ignores the limit here and returns the whole
            // state.
            RequestedResourceVersion::Any => ListPlan {
                at: ListAt::Any,
                limit: limit.filter(|_| !kind.resource.strategy_options.cached),
            },
            RequestedResourceVersion::At(number) => {
                let revision = Revision::new(number.get());
                let at = match self.revision_match.as_str() {
                    "Exact" => ListAt::Exact(revision),
                    "NotOlderThan" => ListAt::NotOlderThan(revision),
                    _ if limit.is_some() => ListAt::Page(revision),
                    _ => ListAt::NotOlderThan(revision),
                };
                ListPlan { at, limit }
            }
        })
    }

    /// The plan for a deletecollection. Upstream pages internally if there is no limit; with a
    /// limit, a resourceVersion alone means exactly that revision.
    pub(crate) fn plan_delete_collection(&self, kind: &ServedResource) -> Result<ListPlan, Status> {
        let mut plan = self.plan_list(kind)?;
        let in_pages = self.limit == 0 && self.revision_match.is_empty();
        if let ListAt::NotOlderThan(revision) = plan.at
            && in_pages
        {
            plan.at = ListAt::Page(revision);
        }
        Ok(plan)
    }

    /// Rejects invalid options of a list or watch before anything is read.
    pub(crate) fn validate(&self, watch: Option<WatchForm>) -> Result<(), Status> {
        match watch {
            None | Some(WatchForm::Path) => self.check_list(),
            Some(WatchForm::Query) => self.check_watch(),
        }
    }

    fn check_list(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        let given = self.revision_match.as_str();
        if !given.is_empty() {
            if self.revision.is_empty() {
                errors.push(ListOptionsError::MatchWithoutRevision);
            }
            if !self.continue_token.is_empty() {
                errors.push(ListOptionsError::MatchWithContinue);
            }
            if !matches!(given, "Exact" | "NotOlderThan") {
                errors.push(ListOptionsError::UnknownMatch(given.into()));
            }
            if given == "Exact" && self.revision == "0" {
                errors.push(ListOptionsError::ExactAtZero);
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(ListOptionsError::InitialEventsOnList);
        }
        into_result(&errors)
    }
}

fn into_result(errors: &[ListOptionsError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_list_options(errors))
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchAt {
    /// With the initial state, as fresh as given, followed by changes.
    Initial(Freshness),
    /// With the changes after a state as fresh as given, without that state.
    Following(Freshness),
    /// After this revision.
    After(Revision),
}

/// How new the state must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Latest,
    Any,
    NotOlderThan(Revision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatchPlan {
    pub(crate) at: WatchAt,
    pub(crate) bookmarks: bool,
    /// Whether a bookmark marks the end of the initial state.
    pub(crate) mark_initial_end: bool,
    pub(crate) timeout_seconds: Option<i64>,
}

/// How a watch was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchForm {
    /// `?watch=true`
    Query,
    /// The deprecated `/watch/` path: options are validated as those of a list.
    Path,
}

impl ListOptions {
    /// CONC §4.1, CONC §5, for options that were [validated](Self::validate).
    pub(crate) fn plan_watch(&self, form: WatchForm) -> Result<WatchPlan, Status> {
        let malformed = |error: ParseUintError| Status::invalid_resource_version_internal(&error);
        let mut initial = self.send_initial_events;
        if form == WatchForm::Query && self.begins_with_state() {
            initial = Some(true);
        }
        let asked = parse_query_resource_version(&self.revision).map_err(malformed)?;
        let fresh = match asked {
            RequestedResourceVersion::Unset => Freshness::Latest,
            RequestedResourceVersion::Any => Freshness::Any,
            RequestedResourceVersion::At(number) => {
                Freshness::NotOlderThan(Revision::new(number.get()))
            }
        };
        let at = match (initial, fresh) {
            (Some(true), fresh) => WatchAt::Initial(fresh),
            (_, Freshness::NotOlderThan(revision)) => WatchAt::After(revision),
            (Some(false), fresh) => WatchAt::Following(fresh),
            // The deprecated form: the initial state first, without a bookmark at its end.
            (None, fresh) => WatchAt::Initial(fresh),
        };
        Ok(WatchPlan {
            at,
            bookmarks: self.bookmarks,
            mark_initial_end: self.bookmarks && initial == Some(true),
            timeout_seconds: self.timeout_seconds,
        })
    }

    /// Without resourceVersion (or with 0), resourceVersionMatch and sendInitialEvents, a watch
    /// begins with the initial state.
    fn begins_with_state(&self) -> bool {
        let unset = matches!(self.revision.as_str(), "" | "0");
        unset && self.send_initial_events.is_none() && self.revision_match.is_empty()
    }

    fn check_watch(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        let defaulted = self.begins_with_state();
        let given = if defaulted {
            "NotOlderThan"
        } else {
            self.revision_match.as_str()
        };
        let initial = defaulted || self.send_initial_events.is_some();
        if initial && given != "NotOlderThan" {
            errors.push(ListOptionsError::InitialEventsWithoutNotOlderThan);
        }
        if !given.is_empty() {
            if !initial {
                errors.push(ListOptionsError::MatchOnWatchWithoutInitialEvents);
            }
            if given != "NotOlderThan" {
                errors.push(ListOptionsError::UnsupportedMatchOnWatch(given.into()));
            }
            if !self.continue_token.is_empty() {
                errors.push(ListOptionsError::MatchWithContinue);
            }
        }
        into_result(&errors)
    }
}
