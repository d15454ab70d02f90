//! Compares evaluation results with those recorded from a real kube-apiserver.
//!
//! Each line of `recordings/cel/functions.txt` is an expression, followed by a line with a tab and
//! the result: `true`, `false`, `error: …` or `refused: …`. The API test suite runs the same
//! expressions against servers.

use optik_cel::{
    Activation, AuthorizerCheck, AuthorizerDecision, CALL_COST_MAX, CelAuthorizer, CelListType,
    CelType, DeclField, DeclKind, DeclType, Environment, EvalError, ObjectDecl, OpaqueType,
    Program, Value, escape,
};
use optik_object::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;

const CASES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/cel/functions.txt"
));
/// Cases that use `authorizer`, on a server that allows every request.
const AUTHORIZER_CASES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/cel/authorizer.txt"
));
/// Functions that are covered by the API test suite only: they exist only in patch expressions.
const ELSEWHERE: &[&str] = &["jsonpatch.escapeKey"];

fn scalar(kind: DeclKind, elements_max: u64, bytes_min: u64) -> DeclType {
    DeclType {
        kind,
        elements_max,
        bytes_min,
        nullable: false,
    }
}

fn text() -> DeclType {
    scalar(DeclKind::String, 80, 2)
}

fn free_text() -> DeclType {
    scalar(DeclKind::String, 3 * 1024 * 1024 - 2, 2)
}

fn int() -> DeclType {
    scalar(DeclKind::Int, 0, 1)
}

fn list(items: DeclType, order: CelListType) -> DeclType {
    let items = Arc::new(items);
    scalar(
        DeclKind::List {
            items,
            list_type: order,
        },
        10,
        2,
    )
}

fn object(name: &str, fields: Vec<(&str, DeclType)>) -> DeclType {
    let fields = fields.into_iter().map(|(key, shape)| DeclField {
        name: escape(key).unwrap().into(),
        key: key.into(),
        shape,
    });
    let object = ObjectDecl::new(name.into(), fields.collect());
    scalar(DeclKind::Object(Arc::new(object)), 0, 2)
}

fn metadata(name: &str) -> DeclType {
    let fields = vec![("name", free_text()), ("generateName", free_text())];
    object(name, fields)
}

fn root() -> DeclType {
    let keyed = CelListType::Map(Arc::from([Box::from("k")]));
    let item = object("selfType.objs.@idx", vec![("k", text()), ("v", int())]);
    object(
        "selfType",
        vec![
            ("apiVersion", free_text()),
            ("kind", free_text()),
            ("metadata", metadata("selfType.metadata")),
            ("i", int()),
            ("d", scalar(DeclKind::Double, 0, 1)),
            ("s", text()),
            ("missing", text()),
            ("ints", list(int(), CelListType::Atomic)),
            ("none", list(int(), CelListType::Atomic)),
            ("strs", list(text(), CelListType::Atomic)),
            ("m", scalar(DeclKind::Map(Arc::new(text())), 10, 2)),
            ("tags", list(text(), CelListType::Set)),
            ("objs", list(item, keyed)),
            ("b", scalar(DeclKind::Bytes, 3 * 1024 * 1024 - 2, 2)),
            ("ts", scalar(DeclKind::DateTime, 32, 21)),
            ("day", scalar(DeclKind::Date, 12, 12)),
            ("dur", scalar(DeclKind::Duration, 32, 3)),
            ("ios", scalar(DeclKind::IntOrString, 3 * 1024 * 1024 - 2, 1)),
            ("x-y", int()),
            ("namespace", text()),
            ("a.b", int()),
            ("u__n", int()),
            (
                "emb",
                object(
                    "selfType.emb",
                    vec![
                        ("apiVersion", free_text()),
                        ("kind", free_text()),
                        ("metadata", metadata("selfType.emb.metadata")),
                    ],
                ),
            ),
        ],
    )
}

