//! Every cell of the list matrix (CONC §3.2): resourceVersion, resourceVersionMatch, and whether
//! there is a limit or a token.

use crate::check::checks;
use crate::client::query;
use crate::failure::{RowFailures, ensure, same};
use crate::object::{continue_token, items, revision};
use crate::status::{self, Cause};
use crate::{ApiResponse, Outcome, Scope};

checks! { resource_version_match:
    ["CONC-67"] list_options_matrix_of_cached_resource [],
    ["CONC-67"] list_with_send_initial_events_is_rejected_in_every_cell [],
    ["CONC-67"] list_options_matrix_of_uncached_resource [Kind("events")],
}

const MATCH: &str = "resourceVersionMatch";
const FORBIDDEN: &str = "FieldValueForbidden";

const CONC_F1: Cause<'_> = (
    FORBIDDEN,
    MATCH,
    "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
);
const CONC_F2: Cause<'_> = (
    FORBIDDEN,
    MATCH,
    "Forbidden: resourceVersionMatch is forbidden when continue is provided",
);
const CONC_F3: Cause<'_> = (
    FORBIDDEN,
    MATCH,
    "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
);
const CONC_F4: Cause<'_> = (
    "FieldValueNotSupported",
    MATCH,
    "Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
);
const CONC_F5: Cause<'_> = (
    FORBIDDEN,
    "sendInitialEvents",
    "Forbidden: sendInitialEvents is forbidden for list",
);

/// The expected result of a cell. The collection has five objects; N is the revision of the third,
/// the page of the token begins after the second.
#[derive(Clone, Copy, Debug)]
enum ExpectedList {
    /// All five, at the newest state.
    All,
    /// Two of five, and more to come.
    Page,
    /// Three, list revision N.
    AtN,
    /// Two of three, list revision N.
    PageAtN,
    /// The rest behind the token, at its revision.
    Rest,
    /// Two behind the token, at its revision.
    RestPage,
    Invalid(&'static [Cause<'static>]),
    Malformed,
    RevisionWithContinue,
}

use ExpectedList::{
    All, AtN, Invalid, Malformed, Page, PageAtN, Rest, RestPage, RevisionWithContinue,
};

/// Revision, match; without limit, with limit, with token, with token and limit.
type Row = (&'static str, &'static str, [ExpectedList; 4]);

