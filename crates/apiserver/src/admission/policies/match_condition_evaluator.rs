//! Evaluates CEL match conditions of webhooks.

use crate::admission::AdmissionAttributes;
use crate::admission::match_conditions::{MatchCondition, MatchConditionEvaluator};
use crate::admission::policies::evaluation_context::{EvaluationContext, ExpressionInputs};
use crate::admission::policies::expression_env::{ExpressionEnv, OptionalVariables};
use crate::admission::policies::policy::{ExpectedResultType, PolicyExpression};
use crate::auth::RbacAuthorizer;
use optik_cel::Value;
use optik_object::Object;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of compiled conditions that are cached.
const COMPILED_CONDITIONS_MAX: usize = 1024;

/// Compiles match conditions, each once, and evaluates them.
pub(crate) struct CelMatchConditions {
    authorizer: Arc<RbacAuthorizer>,
    cache: Mutex<BTreeMap<String, Arc<PolicyExpression>>>,
}

impl CelMatchConditions {
    pub(crate) fn new(gate: &Arc<RbacAuthorizer>) -> Self {
        Self {
            authorizer: Arc::clone(gate),
            cache: Mutex::default(),
        }
    }

    fn get_or_compile(&self, source: &str) -> Arc<PolicyExpression> {
        let mut kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(source) {
            return Arc::clone(known);
        }
        if kept.len() >= COMPILED_CONDITIONS_MAX {
            kept.clear();
        }
        let with = OptionalVariables {
            authorizer: true,
            ..OptionalVariables::default()
        };
        let compiled = PolicyExpression::compile(
            source,
            with,
            &ExpressionEnv::without_variables(),
            ExpectedResultType::Bool,
        );
        let compiled = Arc::new(compiled);
        kept.insert(source.to_owned(), Arc::clone(&compiled));
        compiled
    }
}

impl MatchConditionEvaluator for CelMatchConditions {
    fn is_met(
        &self,
        condition: &MatchCondition,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Object>,
    ) -> Result<bool, String> {
        let expression = self.get_or_compile(&condition.expression);
        let kinds = (&**attributes.resource, &**attributes.object_kind);
        let surroundings = ExpressionInputs::new(attributes, kinds, None, &self.authorizer);
        let objects = (object, attributes.old);
        let context = EvaluationContext::new(objects, &surroundings, None, &[]);
        match context.evaluate(&expression) {
            Ok(value) => Ok(matches!(value, Value::Bool(true))),
            Err(trouble) => Err(trouble.message()),
        }
    }
}
