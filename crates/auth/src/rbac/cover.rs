//! Rule coverage for RBAC escalation checks: which of the wanted rules the held rules do not cover
//! (upstream: `validation.Covers`).
//!
//! A rule stands for the product of its groups, resources, verbs and names. The product itself is
//! never materialized: three kilobytes of rule can stand for a hundred million combinations. The
//! dimensions are walked one after another, together with those held rules that allow all values
//! chosen so far. A set of held rules that has been found to cover everything else is not walked
//! again, and the number of reported combinations is bounded.

use super::policy_rule::{PolicyRule, WILDCARD};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Bounds of the report: the number of uncovered rules and their total size. At least one is
/// reported.
const REPORTED_RULES_MAX: usize = 1_000;
const REPORTED_BYTES_MAX: usize = 256 * 1024;
/// Bound of the number of held rules examined, apart from some for each value of the rules. Exact
/// coverage can cost the square of the number of rules and more, which realistic rules do not need.
/// Rules undecided at the bound count as uncovered.
const STEPS_MAX: usize = 2_000_000;
const STEPS_PER_VALUE: usize = 64;

/// The part of the wanted rules that the held rules do not cover.
#[derive(Debug, Default)]
pub(crate) struct UncoveredRules {
    /// Broken down: each has one verb, one resource or path, and at most one name.
    pub(crate) parts: Vec<PolicyRule>,
    /// Whether the report is truncated.
    pub(crate) more: bool,
}

impl UncoveredRules {
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// The part of `wanted` that `held` does not cover; empty only if everything is covered.
#[must_use]
pub(crate) fn uncovered_rules(held: &[PolicyRule], wanted: &[PolicyRule]) -> UncoveredRules {
    let values = held.iter().chain(wanted).map(count_values).sum::<usize>();
    let mut search = CoverSearch {
        index: RuleIndex::new(held),
        known: BTreeMap::new(),
        steps_left: STEPS_MAX.saturating_add(values.saturating_mul(STEPS_PER_VALUE)),
        reported_bytes: 0,
        missing: UncoveredRules::default(),
    };
    for rule in wanted {
        if search.rule(rule).is_err() {
            search.missing.more = true;
            break;
        }
    }
    search.missing
}

fn count_values(rule: &PolicyRule) -> usize {
    let lists = [
        &rule.verbs,
        &rule.api_groups,
        &rule.resources,
        &rule.resource_names,
        &rule.non_resource_urls,
    ];
    1 + lists.iter().map(|list| list.len()).sum::<usize>()
}

/// Indices of held rules, ascending.
type RuleIds = Vec<u32>;

/// The held rules that allow each value of one dimension.
#[derive(Default)]
struct Dimension<'r> {
    by_value: BTreeMap<&'r str, RuleIds>,
    /// Rules that allow every value (`*`).
    all: RuleIds,
}

impl<'r> Dimension<'r> {
    fn add(&mut self, number: u32, values: &'r [String], allows_all: bool) {
        if allows_all {
            self.all.push(number);
            return;
        }
        for value in values {
            let numbers = self.by_value.entry(value).or_default();
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
        }
    }

    /// The rules that allow at least one of the values.
    fn allowing(&self, values: &[&str]) -> RuleIds {
        let lists = values.iter().filter_map(|&value| self.by_value.get(value));
        union(lists.chain([&self.all]).map(Vec::as_slice))
    }
}

fn union<'n>(lists: impl Iterator<Item = &'n [u32]>) -> RuleIds {
    let mut numbers: RuleIds = lists.flatten().copied().collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Index of the held rules. Resource rules and non-resource rules are separate, and so are their
/// verbs.
struct RuleIndex<'r> {
    groups: Dimension<'r>,
    resources: Dimension<'r>,
    verbs: Dimension<'r>,
    names: Dimension<'r>,
    paths: Dimension<'r>,
    /// Path prefixes, grouped by length: there are few distinct lengths.
    prefixes: BTreeMap<usize, BTreeMap<&'r str, RuleIds>>,
    /// Rules with resource names. They do not apply to paths.
    named: BTreeSet<u32>,
}

impl<'r> RuleIndex<'r> {
    fn new(held: &'r [PolicyRule]) -> Self {
        let mut index = Self {
            groups: Dimension::default(),
            resources: Dimension::default(),
            verbs: Dimension::default(),
            names: Dimension::default(),
            paths: Dimension::default(),
            prefixes: BTreeMap::new(),
            named: BTreeSet::new(),
        };
        for (number, rule) in held.iter().enumerate() {
            index.add(u32::try_from(number).unwrap_or(u32::MAX), rule);
        }
        index
    }

