//! Server-side printing: objects as rows of a `meta.k8s.io/v1` Table, as `kubectl get` shows them.
//!
//! The columns of built-in kinds are a generated table (`cargo xtask columns`). Their cells are
//! written by one function per kind, see `printers`. CRDs declare both columns and the paths of
//! the cells: see `custom`.

mod columns;
mod custom;
mod format;
mod human_duration;
mod jsonpath;
mod printers;
mod row_writer;

pub use columns::Column;
pub use custom::{CustomPrinter, custom_printer};
pub use human_duration::human_duration;
pub use row_writer::RowWriter;

use optik_object::JsonView;

/// Prints the objects of one kind as table rows.
pub trait Printer: Send + Sync {
    fn columns(&self) -> &[Column];

    /// Writes the cells of an object, one per column.
    fn cells(&self, object: JsonView<'_>, row: &mut RowWriter<'_>);

    /// The conditions of the object's row, as a JSON list.
    fn conditions(&self, object: JsonView<'_>) -> Option<&'static str> {
        let _ = object;
        None
    }
}

/// The printer of a built-in kind.
pub struct BuiltinPrinter {
    columns: Vec<Column>,
    cells: printers::CellPrinter,
}

impl Printer for BuiltinPrinter {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn cells(&self, object: JsonView<'_>, row: &mut RowWriter<'_>) {
        (self.cells.write)(object, row);
    }

    fn conditions(&self, object: JsonView<'_>) -> Option<&'static str> {
        self.cells.conditions.and_then(|find| find(object))
    }
}

/// The printer of a built-in kind. Kinds without their own columns get a name and a creation time.
#[must_use]
pub fn builtin_printer(group: &str, version: &str, plural: &str) -> BuiltinPrinter {
    let cells = printers::for_kind(group, plural);
    let columns = columns::for_kind(group, version, plural);
    match (cells, columns) {
        (Some(cells), Some(columns)) => BuiltinPrinter { columns, cells },
        _ => BuiltinPrinter {
            columns: columns::fallback(),
            cells: printers::FALLBACK,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_object::{Tape, Timestamp, Value, parse};

    /// Every row has as many cells as there are columns, even for objects without content.
    #[test]
    fn table_row_has_one_cell_per_column() {
        let mut tape = Tape::default();
        let nothing = tape.read(b"{}").unwrap();
        for (group, version, plural) in columns::all() {
            let printer = builtin_printer(group, version, plural);
            let mut out = Vec::new();
            let mut row = RowWriter::new(&mut out, Timestamp::default());
            printer.cells(nothing, &mut row);
            row.end();
            let cells = parse(&out).unwrap().value;
            // `ipaddresses` rows have an age cell without a column, as upstream.
            let surplus = usize::from(plural == "ipaddresses");
            let cells = cells.as_array().map_or(0, Vec::len);
            assert_eq!(cells, printer.columns().len() + surplus, "{group} {plural}");
        }
    }

    #[test]
    fn table_of_unknown_kind_has_name_and_age() {
        let printer = builtin_printer("example.com", "v1", "things");
        let mut tape = Tape::default();
        let text = br#"{"metadata":{"name":"a","creationTimestamp":"2026-11-15T13:54:35Z"}}"#;
        let object = tape.read(text).unwrap();
        let mut out = Vec::new();
        let mut row = RowWriter::new(&mut out, Timestamp::default());
        printer.cells(object, &mut row);
        row.end();
        let cells: Value = parse(&out).unwrap().value;
        assert_eq!(cells, serde_json::json!(["a", "2026-11-15T13:54:35Z"]));
    }
}
