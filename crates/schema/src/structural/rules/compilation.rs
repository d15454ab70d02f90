//! Compilation of the CEL rules of a schema.

use super::field_path::normalize;
use super::shape::shape_of;
use crate::structural::{Structural, ValidationRule};
use optik_cel::{CelType, DeclKind, DeclType, Environment, Program, escape};

/// The indices of the variables of rules.
pub(super) const SELF: usize = 0;
pub(super) const OLD_SELF: usize = 1;

/// The rules of a schema node and of the nodes below it.
#[derive(Debug)]
pub struct RuleTree {
    pub(super) shape: DeclType,
    pub(super) own: Vec<CompiledRule>,
    /// Sorted by name.
    pub(super) properties: Vec<(Box<str>, Self)>,
    pub(super) items: Option<Box<Self>>,
    pub(super) additional: Option<Box<Self>>,
    /// The rules in `allOf`, which apply to the same value.
    pub(super) all_of: Vec<Self>,
}

/// A compiled rule, or its compilation error.
#[derive(Debug)]
pub(super) struct CompiledRule {
    pub(super) rule: ValidationRule,
    pub(super) program: Result<Program, String>,
    pub(super) message: Option<Result<Program, String>>,
    /// The rule uses `oldSelf`.
    pub(super) uses_old: bool,
    pub(super) field_path: String,
}

impl CompiledRule {
    pub(super) fn optional_old(&self) -> bool {
        self.rule.optional_old_self == Some(true)
    }

    /// The text that identifies the rule in an error about its evaluation: its message, or the
    /// rule.
    pub(super) fn message_or_rule(&self) -> &str {
        match self.rule.message.trim() {
            "" => self.rule.rule.trim(),
            message => message,
        }
    }
}

impl RuleTree {
    /// Compiles the rules of a whole resource; `None` if the schema has none.
    #[must_use]
    pub fn compile(schema: &Structural) -> Option<Self> {
        Self::compile_at(schema, true)
    }

    /// The maximum cost of running each rule once.
    #[must_use]
    pub fn cost_max(&self) -> u64 {
        let programs = self.own.iter().filter_map(|one| one.program.as_ref().ok());
        let own = programs.map(optik_cel::Program::cost_max);
        let properties = self.properties.iter().map(|(_, rules)| rules);
        let others = [&self.items, &self.additional].into_iter().flatten();
        let below = properties
            .chain(others.map(|rules| &**rules))
            .chain(&self.all_of);
        own.chain(below.map(Self::cost_max))
            .fold(0, u64::saturating_add)
    }

    /// Compiles the rules of a part of a resource; `resource` is set if the part is a resource
    /// itself.
    #[must_use]
    pub fn compile_at(schema: &Structural, resource: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        let shape = shape_of(schema, resource, "selfType")?;
        compile_tree(schema, schema, shape)
    }
}

/// `said` is the schema with the rules, `node` the schema that declares the type. They differ below
/// `allOf`.
fn compile_tree(said: &Structural, node: &Structural, shape: DeclType) -> Option<RuleTree> {
    let own = compile_rules(said.rules(), node, &shape);
    let mut properties = Vec::new();
    for (name, child) in &said.properties {
        let Some(declared) = node.property(name).filter(|_| child.has_rules()) else {
            continue;
        };
        let of = match (escape(name), &shape.kind) {
            (Some(escaped), DeclKind::Object(object)) => {
                object.field(&escaped).map(|field| field.shape.clone())
            }
            _ => shape_of(declared, declared.embedded, "selfType"),
        };
        if let Some(rules) = of.and_then(|of| compile_tree(child, declared, of)) {
            properties.push((name.clone(), rules));
        }
    }
    let below =
        |child: Option<&Structural>, declared: Option<&Structural>, of: Option<&DeclType>| {
            let (child, declared) = (child?, declared?);
            let rules = child
                .has_rules()
                .then(|| compile_tree(child, declared, of?.clone()));
            rules?.map(Box::new)
        };
    let (item, value) = match &shape.kind {
        DeclKind::List { items, .. } => (Some(&**items), None),
        DeclKind::Map(values) => (None, Some(&**values)),
        _ => (None, None),
    };
    let items = below(said.items.as_deref(), node.items.as_deref(), item);
    let additional = below(said.additional_schema(), node.additional_schema(), value);
    let branches = said.junctors().map(|junctors| junctors.all_of.as_slice());
    let branches = branches.unwrap_or_default().iter();
    let all_of = branches
        .filter(|branch| branch.has_rules())
        .filter_map(|branch| compile_tree(branch, node, shape.clone()))
        .collect();
    Some(RuleTree {
        shape,
        own,
        properties,
        items,
        additional,
        all_of,
    })
}

