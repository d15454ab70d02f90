//! Table rows of custom resources, from the `additionalPrinterColumns` of their CRD.

use crate::jsonpath::{JsonPath, JsonPathValue};
use crate::{Column, Printer, RowWriter};
use optik_object::{JsonKind, JsonView, Timestamp, plain_float, to_bytes};

/// Prints the objects of a custom resource as rows.
pub struct CustomPrinter {
    columns: Vec<Column>,
    /// The paths of the columns behind the name.
    paths: Vec<JsonPath>,
}

/// Builds the printer of a custom resource from its columns and their JSONPaths. Without declared
/// columns, there is an age column. An invalid path drops its column and all following ones.
#[must_use]
pub fn custom_printer<'p>(declared: impl IntoIterator<Item = (Column, &'p str)>) -> CustomPrinter {
    let name = Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: "".into(),
        priority: 0,
    };
    let mut custom = CustomPrinter {
        columns: vec![name],
        paths: Vec::new(),
    };
    let mut declared = declared.into_iter().peekable();
    if declared.peek().is_none() {
        custom.columns.push(age());
        custom
            .paths
            .extend(JsonPath::parse(".metadata.creationTimestamp"));
    }
    for (column, path) in declared {
        if !custom.add(column, path) {
            break;
        }
    }
    custom
}

fn age() -> Column {
    Column {
        name: "Age".into(),
        kind: "date".into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
    }
}

impl CustomPrinter {
    fn add(&mut self, mut column: Column, path: &str) -> bool {
        let Some(read) = JsonPath::parse(path) else {
            return false;
        };
        if column.description.is_empty() {
            let text = "Custom resource definition column (in JSONPath format): ";
            column.description = format!("{text}{path}").into();
        }
        self.columns.push(column);
        self.paths.push(read);
        true
    }
}

impl Printer for CustomPrinter {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: JsonView<'_>, row: &mut RowWriter<'_>) {
        row.name(object);
        for (column, path) in self.columns.iter().skip(1).zip(&self.paths) {
            match path.find(object) {
                Some(found) => cell(&column.kind, found, row),
                None => row.null(),
            }
        }
    }
}

/// Writes a value as a cell of a column type; a value of another type becomes null.
fn cell(kind: &str, found: JsonPathValue<'_>, row: &mut RowWriter<'_>) {
    let JsonPathValue::View(view) = found else {
        // A path that is a literal does not occur in practice.
        return row.null();
    };
    match kind {
        "string" => text(view, row),
        "integer" => match integer(view) {
            Some(number) => row.number(number),
            None => row.null(),
        },
        "number" => match view.as_f64() {
            Some(number) => row.float(number),
            None => row.null(),
        },
        "boolean" => match view.as_bool() {
            Some(flag) => row.flag(flag),
            None => row.null(),
        },
        "date" => match view.as_str() {
            Some(moment) => {
                let age = since(&moment, row);
                row.text(&age);
            }
            None => row.null(),
        },
        _ => row.null(),
    }
}

/// Writes any value as text.
fn text(view: JsonView<'_>, row: &mut RowWriter<'_>) {
    match view.kind() {
        JsonKind::Text | JsonKind::Escaped => row.copy(view),
        JsonKind::Null => row.text("<no value>"),
        JsonKind::Number => match (view.as_i64(), view.as_f64()) {
            (Some(number), _) => row.text(&number.to_string()),
            (None, Some(number)) => row.text(&plain_float(number)),
            (None, None) => row.null(),
        },
        JsonKind::Bool | JsonKind::List | JsonKind::Object => {
            row.text(&String::from_utf8_lossy(&compact(view)));
        }
    }
}

/// Re-serialized in upstream's compact form, whatever the stored spelling.
fn compact(view: JsonView<'_>) -> Vec<u8> {
    match view.to_value() {
        Ok(value) => to_bytes(&value),
        Err(_) => view.raw_json().to_vec(),
    }
}

