//! Objects as rows of a table, as people read them: `kubectl get`.
//!
//! Which columns a kind has is a table of its own (`cargo xtask columns`); what stands
//! in them is a function for each kind, see [`printers`]. Custom kinds bring both, columns
//! and the paths that fill them: see [`custom`](mod@custom).

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

/// How the objects of a kind become rows.
pub trait Printer: Send + Sync {
    fn columns(&self) -> &[Column];

    /// Writes the cells of an object, one for each column.
    fn cells(&self, object: JsonView<'_>, row: &mut RowWriter<'_>);

    /// What a row says of its object beyond the cells, as a list of conditions in JSON.
    fn conditions(&self, object: JsonView<'_>) -> Option<&'static str> {
        let _ = object;
        None
    }
}

/// A kind that is built in.
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

/// The printer of a kind. Those that nobody wrote one for have a name and an age.
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

    /// A table has as many cells as columns, also for objects that say nothing.
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
            // The age of an address has no column, upstream neither.
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
