//! A textual diff of two values, for error messages.

use optik_object::Value;

/// Formats a diff in the shape of upstream's: removed lines begin with `-`, added ones with `+`.
/// The content differs, because upstream prints its Go structures.
pub(crate) fn go_diff(name: &str, old: &Value, new: &Value) -> String {
    let mut lines = vec![format!("  {name}{{")];
    compare("  ", old, new, &mut lines);
    lines.push("  }".into());
    lines.push(String::new());
    lines.join("\n")
}

fn compare(indent: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return;
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        match (old, new) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old @ Value::Object(_)), Some(new @ Value::Object(_))) => {
                lines.push(format!("{indent}  {name}: {{"));
                compare(&format!("{indent}  "), old, new, lines);
                lines.push(format!("{indent}  }},"));
            }
            (old, new) => {
                lines.extend(old.map(|old| format!("-{indent} {name}: {old},")));
                lines.extend(new.map(|new| format!("+{indent} {name}: {new},")));
            }
        }
    }
}