fn sample() -> Json {
    serde_json::json!({
        "apiVersion": "cel.example.com/v1", "kind": "Probe", "metadata": {"name": "one"},
        "i": 3, "d": 2.5, "s": "hello", "ints": [1, 2, 3], "none": [], "strs": ["x", "y"],
        "m": {"a": "x", "b": "y"}, "tags": ["a", "b"],
        "objs": [{"k": "y", "v": 2}, {"k": "x", "v": 1}],
        "b": "YWJj", "ts": "2023-08-26T12:39:00Z", "day": "2023-08-26", "dur": "90m", "ios": 5,
        "x-y": 1, "namespace": "n", "a.b": 2, "u__n": 3,
        "emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
    })
}

struct SelfActivation<'a>(&'a Json, &'a DeclType);

impl<'a> Activation<'a> for SelfActivation<'a> {
    fn resolve(&self, _: usize) -> Result<Value<'a>, EvalError> {
        Value::typed(self.0, self.1)
    }
}

/// Upstream's limit of the estimated cost.
const STATIC_COST_MAX: u64 = 10_000_000;

fn outcome(source: &str, root: &DeclType, sample: &Json) -> String {
    let names = Environment::default()
        .with_variable("self", root.type_of())
        .with_variable("oldSelf", root.type_of());
    let program = match Program::compile(source, &names, Some(root)) {
        Ok(program) => program,
        Err(error) => return format!("refused: {error}"),
    };
    if !matches!(program.output(), CelType::Bool) {
        return "refused: cel expression must evaluate to a bool".into();
    }
    if program.cost_max() > STATIC_COST_MAX {
        let factor = program.cost_max() as f64 / STATIC_COST_MAX as f64;
        return match factor {
            factor if factor > 100.0 => "refused: more than 100x".into(),
            factor => format!("refused: {factor:.1}x"),
        };
    }
    render(
        program
            .run(&SelfActivation(sample, root), CALL_COST_MAX)
            .result,
    )
}

fn render(result: Result<Value<'_>, EvalError>) -> String {
    match result {
        Ok(Value::Bool(value)) => value.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(fault) => format!("error: {fault}"),
    }
}

/// Normalizes a result: removes the numbers in generated type names, and keeps only the factor of a
/// cost error.
fn normal(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("selfType") {
        out.push_str(&rest[..at + 8]);
        rest = rest[at + 8..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    if let Some(at) = out.find("exceeds budget by factor of ") {
        let factor = out[at + 28..].split(" (").next().unwrap_or_default();
        return format!("refused: {factor}");
    }
    out
}

/// The expressions of a table and their recorded results.
fn cases(table: &'static str) -> impl Iterator<Item = (&'static str, String)> {
    let mut lines = table.lines();
    std::iter::from_fn(move || {
        let (source, expected) = (lines.next()?, lines.next()?);
        let expected = expected.trim_start_matches('\t').replace("\\n", "\n");
        Some((source, normal(&expected.replace("\\\\", "\\"))))
    })
}

fn compare(table: &'static str, outcome: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (source, expected) in cases(table) {
        let found = normal(&outcome(source));
        count += 1;
        if found != expected {
            wrong.push(format!(
                "{source}\n  expected {expected}\n  found    {found}"
            ));
        }
    }
    assert!(count > 0);
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn cel_functions_match_kube_apiserver() {
    let (root, sample) = (root(), sample());
    compare(CASES, |source| outcome(source, &root, &sample));
}

/// An authorizer that allows every request and gives no reason.
struct AllowAll;

impl CelAuthorizer for AllowAll {
    fn authorize(&self, _: &AuthorizerCheck<'_>) -> AuthorizerDecision {
        AuthorizerDecision {
            allowed: true,
            reason: String::new(),
            error: None,
        }
    }
}

struct AuthorizerActivation(Arc<dyn CelAuthorizer>);

impl<'a> Activation<'a> for AuthorizerActivation {
    fn resolve(&self, _: usize) -> Result<Value<'a>, EvalError> {
        Ok(Value::authorizer(Arc::clone(&self.0)))
    }
}

#[test]
fn cel_authorizer_matches_kube_apiserver() {
    let names =
        Environment::default().with_variable("authorizer", CelType::Opaque(OpaqueType::Authorizer));
    let asker = AuthorizerActivation(Arc::new(AllowAll));
    compare(AUTHORIZER_CASES, |source| {
        match Program::compile(source, &names, None) {
            Ok(program) => render(program.run(&asker, CALL_COST_MAX).result),
            Err(error) => format!("refused: {error}"),
        }
    });
}

/// The functions that an expression calls.
fn called<'s>(source: &'s str, known: &BTreeSet<&str>) -> BTreeSet<&'s str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let calls = source.match_indices('(').filter_map(|(at, _)| {
        let before = &source[..at];
        let start = before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
        let name = &before[start..];
        if known.contains(name) {
            return Some(name);
        }
        name.rsplit('.').next()
    });
    calls.collect()
}