const CACHED: &[Row] = &[
    ("", "", [All, Page, Rest, RestPage]),
    ("", "Exact", MATCH_WITHOUT_VERSION),
    ("", "NotOlderThan", MATCH_WITHOUT_VERSION),
    ("0", "", [All, All, Rest, Rest]),
    (
        "0",
        "NotOlderThan",
        [All, All, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "0",
        "Exact",
        [
            Invalid(&[CONC_F3]),
            Invalid(&[CONC_F3]),
            Invalid(&[CONC_F2, CONC_F3]),
            Invalid(&[CONC_F2, CONC_F3]),
        ],
    ),
    (
        "N",
        "",
        [All, PageAtN, RevisionWithContinue, RevisionWithContinue],
    ),
    (
        "N",
        "NotOlderThan",
        [All, Page, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "N",
        "Exact",
        [AtN, PageAtN, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "N",
        "Foo",
        [
            Invalid(&[CONC_F4]),
            Invalid(&[CONC_F4]),
            Invalid(&[CONC_F2, CONC_F4]),
            Invalid(&[CONC_F2, CONC_F4]),
        ],
    ),
    (
        "abc",
        "",
        [
            Malformed,
            Malformed,
            RevisionWithContinue,
            RevisionWithContinue,
        ],
    ),
    (
        "abc",
        "Exact",
        [
            Malformed,
            Malformed,
            Invalid(&[CONC_F2]),
            Invalid(&[CONC_F2]),
        ],
    ),
];

const MATCH_WITHOUT_VERSION: [ExpectedList; 4] = [
    Invalid(&[CONC_F1]),
    Invalid(&[CONC_F1]),
    Invalid(&[CONC_F1, CONC_F2]),
    Invalid(&[CONC_F1, CONC_F2]),
];

/// Where an uncached resource differs: revision 0 honours the limit.
const UNCACHED: &[Row] = &[
    ("", "", [All, Page, Rest, RestPage]),
    ("0", "", [All, Page, Rest, RestPage]),
    (
        "0",
        "NotOlderThan",
        [All, Page, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "N",
        "",
        [All, PageAtN, RevisionWithContinue, RevisionWithContinue],
    ),
    (
        "N",
        "NotOlderThan",
        [All, Page, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "N",
        "Exact",
        [AtN, PageAtN, Invalid(&[CONC_F2]), Invalid(&[CONC_F2])],
    ),
    (
        "abc",
        "",
        [
            Malformed,
            Malformed,
            RevisionWithContinue,
            RevisionWithContinue,
        ],
    ),
];

/// The collection that the cells list.
struct ListFixture {
    path: String,
    third: u64,
    last: u64,
    token: String,
    token_revision: u64,
}

async fn prepare(scope: &Scope, plural: &str) -> Outcome<ListFixture> {
    let mut made = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        made.push(revision(&scope.make(plural, name).await?)?);
    }
    let path = scope.collection_path(plural);
    let first = scope.client.get(&query(&path, &[("limit", "2")])).await?;
    let first = first.expect_json(200)?;
    let ground = ListFixture {
        path,
        third: made[2],
        last: made[4],
        token: continue_token(&first).to_owned(),
        token_revision: revision(&first)?,
    };
    // A list of any age must not be so old that the objects are missing.
    let any = query(&ground.path, &[("resourceVersion", "0")]);
    scope
        .wait_until("the cache to catch up", || async {
            let list = scope.client.get(&any).await?.expect_json(200)?;
            Ok((items(&list)?.len() == 5).then_some(()))
        })
        .await?;
    Ok(ground)
}

/// The query of one of the four columns.
fn parameters(ground: &ListFixture, row: &Row, column: usize) -> Vec<(&'static str, String)> {
    let (revision, matching, _) = row;
    let mut parameters = Vec::new();
    if !revision.is_empty() {
        let revision = revision.replace('N', &ground.third.to_string());
        parameters.push(("resourceVersion", revision));
    }
    if !matching.is_empty() {
        parameters.push((MATCH, (*matching).to_owned()));
    }
    if column % 2 == 1 {
        parameters.push(("limit", "2".to_owned()));
    }
    if column >= 2 {
        parameters.push(("continue", ground.token.clone()));
    }
    parameters
}

async fn send_list(
    scope: &Scope,
    path: &str,
    parameters: &[(&str, String)],
) -> Outcome<ApiResponse> {
    let borrowed: Vec<(&str, &str)> = parameters
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    scope.client.get(&query(path, &borrowed)).await
}

async fn check_cells(scope: &Scope, plural: &str, rows: &[Row]) -> Outcome {
    let ground = prepare(scope, plural).await?;
    let mut results = RowFailures::default();
    for row in rows {
        for column in 0..4 {
            let parameters = parameters(&ground, row, column);
            let answer = send_list(scope, &ground.path, &parameters).await?;
            let name = format!("{} {} column {column}", row.0, row.1);
            results.record(name, check_response(&ground, &answer, row.2[column]));
        }
    }
    results.outcome()
}

async fn list_options_matrix_of_cached_resource(scope: Scope) -> Outcome {
    check_cells(&scope, "configmaps", CACHED).await
}

async fn list_options_matrix_of_uncached_resource(scope: Scope) -> Outcome {
    check_cells(&scope, "events", UNCACHED).await
}

fn check_response(ground: &ListFixture, answer: &ApiResponse, cell: ExpectedList) -> Outcome {
    match cell {
        Invalid(causes) => return answer.expect_failure(&status::list_options(causes)),
        Malformed => return answer.expect_failure(&status::revision_malformed("abc")),
        RevisionWithContinue => return answer.expect_failure(&status::revision_with_continue()),
        _ => {}
    }
    let list = answer.expect_json(200)?;
    let (count, more) = match cell {
        All => (5, false),
        Page | PageAtN => (2, true),
        RestPage => (2, true),
        _ => (3, false),
    };
    same("items", &count, &items(&list)?.len())
        .map_err(|failure| failure.with_step(&answer.asked))?;
    same("a next page", &more, &!continue_token(&list).is_empty())?;
    let got = revision(&list)?;
    match cell {
        AtN | PageAtN => same("list revision", &ground.third, &got),
        Rest | RestPage => same("list revision", &ground.token_revision, &got),
        _ => {
            ensure!(got >= ground.last, "list revision {got} is too old");
            Ok(())
        }
    }
}

/// Either value is rejected in every cell, along with the other errors of the cell.
async fn list_with_send_initial_events_is_rejected_in_every_cell(scope: Scope) -> Outcome {
    let ground = prepare(&scope, "configmaps").await?;
    let mut results = RowFailures::default();
    for row in CACHED {
        for column in 0..4 {
            for value in ["true", "false"] {
                let mut parameters = parameters(&ground, row, column);
                parameters.push(("sendInitialEvents", value.to_owned()));
                let answer = send_list(&scope, &ground.path, &parameters).await?;
                let mut causes = match row.2[column] {
                    Invalid(causes) => causes.to_vec(),
                    _ => Vec::new(),
                };
                causes.push(CONC_F5);
                let name = format!("{} {} column {column} {value}", row.0, row.1);
                results.record(name, answer.expect_failure(&status::list_options(&causes)));
            }
        }
    }
    results.outcome()
}
