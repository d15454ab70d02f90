//! The JSONPath evaluator: finds the values of a path in an object.

use super::{FilterLiteral, JsonPath, JsonPathFilter, JsonPathSlice, JsonPathStep, SliceEnd};
use optik_object::{JsonKind, JsonView};

/// Limit of visited values per cell: paths can multiply values.
const VISITED_VALUES_MAX: usize = 100_000;

/// A value that a path evaluates to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JsonPathValue<'f> {
    View(JsonView<'f>),
    Literal(&'f FilterLiteral),
}

/// The path does not apply to the object, or the limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct JsonPathMismatch;

impl JsonPath {
    /// The first value that the path evaluates to.
    pub(crate) fn find<'f>(&'f self, object: JsonView<'f>) -> Option<JsonPathValue<'f>> {
        let mut walk = JsonPathEvaluator {
            left: VISITED_VALUES_MAX,
        };
        let found = walk.path(self, &[JsonPathValue::View(object)]).ok()?;
        found.first().copied()
    }
}

struct JsonPathEvaluator {
    left: usize,
}

impl JsonPathEvaluator {
    fn charge(&mut self, effort: usize) -> Result<(), JsonPathMismatch> {
        self.left = self.left.checked_sub(effort).ok_or(JsonPathMismatch)?;
        Ok(())
    }

    fn path<'f>(
        &mut self,
        path: &'f JsonPath,
        at: &[JsonPathValue<'f>],
    ) -> Result<Vec<JsonPathValue<'f>>, JsonPathMismatch> {
        let mut at = at.to_vec();
        for step in &path.0 {
            at = self.step(step, &at)?;
        }
        Ok(at)
    }

    fn step<'f>(
        &mut self,
        step: &'f JsonPathStep,
        at: &[JsonPathValue<'f>],
    ) -> Result<Vec<JsonPathValue<'f>>, JsonPathMismatch> {
        self.charge(at.len().max(1))?;
        let views = at.iter().filter_map(|found| match found {
            JsonPathValue::View(view) => Some(*view),
            JsonPathValue::Literal(_) => None,
        });
        let mut found = Vec::new();
        match step {
            JsonPathStep::Field(name) => found.extend(views.filter_map(|view| view.get(name))),
            JsonPathStep::Wildcard => {
                for view in views {
                    self.children(view, &mut found)?;
                }
            }
            JsonPathStep::Recursive => {
                for view in views {
                    self.descendants(view, &mut found)?;
                }
            }
            JsonPathStep::Slice(slice) => {
                for view in views.filter(|view| !view.is_null()) {
                    self.slice(*slice, view, &mut found)?;
                }
            }
            JsonPathStep::Filter(filter) => {
                for view in views {
                    self.filter(filter, view, &mut found)?;
                }
            }
            JsonPathStep::Union(paths) => {
                let mut all = Vec::new();
                for path in paths {
                    all.extend(self.path(path, at)?);
                    self.charge(all.len())?;
                }
                return Ok(all);
            }
            JsonPathStep::Literal(literal) => {
                return Ok(vec![JsonPathValue::Literal(literal); at.len()]);
            }
            JsonPathStep::Word => return Err(JsonPathMismatch),
        }
        Ok(found.into_iter().map(JsonPathValue::View).collect())
    }

    /// The items of a list or the member values of an object.
    fn children<'f>(
        &mut self,
        view: JsonView<'f>,
        out: &mut Vec<JsonView<'f>>,
    ) -> Result<(), JsonPathMismatch> {
        let before = out.len();
        out.extend(view.items());
        out.extend(view.members().map(|(_, value)| value));
        self.charge(out.len() - before)
    }

    /// Non-empty lists and objects at any depth, including `view`.
    fn descendants<'f>(
        &mut self,
        view: JsonView<'f>,
        out: &mut Vec<JsonView<'f>>,
    ) -> Result<(), JsonPathMismatch> {
        let mut open = vec![view];
        while let Some(view) = open.pop() {
            let mut inside = Vec::new();
            self.children(view, &mut inside)?;
            if !inside.is_empty() {
                out.push(view);
            }
            // Depth first, in document order.
            open.extend(inside.into_iter().rev());
        }
        Ok(())
    }

    fn slice<'f>(
        &mut self,
        slice: JsonPathSlice,
        list: JsonView<'f>,
        out: &mut Vec<JsonView<'f>>,
    ) -> Result<(), JsonPathMismatch> {
        let items = items(list)?;
        self.charge(items.len())?;
        let length = i64::try_from(items.len()).map_err(|_| JsonPathMismatch)?;
        let from_end = |at: i64| {
            if at < 0 {
                at.saturating_add(length)
            } else {
                at
            }
        };
        let from = from_end(slice.from);
        let to = match slice.to {
            SliceEnd::Open => length,
            SliceEnd::Before(to) => from_end(to),
            SliceEnd::Next => from.saturating_add(1),
        };
        if from == to {
            return Ok(());
        }
        let step = slice.step.unwrap_or(1);
        if from < 0 || from > to || to > length || step < 1 {
            return Err(JsonPathMismatch);
        }
        let bound = |number: i64| usize::try_from(number).map_err(|_| JsonPathMismatch);
        let chosen = items
            .get(bound(from)?..bound(to)?)
            .ok_or(JsonPathMismatch)?;
        out.extend(chosen.iter().step_by(bound(step)?));
        Ok(())
    }

    fn filter<'f>(
        &mut self,
        filter: &'f JsonPathFilter,
        list: JsonView<'f>,
        out: &mut Vec<JsonView<'f>>,
    ) -> Result<(), JsonPathMismatch> {
        for item in items(list)? {
            let own = [JsonPathValue::View(item)];
            let left = self.path(&filter.left, &own);
            let Some((operator, right)) = &filter.right else {
                if left.is_ok_and(|found| !found.is_empty()) {
                    out.push(item);
                }
                continue;
            };
            let left = left?;
            let Some(left) = only(&left)? else { continue };
            let right = self.path(right, &own)?;
            let Some(right) = only(&right)? else { continue };
            if operator.holds(left, right)? {
                out.push(item);
            }
        }
        Ok(())
    }
}

fn items(list: JsonView<'_>) -> Result<Vec<JsonView<'_>>, JsonPathMismatch> {
    match list.kind() {
        JsonKind::List => Ok(list.items().collect()),
        _ => Err(JsonPathMismatch),
    }
}

/// The single value of an operand; several values cannot be compared.
fn only<'f, 'l>(
    found: &'l [JsonPathValue<'f>],
) -> Result<Option<&'l JsonPathValue<'f>>, JsonPathMismatch> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(JsonPathMismatch),
    }
}
