use super::*;
use crate::json;
use proptest::prelude::*;
use std::fmt::Write;

#[track_caller]
fn check(yaml: &str, expected: &str) {
    let document = parse(yaml.as_bytes()).expect(yaml);
    let text = String::from_utf8(json::to_bytes(&document.value)).unwrap();
    assert_eq!(text, expected, "{yaml}");
}

#[track_caller]
fn refused(yaml: &str, problem: &str) {
    let error = parse(yaml.as_bytes()).expect_err(yaml).to_string();
    assert!(error.contains(problem), "{yaml}: {error}");
}

#[test]
fn yaml_manifest_is_parsed() {
    check(
        "---
apiVersion: v1
kind: ConfigMap # a comment
metadata:
  name: a
  labels: {app: x, 'quoted': \"a\\tb\"}
data:
  text: |
    line 1
      line 2
  folded: >-
    one
    two
  empty:
list:
- a
- b: 1
  c: [1, 2.50]
---
kind: Other
",
        r#"{"apiVersion":"v1","data":{"empty":null,"folded":"one two","text":"line 1\n  line 2\n"},"kind":"ConfigMap","list":["a",{"b":1,"c":[1,2.5]}],"metadata":{"labels":{"app":"x","quoted":"a\tb"},"name":"a"}}"#,
    );
}

#[test]
fn yaml_parses_json() {
    check(
        r#"{"a": [1, -2.5, true, null, "x\u00e9\n"], "b": {}}"#,
        "{\"a\":[1,-2.5,true,null,\"xé\\n\"],\"b\":{}}",
    );
}

#[test]
fn yaml_plain_scalars_resolve_as_yaml_1_1() {
    for (yaml, expected) in [
        ("", "null"),
        ("# nothing", "null"),
        ("~", "null"),
        ("yes", "true"),
        ("On", "true"),
        ("n", "false"),
        ("OFF", "false"),
        ("'yes'", "\"yes\""),
        ("yEs", "\"yEs\""),
        ("0755", "493"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("0b11", "3"),
        ("-0b11", "-3"),
        ("08", "8"),
        ("1_000", "1000"),
        ("+5", "5"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709552000"),
        ("1e3", "1000"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1e999", "\"1e999\""),
        ("1.2.3", "\"1.2.3\""),
        ("--1", "\"--1\""),
        ("-", "[null]"),
        ("+", "\"+\""),
        (".", "\".\""),
        ("100m", "\"100m\""),
        ("10Gi", "\"10Gi\""),
        ("2026-01-02", "\"2026-01-02\""),
        ("2026-01-02T03:04:05Z", "\"2026-01-02T03:04:05Z\""),
        ("12:30:45", "\"12:30:45\""),
        ("!!str 5", "\"5\""),
        ("!!int '5'", "5"),
        ("!!float 5", "5"),
        ("!!binary aGk=", "\"hi\""),
        ("!custom 5", "\"5\""),
    ] {
        check(yaml, expected);
    }
    refused(".nan", "unsupported value: NaN");
    refused("-.inf", "unsupported value: -Inf");
    refused("!!int x", "cannot decode `x` as a !!int");
    refused("!!binary '?'", "invalid base64");
}

#[test]
fn yaml_keys_become_strings() {
    check(
        "{1: a, true: b, 1.5: c, y: d, 0x10: e}",
        r#"{"1":"a","1.5":"c","16":"e","true":"d"}"#,
    );
    refused("~: a", "unsupported map key");
    refused("[a]: b", "invalid map key");
    refused("? {a: b}\n: c", "invalid map key");
}

#[test]
fn yaml_duplicate_keys_are_reported() {
    let document = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n").unwrap();
    assert_eq!(document.value["a"], 3);
    assert_eq!(
        document.duplicates,
        [
            "line 4: key \"c\" already set in map",
            "line 5: key \"a\" already set in map"
        ]
    );
}

#[test]
fn yaml_anchors_and_merge_keys_are_expanded() {
    check("a: &x [1]\nb: *x", r#"{"a":[1],"b":[1]}"#);
    check("&k a: 1\nb: *k", r#"{"a":1,"b":"a"}"#);
    check(
        "a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3",
        r#"{"a":{"p":1,"q":2},"b":{"p":1,"q":3}}"#,
    );
    check("x: {<<: [{a: 1}, {a: 2, b: 3}]}", r#"{"x":{"a":1,"b":3}}"#);
    refused("a: &x [*x]", "contains itself");
    refused("<<: 5", "map merge requires map");
    refused("a: *nothing", "");
}

#[test]
fn malformed_yaml_is_refused() {
    for yaml in [
        "a: b: c",
        "{a",
        "[1",
        "\"x",
        "a: 'b",
        "a:\n\tb: 1",
        "%",
        "a:\n - b\n c",
    ] {
        assert!(parse(yaml.as_bytes()).is_err(), "{yaml}");
    }
    assert_eq!(
        parse(b"a: 1\nb: \xff").unwrap_err().to_string(),
        "yaml: line 2: invalid UTF-8"
    );
}

#[test]
fn yaml_alias_expansion_is_bounded() {
    let mut laughs = String::from("a0: &a0 [x]\n");
    for level in 1..30 {
        let below = level - 1;
        let _ = writeln!(
            laughs,
            "a{level}: &a{level} [*a{below}, *a{below}, *a{below}]"
        );
    }
    refused(&laughs, "excessive aliasing");
    let mut long = format!("a: &a {}\nb:\n", "x".repeat(100_000));
    for _ in 0..100 {
        long.push_str("- *a\n");
    }
    refused(&long, "excessive aliasing");
    let mut anchors = String::new();
    for level in 0..250 {
        let _ = write!(anchors, "&a{level} [");
    }
    anchors.push_str(&"x,".repeat(1000));
    anchors.push_str(&"]".repeat(250));
    refused(&anchors, "excessive aliasing");
}

#[test]
fn yaml_depth_is_bounded() {
    let block = |levels: usize| "- ".repeat(levels) + "x";
    assert!(parse(block(DEPTH_MAX).as_bytes()).is_ok());
    refused(&block(DEPTH_MAX + 1), "max depth");
    refused(&"[".repeat(100_000), "");
    refused(&"{a: ".repeat(100_000), "");
    refused(&"? ".repeat(100_000), "");
    // Depth that comes from an alias counts.
    let aliased = format!("- &a\n  {}\n- {}*a", block(DEPTH_MAX - 10), "- ".repeat(20));
    refused(&aliased, "max depth");
}

#[test]
fn yaml_with_too_many_values_is_refused() {
    refused(
        &format!("[{}]", "{a: 1},".repeat(200_000)),
        "too many values",
    );
}

/// JSON parsed by the JSON parser equals JSON parsed by the YAML parser.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::String),
        "[a-zA-Z0-9:#,<~ \\t\\n\"'{}\\[\\]&*!|>%@`-]{0,12}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::btree_map("[a-z<~ #:]{0,4}|[0-9]{1,3}|true|null", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The parser buffers flow collections, so their size must be bounded.
#[test]
fn yaml_with_too_many_flow_indicators_is_refused() {
    let items = |count: usize| format!("- [{}]", "[],".repeat(count));
    check(&items(1), "[[[]]]");
    refused(&items(FLOW_INDICATORS_MAX), "too many values");
}

proptest! {
    #[test]
    fn yaml_json_fast_path_agrees_with_yaml_parser(value in json_value()) {
        let text = json::to_bytes(&serde_json::json!({ "a": value }));
        if let Some(read) = plain_json(&text) {
            let as_yaml = parse_yaml(&text);
            prop_assert_eq!(Ok(read), as_yaml.map(|document| document.value));
        }
    }

    #[test]
    fn yaml_parse_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn yaml_parse_never_panics_on_yaml_like_text(text in r#"[\-:?,\[\]{}#&*!|>'"%@ \n\ta0x~.<]{0,40}"#) {
        let _ = parse(text.as_bytes());
    }

    /// JSON written by the serializer parses as the same value.
    #[test]
    fn yaml_round_trips_json(keys in proptest::collection::btree_map("[a-z]{1,5}", any::<(i64, String, bool)>(), 0..6)) {
        let value: Value = keys
            .into_iter()
            .map(|(key, (number, text, flag))| {
                (key, Value::from(vec![number.into(), text.into(), Value::from(flag)]))
            })
            .collect();
        prop_assert_eq!(parse(&json::to_bytes(&value)).map(|d| d.value), Ok(value));
    }
}