pub(super) fn compile_rules(
    rules: &[ValidationRule],
    node: &Structural,
    shape: &DeclType,
) -> Vec<CompiledRule> {
    rules
        .iter()
        .map(|rule| compile_rule(rule, node, shape))
        .collect()
}

fn compile_rule(rule: &ValidationRule, node: &Structural, shape: &DeclType) -> CompiledRule {
    let of = shape.type_of();
    let old = match rule.optional_old_self {
        Some(true) => CelType::optional(of.clone()),
        _ => of.clone(),
    };
    let names = Environment::default()
        .with_variable("self", of)
        .with_variable("oldSelf", old);
    let program = Program::compile(&rule.rule, &names, Some(shape));
    let program = program
        .map_err(|error| error.to_string())
        .and_then(|program| match program.output() {
            CelType::Bool => Ok(program),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        });
    let uses_old = program.as_ref().is_ok_and(|program| program.uses(OLD_SELF));
    let message = (program.is_ok() && !rule.message_expression.is_empty()).then(|| {
        let program = Program::compile(&rule.message_expression, &names, Some(shape));
        let program = program.map_err(|error| format!("messageExpression {error}"))?;
        match program.output() {
            CelType::String => Ok(program),
            _ => Err("messageExpression must evaluate to a string".to_owned()),
        }
    });
    let field_path = match rule.field_path.as_str() {
        "" => String::new(),
        path => normalize(path, node).unwrap_or_default(),
    };
    CompiledRule {
        rule: rule.clone(),
        program,
        message,
        uses_old,
        field_path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cost(schema: Value, source: &str) -> u64 {
        let mut schema = schema;
        schema["x-kubernetes-validations"] = json!([{"rule": source}]);
        let node = Structural::from_json(&schema);
        let shape = shape_of(&node, false, "selfType").unwrap();
        let compiled = compile_rules(node.rules(), &node, &shape);
        compiled[0].program.as_ref().unwrap().cost_max()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "schemas are made where they are used"
    )]
    fn list(items: Value) -> Value {
        json!({"type": "array", "items": items})
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "schemas are made where they are used"
    )]
    fn map(values: Value) -> Value {
        json!({"type": "object", "additionalProperties": values})
    }

    /// The costs of the rules of all nodes are summed, each counted once.
    #[test]
    fn rule_costs_of_all_places_are_summed() {
        let rule = |source: &str| json!([{"rule": source}]);
        let schema = json!({"type": "object", "x-kubernetes-validations": rule("true"),
            "properties": {"a": {"type": "array", "items": {"type": "string",
                "x-kubernetes-validations": rule("self.contains('test')")}}}});
        let rules = RuleTree::compile_at(&Structural::from_json(&schema), false).unwrap();
        assert_eq!(rules.cost_max(), 314_574);
    }

    /// CRDs are rejected by these estimates, so the expected values are those of upstream's own
    /// tests.
    #[test]
    fn rule_cost_estimates_match_upstream() {
        let of = |name: &str| json!({"type": name});
        let formatted = |format: &str| json!({"type": "string", "format": format});
        let either = || json!({"x-kubernetes-int-or-string": true});
        let all = "self.all(x, true)";
        for (schema, source, expected) in [
            (list(of("number")), all, 4_718_591),
            (list(of("string")), all, 3_145_727),
            (list(of("boolean")), all, 1_887_437),
            (list(list(of("number"))), all, 3_145_727),
            (map(of("number")), all, 1_348_169),
            (map(of("string")), all, 1_179_647),
            (map(of("boolean")), all, 943_718),
            (list(either()), all, 4_718_591),
            (map(either()), all, 1_348_169),
            (list(formatted("duration")), all, 2_359_295),
            (list(formatted("date")), all, 725_936),
            (list(formatted("date-time")), all, 428_963),
            (of("string"), "self.contains('test')", 314_574),
            (of("string"), "self.startsWith('test')", 2),
            (of("string"), "self.endsWith('test')", 2),
            (
                of("string"),
                "size(self + \"hello\") > size(\"hello\")",
                314_578,
            ),
            (list(of("number")), "self[1] == 0.0", 2),
            (list(of("number")), "self.all(x, x == 0.0)", 6_291_454),
            (list(either()), "self[0] == 5", 3),
            (list(of("boolean")), "self[0] == false", 2),
            (list(list(of("number"))), "self[0][0] == -1.0", 3),
            (list(map(of("number"))), "self[0].x > 2.0", 4),
            (
                list(map(of("number"))),
                "self.all(x, x.y == 25.2)",
                6_291_452,
            ),
            (list(formatted("duration")), "self[0].getHours() == 2", 4),
            (list(formatted("date")), "self[2].getDayOfMonth() == 13", 4),
            (
                list(formatted("date-time")),
                "self[2].getMinutes() == 45",
                4,
            ),
        ] {
            assert_eq!(
                cost(schema.clone(), source),
                expected,
                "{source} of {schema}"
            );
        }
    }
}