    fn add(&mut self, number: u32, rule: &'r PolicyRule) {
        let has_all = |list: &[String]| list.iter().any(|value| value == WILDCARD);
        self.verbs.add(number, &rule.verbs, has_all(&rule.verbs));
        let groups = &rule.api_groups;
        self.groups.add(number, groups, has_all(groups));
        let resources = &rule.resources;
        self.resources.add(number, resources, has_all(resources));
        let names = &rule.resource_names;
        self.names.add(number, names, names.is_empty());
        if !names.is_empty() {
            self.named.insert(number);
        }
        self.paths.add(number, &rule.non_resource_urls, false);
        let urls = rule.non_resource_urls.iter();
        for url in urls.filter(|url| url.ends_with(WILDCARD)) {
            let prefix = url.trim_end_matches(WILDCARD);
            let of_length = self.prefixes.entry(prefix.len()).or_default();
            of_length.entry(prefix).or_default().push(number);
        }
    }

    fn allowing(&self, what: DimensionKind, value: &str) -> RuleIds {
        match what {
            DimensionKind::Group => self.groups.allowing(&[value]),
            DimensionKind::Resource => match value.split_once('/') {
                Some((_, below)) => self.resources.allowing(&[value, &format!("*/{below}")]),
                None => self.resources.allowing(&[value]),
            },
            DimensionKind::Verb => self.verbs.allowing(&[value]),
            DimensionKind::Name => self.names.allowing(&[value]),
            DimensionKind::Path => self.allowing_path(value),
        }
    }

    fn allowing_path(&self, path: &str) -> RuleIds {
        let by_prefix = self.prefixes.iter().filter_map(|(length, prefixes)| {
            let start = path.get(..*length)?;
            prefixes.get(start).map(Vec::as_slice)
        });
        let exact = self.paths.allowing(&[path]);
        let mut numbers = union(by_prefix.chain([exact.as_slice()]));
        numbers.retain(|number| !self.named.contains(number));
        numbers
    }
}

/// The dimensions of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DimensionKind {
    Group,
    Resource,
    Verb,
    Name,
    Path,
}

/// One value of a wanted rule, and the held rules that allow it.
struct DimensionValue<'w> {
    /// `None`: every resource name.
    value: Option<&'w str>,
    allowed_by: Rc<RuleIds>,
}

impl DimensionValue<'_> {
    fn is_allowed_by(&self, number: u32) -> bool {
        self.allowed_by.binary_search(&number).is_ok()
    }
}

/// Why a search ends early.
#[derive(Debug, PartialEq, Eq)]
enum SearchLimit {
    /// The report is full.
    OutputFull,
    /// The step budget is used up.
    StepsExhausted,
}

struct CoverSearch<'r> {
    index: RuleIndex<'r>,
    /// Cache of the held rules that allow a value.
    known: BTreeMap<(DimensionKind, String), Rc<RuleIds>>,
    /// The remaining step budget.
    steps_left: usize,
    reported_bytes: usize,
    missing: UncoveredRules,
}

