//! Conditions of webhooks, in the same language.

use super::compiled::{Expression, Wanted};
use super::context::{Context, Surroundings};
use super::names::{Known, With};
use crate::access::Gate;
use crate::admission::Attributes;
use crate::admission::conditions::{Condition, Judge};
use optik_object::Object;
use optik_rules::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// So many compiled conditions are kept.
const KEPT_MAX: usize = 1024;

/// Understands conditions; compiles each once.
pub(crate) struct CelJudge {
    gate: Arc<Gate>,
    kept: Mutex<BTreeMap<String, Arc<Expression>>>,
}

impl CelJudge {
    pub(crate) fn new(gate: &Arc<Gate>) -> Self {
        Self {
            gate: Arc::clone(gate),
            kept: Mutex::default(),
        }
    }

    fn compiled(&self, source: &str) -> Arc<Expression> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(source) {
            return Arc::clone(known);
        }
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let with = With {
            authorizer: true,
            ..With::default()
        };
        let compiled = Expression::compile(source, with, &Known::nothing(), Wanted::Bool);
        let compiled = Arc::new(compiled);
        kept.insert(source.to_owned(), Arc::clone(&compiled));
        compiled
    }
}

impl Judge for CelJudge {
    fn is_met(
        &self,
        condition: &Condition,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, String> {
        let expression = self.compiled(&condition.expression);
        let kinds = (&**attributes.kind, &**attributes.of);
        let surroundings = Surroundings::new(attributes, kinds, None, &self.gate);
        let objects = (object, attributes.old);
        let context = Context::new(objects, &surroundings, None, &[]);
        match context.run(&expression) {
            Ok(value) => Ok(matches!(value, Value::Bool(true))),
            Err(trouble) => Err(trouble.text()),
        }
    }
}