#[test]
fn every_cel_function_has_a_passing_and_a_failing_case() {
    let known: BTreeSet<&str> = optik_cel::function_names().collect();
    let (mut works, mut refuses) = (BTreeSet::new(), BTreeSet::new());
    for (source, expected) in cases(CASES).chain(cases(AUTHORIZER_CASES)) {
        let shown = match expected.as_str() {
            "true" => &mut works,
            _ => &mut refuses,
        };
        shown.extend(called(source, &known));
    }
    works.extend(ELSEWHERE);
    assert!(known.len() > 100);
    let lacking = |shown: &BTreeSet<&str>| -> Vec<String> {
        known
            .difference(shown)
            .map(|&name| name.to_owned())
            .collect()
    };
    assert_eq!(lacking(&works), Vec::<String>::new(), "never seen to work");
    assert_eq!(
        lacking(&refuses),
        Vec::<String>::new(),
        "never seen to refuse"
    );
}

/// An evaluation that exceeds its limits stops early.
#[test]
fn cel_cost_limit_stops_expensive_expressions() {
    let (root, sample) = (root(), sample());
    for source in [
        "lists.range(2000000).size() > 1",
        "lists.range(9223372036854775807).size() > 1",
        "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0))",
        "lists.range(100000).map(x, [x]).flatten().size() > lists.range(900000).size()",
        "lists.range(100000).distinct().size() > 1",
        "sets.contains(lists.range(10000), lists.range(10000))",
        "lists.range(1000).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaa').join().replace('', \
         lists.range(1000).map(x, 'aaaaaaaaaaaaaaaaaaaaaaaaaa').join()).size() > 1",
    ] {
        let names = Environment::default().with_variable("self", root.type_of());
        let program = Program::compile(source, &names, Some(&root)).unwrap();
        let outcome = program.run(&SelfActivation(&sample, &root), CALL_COST_MAX);
        assert!(
            matches!(outcome.result, Err(EvalError::CostLimitExceeded)),
            "{source}: {outcome:?}"
        );
    }
}

/// Deep nesting and unbounded growth are rejected without recursion.
#[test]
fn deeply_nested_or_huge_cel_source_is_rejected() {
    let names = Environment::default().with_variable("self", CelType::Dyn);
    let deep = [
        "(".repeat(50_000),
        "!".repeat(50_000) + "true",
        "-".repeat(50_000) + "1",
        format!("self{}", ".a".repeat(40_000)),
        format!("self{}", "[0]".repeat(30_000)),
        format!("1{}", "+1".repeat(40_000)),
        format!("{}1", "self?1:".repeat(10_000)),
        "[".repeat(50_000),
        "{1:".repeat(20_000),
        format!("self{}", ".all(x,self".repeat(5000)),
        format!("self{}", ".optMap(x, x)".repeat(200)),
        "a".repeat(200_000),
    ];
    for source in &deep {
        let shown: String = source.chars().take(20).collect();
        assert!(Program::compile(source, &names, None).is_err(), "{shown}");
    }
    // Just below the nesting limit.
    let nested = format!("{}true{}", "(".repeat(240), ")".repeat(240));
    let long = vec!["self.a == 1"; 2000].join(" && ");
    let chain = format!("self{} == 1", ".a".repeat(240));
    for source in [nested, long, chain] {
        Program::compile(&source, &names, None).unwrap();
    }
}
