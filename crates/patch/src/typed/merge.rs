//! Merging of an applied configuration into an object.

use super::shape::{ListShape, MapShape, ValueShape, root, shape};
use crate::fieldset::PathElement;
use optik_object::{Map, Value};
use optik_schema::TypeRef;
use std::collections::BTreeMap;

/// Merges `config` into `live`: atomic values and scalars are replaced, maps and associative lists
/// are merged.
pub fn merge(of: TypeRef<'_>, live: &mut Map, config: &Map) {
    merge_members(root(of), live, config);
}

fn merge_values(of: TypeRef<'_>, live: &mut Value, config: &Value) {
    match (shape(of, Some(config)), &mut *live, config) {
        (ValueShape::Map(map), Value::Object(live), Value::Object(config))
            if !map.atomic && !live.is_empty() =>
        {
            merge_members(map, live, config);
        }
        // Null does not remove a non-empty map or list of other managers.
        (ValueShape::Map(map), Value::Object(live), Value::Null)
            if !map.atomic && !live.is_empty() => {}
        (ValueShape::List(list), Value::Array(live), Value::Array(config))
            if !list.is_atomic() && !live.is_empty() =>
        {
            *live = merge_items(list, std::mem::take(live), config);
        }
        (ValueShape::List(list), Value::Array(live), Value::Null)
            if !list.is_atomic() && !live.is_empty() => {}
        _ => *live = config.clone(),
    }
}

fn merge_members(map: MapShape<'_>, live: &mut Map, config: &Map) {
    for (name, value) in config {
        match live.get_mut(name) {
            Some(live) => merge_values(map.member(name).type_ref(), live, value),
            None => drop(live.insert(name.clone(), value.clone())),
        }
    }
}

/// The indices of the items of one identity in the live list, and whether the configuration has the
/// identity, too.
#[derive(Default)]
struct ItemPlacement {
    live: Vec<usize>,
    config: Option<usize>,
    is_merged: bool,
}

/// Merges two lists. Equal heads are merged. A live head that the configuration has later is
/// skipped, unless it is the next common item; a live head that the configuration lacks is kept;
/// otherwise the head of the configuration is next.
///
/// Live `[1,2,3,4]` and configuration `[3,9,1]` give `[2,3,4,9,1]`.
fn merge_items(list: ListShape<'_>, live: Vec<Value>, config: &[Value]) -> Vec<Value> {
    let lives: Vec<Option<PathElement>> = live.iter().map(|it| list.identity(it).ok()).collect();
    let configs: Vec<Option<PathElement>> =
        config.iter().map(|it| list.identity(it).ok()).collect();
    let mut places: BTreeMap<&PathElement, ItemPlacement> = BTreeMap::new();
    for (at, element) in lives.iter().enumerate() {
        if let Some(element) = element {
            places.entry(element).or_default().live.push(at);
        }
    }
    for (at, element) in configs.iter().enumerate() {
        if let Some(element) = element {
            places.entry(element).or_default().config.get_or_insert(at);
        }
    }
    let shared = configs.iter().flatten();
    let shared = shared.filter(|it| places.get(it).is_some_and(|place| !place.live.is_empty()));
    let mut shared: Vec<&PathElement> = shared.collect();
    shared.reverse();

    let mut merging = ItemMerger {
        list,
        live: live.into_iter().map(Some).collect(),
        config,
        placements: places,
        out: Vec::new(),
    };
    let (mut l, mut c) = (0, 0);
    while l < lives.len() || c < configs.len() {
        let head = lives.get(l);
        if let (Some(Some(head)), Some(Some(next))) = (head, configs.get(c)) {
            if head == next {
                merging.take_config(c, head);
                (l, c) = (l + 1, c + 1);
                shared.pop();
                continue;
            }
            if merging.is_in_config(head) && shared.last().is_some_and(|next| *next != head) {
                l += 1;
                continue;
            }
        }
        match head {
            Some(Some(head)) if merging.is_in_config(head) => {
                l += usize::from(merging.is_merged(head));
            }
            Some(_) => {
                merging.take_live(l);
                l += 1;
                continue;
            }
            None => {}
        }
        match configs.get(c) {
            Some(Some(next)) => {
                merging.take_config(c, next);
                shared.pop_if(|shared| *shared == next);
            }
            Some(None) => merging.out.push(config[c].clone()),
            None => {}
        }
        c += 1;
    }
    merging.out
}

struct ItemMerger<'a> {
    list: ListShape<'a>,
    live: Vec<Option<Value>>,
    config: &'a [Value],
    placements: BTreeMap<&'a PathElement, ItemPlacement>,
    out: Vec<Value>,
}

impl ItemMerger<'_> {
    fn is_in_config(&self, element: &PathElement) -> bool {
        let place = self.placements.get(element);
        place.is_some_and(|place| place.config.is_some())
    }

    fn is_merged(&self, element: &PathElement) -> bool {
        self.placements
            .get(element)
            .is_some_and(|place| place.is_merged)
    }

    fn take_live(&mut self, at: usize) {
        self.out.extend(self.live[at].take());
    }

    /// Takes an item of the configuration, merged with the live item of the same identity. If there
    /// are several such live items, the configuration replaces them all.
    fn take_config(&mut self, at: usize, element: &PathElement) {
        let Some(place) = self.placements.get_mut(element) else {
            return;
        };
        place.is_merged = true;
        let live = match place.live[..] {
            [only] => self.live[only].take(),
            _ => None,
        };
        let config = &self.config[at];
        self.out.push(match live {
            Some(mut live) => {
                merge_values(self.list.of, &mut live, config);
                live
            }
            None => config.clone(),
        });
    }
}
