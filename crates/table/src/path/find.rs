//! Where a path leads in an object.

use super::{End, Filter, Literal, Path, Slice, Step};
use optik_object::{JsonKind, View};

/// How many values are looked at for one cell, at most: paths can multiply them.
const EFFORT_MAX: usize = 100_000;

/// What a path leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'f> {
    View(View<'f>),
    Literal(&'f Literal),
}

/// The path and the object do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nowhere;

impl Path {
    /// The first value that the path leads to.
    pub(crate) fn find<'f>(&'f self, object: View<'f>) -> Option<Found<'f>> {
        let mut walk = Walk { left: EFFORT_MAX };
        let found = walk.path(self, &[Found::View(object)]).ok()?;
        found.first().copied()
    }
}

struct Walk {
    left: usize,
}

impl Walk {
    fn pay(&mut self, effort: usize) -> Result<(), Nowhere> {
        self.left = self.left.checked_sub(effort).ok_or(Nowhere)?;
        Ok(())
    }

    fn path<'f>(&mut self, path: &'f Path, at: &[Found<'f>]) -> Result<Vec<Found<'f>>, Nowhere> {
        let mut at = at.to_vec();
        for step in &path.0 {
            at = self.step(step, &at)?;
        }
        Ok(at)
    }

    fn step<'f>(&mut self, step: &'f Step, at: &[Found<'f>]) -> Result<Vec<Found<'f>>, Nowhere> {
        self.pay(at.len().max(1))?;
        let views = at.iter().filter_map(|found| match found {
            Found::View(view) => Some(*view),
            Found::Literal(_) => None,
        });
        let mut found = Vec::new();
        match step {
            Step::Field(name) => found.extend(views.filter_map(|view| view.get(name))),
            Step::Everything => {
                for view in views {
                    self.inside(view, &mut found)?;
                }
            }
            Step::Below => {
                for view in views {
                    self.below(view, &mut found)?;
                }
            }
            Step::Slice(slice) => {
                for view in views.filter(|view| !view.is_null()) {
                    self.slice(*slice, view, &mut found)?;
                }
            }
            Step::Filter(filter) => {
                for view in views {
                    self.filter(filter, view, &mut found)?;
                }
            }
            Step::Union(paths) => {
                let mut all = Vec::new();
                for path in paths {
                    all.extend(self.path(path, at)?);
                    self.pay(all.len())?;
                }
                return Ok(all);
            }
            Step::Literal(literal) => return Ok(vec![Found::Literal(literal); at.len()]),
            Step::Word => return Err(Nowhere),
        }
        Ok(found.into_iter().map(Found::View).collect())
    }

    /// What a list or an object has in it.
    fn inside<'f>(&mut self, view: View<'f>, out: &mut Vec<View<'f>>) -> Result<(), Nowhere> {
        let before = out.len();
        out.extend(view.items());
        out.extend(view.members().map(|(_, value)| value));
        self.pay(out.len() - before)
    }

    /// Lists and objects that have something in them, at any depth.
    fn below<'f>(&mut self, view: View<'f>, out: &mut Vec<View<'f>>) -> Result<(), Nowhere> {
        let mut open = vec![view];
        while let Some(view) = open.pop() {
            let mut inside = Vec::new();
            self.inside(view, &mut inside)?;
            if !inside.is_empty() {
                out.push(view);
            }
            // What comes first is looked at first.
            open.extend(inside.into_iter().rev());
        }
        Ok(())
    }

    fn slice<'f>(
        &mut self,
        slice: Slice,
        list: View<'f>,
        out: &mut Vec<View<'f>>,
    ) -> Result<(), Nowhere> {
        let items = items(list)?;
        self.pay(items.len())?;
        let length = i64::try_from(items.len()).map_err(|_| Nowhere)?;
        let from_end = |at: i64| {
            if at < 0 {
                at.saturating_add(length)
            } else {
                at
            }
        };
        let from = from_end(slice.from);
        let to = match slice.to {
            End::Open => length,
            End::Before(to) => from_end(to),
            End::Next => from.saturating_add(1),
        };
        if from == to {
            return Ok(());
        }
        let step = slice.step.unwrap_or(1);
        if from < 0 || from > to || to > length || step < 1 {
            return Err(Nowhere);
        }
        let bound = |number: i64| usize::try_from(number).map_err(|_| Nowhere);
        let chosen = items.get(bound(from)?..bound(to)?).ok_or(Nowhere)?;
        out.extend(chosen.iter().step_by(bound(step)?));
        Ok(())
    }

    fn filter<'f>(
        &mut self,
        filter: &'f Filter,
        list: View<'f>,
        out: &mut Vec<View<'f>>,
    ) -> Result<(), Nowhere> {
        for item in items(list)? {
            let own = [Found::View(item)];
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

fn items(list: View<'_>) -> Result<Vec<View<'_>>, Nowhere> {
    match list.kind() {
        JsonKind::List => Ok(list.items().collect()),
        _ => Err(Nowhere),
    }
}

/// Several cannot be compared.
fn only<'f, 'l>(found: &'l [Found<'f>]) -> Result<Option<&'l Found<'f>>, Nowhere> {
    match found {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(Nowhere),
    }
}