impl CoverSearch<'_> {
    fn rule(&mut self, wanted: &PolicyRule) -> Result<(), SearchLimit> {
        let decided = self.resources(wanted).and_then(|()| self.paths(wanted));
        if decided == Err(SearchLimit::StepsExhausted) {
            // Undecided rules count as uncovered, so the check fails closed.
            self.missing.parts.push(wanted.clone());
        }
        decided
    }

    fn resources(&mut self, wanted: &PolicyRule) -> Result<(), SearchLimit> {
        let dimensions = [
            self.dimension_values(DimensionKind::Group, &wanted.api_groups)?,
            self.dimension_values(DimensionKind::Resource, &wanted.resources)?,
            self.dimension_values(DimensionKind::Verb, &wanted.verbs)?,
            match wanted.resource_names.as_slice() {
                [] => vec![DimensionValue {
                    value: None,
                    allowed_by: Rc::new(self.index.names.all.clone()),
                }],
                names => self.dimension_values(DimensionKind::Name, names)?,
            },
        ];
        self.product(&dimensions, &|values| PolicyRule {
            api_groups: owned(values[0]),
            resources: owned(values[1]),
            verbs: owned(values[2]),
            resource_names: owned(values[3]),
            ..PolicyRule::default()
        })
    }

    fn paths(&mut self, wanted: &PolicyRule) -> Result<(), SearchLimit> {
        let dimensions = [
            self.dimension_values(DimensionKind::Path, &wanted.non_resource_urls)?,
            self.dimension_values(DimensionKind::Verb, &wanted.verbs)?,
        ];
        self.product(&dimensions, &|values| PolicyRule {
            non_resource_urls: owned(values[0]),
            verbs: owned(values[1]),
            ..PolicyRule::default()
        })
    }

    fn dimension_values<'w>(
        &mut self,
        what: DimensionKind,
        values: &'w [String],
    ) -> Result<Vec<DimensionValue<'w>>, SearchLimit> {
        let choice = |value: &'w String| {
            Ok(DimensionValue {
                value: Some(value),
                allowed_by: self.allowing(what, value)?,
            })
        };
        values.iter().map(choice).collect()
    }

    fn allowing(&mut self, what: DimensionKind, value: &str) -> Result<Rc<RuleIds>, SearchLimit> {
        let key = (what, value.to_owned());
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        if what == DimensionKind::Path {
            self.spend_steps(self.index.prefixes.len())?;
        }
        let numbers = Rc::new(self.index.allowing(what, value));
        self.spend_steps(numbers.len())?;
        self.known.insert(key, Rc::clone(&numbers));
        Ok(numbers)
    }

    fn spend_steps(&mut self, times: usize) -> Result<(), SearchLimit> {
        self.steps_left = self
            .steps_left
            .checked_sub(times)
            .ok_or(SearchLimit::StepsExhausted)?;
        Ok(())
    }

    /// Reports the uncovered part of a product of values.
    fn product(
        &mut self,
        dimensions: &[Vec<DimensionValue<'_>>],
        part: RuleBuilder<'_>,
    ) -> Result<(), SearchLimit> {
        if dimensions.iter().any(Vec::is_empty) {
            return Ok(());
        }
        let candidates = self.candidates(dimensions)?;
        let whole_from = self.whole_from(dimensions, &candidates)?;
        let mut walk = ProductWalk {
            search: self,
            dimensions,
            whole_from,
            part,
            chosen: Vec::with_capacity(dimensions.len()),
            allowed: BTreeSet::new(),
        };
        walk.walk(candidates).map(drop)
    }

    /// The candidate rules: those that allow a value in the dimension with the fewest such rules.
    fn candidates(
        &mut self,
        dimensions: &[Vec<DimensionValue<'_>>],
    ) -> Result<RuleIds, SearchLimit> {
        let size = |choices: &[DimensionValue<'_>]| {
            choices.iter().map(|c| c.allowed_by.len()).sum::<usize>()
        };
        let fewest = dimensions.iter().min_by_key(|choices| size(choices));
        let fewest = fewest.map_or(&[][..], Vec::as_slice);
        self.spend_steps(size(fewest))?;
        Ok(union(fewest.iter().map(|c| c.allowed_by.as_slice())))
    }

    /// The dimension from which on a candidate allows all remaining values.
    fn whole_from(
        &mut self,
        dimensions: &[Vec<DimensionValue<'_>>],
        candidates: &[u32],
    ) -> Result<BTreeMap<u32, usize>, SearchLimit> {
        let mut whole_from = BTreeMap::new();
        for &number in candidates {
            let mut from = dimensions.len();
            for choices in dimensions.iter().rev() {
                let allowed = choices.iter().take_while(|c| c.is_allowed_by(number));
                let allowed = allowed.count();
                self.spend_steps(1 + allowed)?;
                if allowed < choices.len() {
                    break;
                }
                from -= 1;
            }
            whole_from.insert(number, from);
        }
        Ok(whole_from)
    }

    fn report(&mut self, part: PolicyRule) -> Result<(), SearchLimit> {
        let lists = [
            &part.verbs,
            &part.api_groups,
            &part.resources,
            &part.resource_names,
            &part.non_resource_urls,
        ];
        let bytes = lists.iter().flat_map(|list| list.iter());
        self.reported_bytes += bytes.map(String::len).sum::<usize>();
        let told = self.missing.parts.len();
        if told == REPORTED_RULES_MAX || (told > 0 && self.reported_bytes > REPORTED_BYTES_MAX) {
            return Err(SearchLimit::OutputFull);
        }
        self.missing.parts.push(part);
        Ok(())
    }
}

fn owned(value: Option<&str>) -> Vec<String> {
    value.iter().map(|&value| value.to_owned()).collect()
}

/// Builds a broken-down rule from the chosen values.
type RuleBuilder<'p> = &'p dyn Fn(&[Option<&str>]) -> PolicyRule;

struct ProductWalk<'a, 'r, 'w> {
    search: &'a mut CoverSearch<'r>,
    dimensions: &'a [Vec<DimensionValue<'w>>],
    whole_from: BTreeMap<u32, usize>,
    part: RuleBuilder<'a>,
    chosen: Vec<Option<&'w str>>,
    /// By the number of chosen values: sets of held rules that are known to allow all remaining
    /// values.
    allowed: BTreeSet<(usize, RuleIds)>,
}

impl ProductWalk<'_, '_, '_> {
    /// Whether the candidates, which allow the values chosen so far, allow all remaining values
    /// too. Reports those that they do not allow.
    fn walk(&mut self, candidates: RuleIds) -> Result<bool, SearchLimit> {
        let depth = self.chosen.len();
        let Some(choices) = self.dimensions.get(depth) else {
            if candidates.is_empty() {
                self.search.report((self.part)(&self.chosen))?;
            }
            return Ok(!candidates.is_empty());
        };
        let is_whole = |number: &u32| {
            self.whole_from
                .get(number)
                .is_some_and(|&from| from <= depth)
        };
        if candidates.iter().any(is_whole) {
            return Ok(true);
        }
        let state = (depth, candidates);
        if self.allowed.contains(&state) {
            return Ok(true);
        }
        let candidates = &state.1;
        let mut all = true;
        for choice in choices {
            self.search.spend_steps(1 + candidates.len())?;
            let left = candidates.iter().copied();
            let left = left.filter(|&number| choice.is_allowed_by(number));
            self.chosen.push(choice.value);
            all &= self.walk(left.collect())?;
            self.chosen.pop();
        }
        if all {
            self.allowed.insert(state);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