/// Truncates fractions. Numbers out of range become `i64::MIN`, as Go's float conversion does on
/// upstream's processors.
fn integer(view: JsonView<'_>) -> Option<i64> {
    if let Some(number) = view.as_i64() {
        return Some(number);
    }
    let number = view.as_f64()?.trunc();
    let text = format!("{number:.0}");
    Some(text.parse().unwrap_or(i64::MIN))
}

fn since(moment: &str, row: &RowWriter<'_>) -> String {
    match moment {
        "" | "null" | "0001-01-01T00:00:00Z" => "<unknown>".to_owned(),
        moment if moment.parse::<Timestamp>().is_err() => "<invalid>".to_owned(),
        moment => row.since(moment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_object::{Tape, Value, parse};
    use serde_json::json;

    fn column(kind: &str) -> Column {
        Column {
            kind: kind.to_owned().into(),
            ..age()
        }
    }

    fn row_of(printer: &CustomPrinter, object: &Value) -> Vec<Value> {
        let text = object.to_string();
        let mut tape = Tape::default();
        let view = tape.read(text.as_bytes()).unwrap();
        let mut out = Vec::new();
        let now = "2026-11-15T00:00:00Z".parse().unwrap();
        let mut row = RowWriter::new(&mut out, now);
        printer.cells(view, &mut row);
        row.end();
        parse(&out).unwrap().value.as_array().unwrap().clone()
    }

    /// Cases: an object; then column type, path and the cell of kube-apiserver v1.36.4.
    #[test]
    fn custom_column_cells_match_kube_apiserver() {
        let object = json!({"metadata": {"name": "a"}, "spec": {
            "text": "w<o>rd", "count": 3, "num": 1.5, "flag": true, "null": null,
            "when": "2001-02-03T04:05:06Z", "zoned": "2001-02-03T04:05:06+02:00",
            "future": "2030-02-03T04:05:06.5Z", "empty": "", "word": "null", "none": [],
            "small": 0.00001, "large": 1e30, "minus": -2.75, "exact": 9007199254740993_i64,
            "map": {"a.b/c": "dot", "z": "<"},
            "conditions": [{"type": "Synced", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2}]}});
        for (kind, path, expected) in [
            ("string", ".spec.text", json!("w<o>rd")),
            ("integer", ".spec.count", json!(3)),
            ("number", ".spec.num", json!(1.5)),
            ("boolean", ".spec.flag", json!(true)),
            ("date", ".spec.when", json!("25y")),
            ("date", ".spec.zoned", json!("25y")),
            ("date", ".spec.future", json!("<invalid>")),
            ("date", ".spec.text", json!("<invalid>")),
            ("date", ".spec.empty", json!("<unknown>")),
            ("date", ".spec.word", json!("<unknown>")),
            ("date", ".spec.count", Value::Null),
            (
                "string",
                ".spec.conditions[?(@.type==\"Ready\")].status",
                json!("True"),
            ),
            (
                "string",
                ".spec.conditions[?(@.type!='Ready')].status",
                json!("False"),
            ),
            ("string", ".spec.conditions[?(@.n>1)].type", json!("Ready")),
            (
                "string",
                ".spec.conditions[?(@.n<=1)].type",
                json!("Synced"),
            ),
            ("string", ".spec.conditions[?(@.n>'1')].type", Value::Null),
            ("string", ".spec.conditions[?(@.n)].type", json!("Synced")),
            ("string", ".spec.conditions[?(@.x)].type", Value::Null),
            ("string", ".spec.conditions[0].type", json!("Synced")),
            ("string", ".spec.conditions[-1].type", json!("Ready")),
            ("string", ".spec.conditions[*].type", json!("Synced")),
            ("string", ".spec.conditions[1:].type", json!("Ready")),
            ("string", ".spec.conditions[0:2].type", json!("Synced")),
            ("string", ".spec.conditions[1,0].type", json!("Ready")),
            ("string", ".spec.conditions[7].type", Value::Null),
            ("string", ".spec.none[0]", Value::Null),
            ("string", ".spec.none[*]", Value::Null),
            ("string", ".spec.text[0]", Value::Null),
            ("string", "..type", json!("Synced")),
            (
                "string",
                ".spec.map",
                json!("{\"a.b/c\":\"dot\",\"z\":\"\\u003c\"}"),
            ),
            ("string", ".spec.map['a\\.b/c']", json!("dot")),
            ("string", ".spec.map['z']", json!("<")),
            ("string", ".spec.none", json!("[]")),
            ("string", ".spec.num", json!("1.5")),
            ("string", ".spec.small", json!("1e-05")),
            ("string", ".spec.large", json!("1e+30")),
            ("string", ".spec.flag", json!("true")),
            ("string", ".spec.count", json!("3")),
            ("string", ".spec.null", json!("<no value>")),
            ("string", ".spec.null.a", Value::Null),
            ("string", ".spec.nothing.a", Value::Null),
            ("string", ".spec.text ", json!("w<o>rd")),
            ("string", ".spec .text", json!("w<o>rd")),
            ("integer", ".spec.null", Value::Null),
            ("integer", ".spec.text", Value::Null),
            ("integer", ".spec.num", json!(1)),
            ("integer", ".spec.minus", json!(-2)),
            ("integer", ".spec.large", json!(i64::MIN)),
            ("integer", ".spec.exact", json!(9_007_199_254_740_993_i64)),
            ("number", ".spec.count", json!(3)),
            ("number", ".spec.exact", json!(9_007_199_254_740_992_i64)),
            ("boolean", ".spec.text", Value::Null),
        ] {
            let printer = custom_printer([(column(kind), path)]);
            let cells = row_of(&printer, &object);
            assert_eq!(cells, [json!("a"), expected], "{kind} {path}");
        }
    }

    #[test]
    fn custom_kind_without_columns_shows_age() {
        let printer = custom_printer([]);
        let names: Vec<&str> = printer.columns().iter().map(|own| &*own.name).collect();
        assert_eq!(names, ["Name", "Age"]);
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2026-11-14T00:00:00Z"}});
        assert_eq!(row_of(&printer, &object), ["a", "24h"]);
    }

    #[test]
    fn custom_columns_stop_at_invalid_jsonpath() {
        for broken in [
            ".spec[?(x",
            ".a[b]",
            ".a[",
            ".a]",
            ".a{",
            ".a....b",
            ".a[1:2:3:4]",
            ".a[?(@.b=='c]",
            "!",
        ] {
            let printer = custom_printer([(column("string"), ".a"), (column("string"), broken)]);
            assert_eq!(printer.columns().len(), 2, "{broken}");
        }
        let long = ".a".repeat(5000);
        assert_eq!(
            custom_printer([(column("string"), long.as_str())])
                .columns()
                .len(),
            1
        );
    }

    #[test]
    fn custom_column_description_is_never_empty() {
        let own = Column {
            description: "how many".into(),
            ..age()
        };
        let printer = custom_printer([(age(), ".a"), (own, ".b")]);
        let text = "Custom resource definition column (in JSONPath format): .a";
        assert_eq!(printer.columns()[1].description, text);
        assert_eq!(printer.columns()[2].description, "how many");
    }

    /// Each step yields ten times as many values as the one before.
    #[test]
    fn jsonpath_evaluation_is_bounded() {
        let path = format!(".list{}", "[*,*,*,*,*,*,*,*,*,*]".repeat(20));
        let mut list = json!(1);
        for _ in 0..20 {
            list = json!([list]);
        }
        let printer = custom_printer([(column("integer"), path.as_str())]);
        let object = json!({"metadata": {"name": "a"}, "list": list});
        assert_eq!(row_of(&printer, &object), [json!("a"), Value::Null]);
    }
}
