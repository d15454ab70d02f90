//! Type checking: checks the expressions of a policy against the schemas of the kinds that it
//! matches.
//!
//! The result is only a warning: a policy with type errors is still used, and an expression that
//! refers to a missing field fails when it is evaluated. The warning informs the author earlier.

use crate::admission::policies::expression_env::{ExpressionEnv, OptionalVariables, VariableTypes};
use crate::admission::policies::policy::{items_at, str_at};
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::server::ApiServer;
use optik_cel::{CelType, CompileError, Program};
use optik_object::Value;
use optik_schema::structural::{Structural, shape_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many kinds of one rule expressions are checked against.
const TYPE_CHECKED_KINDS_MAX: usize = 10;

impl ApiServer {
    /// The type checking warnings of a ValidatingAdmissionPolicy, as in its status: `[{fieldRef,
    /// warning}]`.
    pub async fn policy_warnings(&self, policy: Value) -> Vec<Value> {
        let kinds = self.current_registry();
        // Runs on a blocking thread: schemas are unpacked, which would delay other tasks.
        let found =
            tokio::task::spawn_blocking(move || type_warnings(&kinds, &policy["spec"])).await;
        found.unwrap_or_default()
    }
}

fn type_warnings(kinds: &ResourceRegistry, spec: &Value) -> Vec<Value> {
    let about = kinds_of(kinds, spec);
    let params = params_of(kinds, spec);
    let asked: Vec<&ServedResource> = about.iter().copied().chain(params).collect();
    let types = types_of(&asked);
    let params = match params {
        Some(_) => types.last().cloned().flatten().unwrap_or(CelType::Dyn),
        None => CelType::Dyn,
    };
    let with = OptionalVariables {
        params: spec["paramKind"].is_object(),
        authorizer: true,
        patch_types: false,
    };
    let views: Vec<TypeCheck<'_>> = about
        .into_iter()
        .zip(types)
        .filter_map(|(kind, object)| {
            let params = params.clone();
            let object = object?;
            Some(TypeCheck::new(
                kind,
                with,
                VariableTypes { object, params },
                spec,
            ))
        })
        .collect();
    let mut found = Vec::new();
    for (at, validation) in items_at(spec, "validations").enumerate() {
        for member in ["expression", "messageExpression"] {
            let source = str_at(validation, member);
            let complaints = views.iter().filter_map(|view| view.type_error(source));
            let complaints: Vec<String> = complaints.collect();
            if !source.is_empty() && !complaints.is_empty() {
                found.push(json!({
                    "fieldRef": format!("spec.validations[{at}].{member}"),
                    "warning": complaints.join("\n"),
                }));
            }
        }
    }
    found
}

/// Type checking of a policy for objects of one kind.
struct TypeCheck<'k> {
    kind: &'k ServedResource,
    optional: OptionalVariables,
    env: ExpressionEnv,
}

impl<'k> TypeCheck<'k> {
    fn new(
        kind: &'k ServedResource,
        with: OptionalVariables,
        types: VariableTypes,
        spec: &Value,
    ) -> Self {
        let mut view = Self {
            kind,
            optional: with,
            env: ExpressionEnv::new(types),
        };
        for variable in items_at(spec, "variables") {
            let compiled = view.compile(str_at(variable, "expression"));
            let of = compiled.map_or(CelType::Dyn, |program| program.output().clone());
            view.env.declare_variable(str_at(variable, "name"), of);
        }
        view
    }

    fn compile(&self, source: &str) -> Result<Program, CompileError> {
        self.env.compile(source, self.optional)
    }

    fn type_error(&self, source: &str) -> Option<String> {
        let resource = &self.kind.resource;
        match self.compile(source) {
            Err(CompileError::Issues(issues)) => Some(format!(
                "{}/{}, Kind={}: {issues}\n",
                resource.group, resource.version, resource.kind
            )),
            Err(CompileError::Program(_)) | Ok(_) => None,
        }
    }
}

/// The kinds that the rules of a policy name, by group, version and kind. Wildcards can match any
/// kind and are left out.
fn kinds_of<'k>(kinds: &'k ResourceRegistry, spec: &Value) -> Vec<&'k ServedResource> {
    let mut found: BTreeMap<[&str; 3], &ServedResource> = BTreeMap::new();
    for rule in items_at(&spec["matchConstraints"], "resourceRules") {
        let named = RuleCombinations::from_rule(rule);
        let all = kinds.all.iter();
        let mut named: Vec<_> = all
            .filter_map(|kind| Some((named.combination_of(kind)?, &**kind)))
            .collect();
        named.sort_by_key(|(place, _)| *place);
        let is_full = named.len() >= TYPE_CHECKED_KINDS_MAX;
        for (_, kind) in named.into_iter().take(TYPE_CHECKED_KINDS_MAX) {
            let of = &kind.resource;
            found.insert([&of.group, &of.version, &of.kind], kind);
        }
        if is_full {
            break;
        }
    }
    found.into_values().collect()
}

/// The groups, versions and resources of a rule. A rule means all their combinations.
struct RuleCombinations<'r> {
    groups: BTreeSet<&'r str>,
    versions: BTreeSet<&'r str>,
    resources: BTreeSet<&'r str>,
}

impl<'r> RuleCombinations<'r> {
    fn from_rule(rule: &'r Value) -> Self {
        let all = |member: &str| -> BTreeSet<&'r str> {
            items_at(rule, member).filter_map(Value::as_str).collect()
        };
        let exact = |member: &str| {
            let all = all(member);
            match all.iter().any(|name| name.contains('*')) {
                true => BTreeSet::new(),
                false => all,
            }
        };
        let mut resources = all("resources");
        resources.retain(|name| !name.contains(['*', '/']));
        Self {
            groups: exact("apiGroups"),
            versions: exact("apiVersions"),
            resources,
        }
    }

    /// The position of a kind among the combinations, if one of them names it.
    fn combination_of<'k>(&self, kind: &'k ServedResource) -> Option<[&'k str; 3]> {
        let of = &kind.resource;
        // A rule with the core group (`""`) matches kinds of other groups, too.
        let group = match self.groups.contains("") {
            true => "",
            false => &*of.group,
        };
        let is_named = self.groups.contains(group)
            && self.versions.contains(&*of.version)
            && self.resources.contains(&*of.plural);
        is_named.then_some([group, &of.version, &of.plural])
    }
}

fn params_of<'k>(kinds: &'k ResourceRegistry, spec: &Value) -> Option<&'k ServedResource> {
    let (version, kind) = (&spec["paramKind"]["apiVersion"], &spec["paramKind"]["kind"]);
    let (version, kind) = (version.as_str()?, kind.as_str()?);
    let mut all = kinds.all.iter();
    let found = all.find(|known| *known.api_version == *version && *known.resource.kind == *kind);
    found.map(Arc::as_ref)
}

/// The CEL types of the objects of some kinds.
fn types_of(kinds: &[&ServedResource]) -> Vec<Option<CelType>> {
    let schemas = optik_openapi::resolve_schemas(kinds);
    let of = |(kind, schema): (&&ServedResource, Option<Value>)| {
        let schema = schema?;
        // Some definitions have no properties under `metadata`.
        let bare = !schema["properties"]["metadata"]["properties"].is_object();
        let shape = shape_of(&Structural::from_json(&schema), bare, &kind.resource.kind)?;
        Some(shape.type_of())
    };
    kinds.iter().zip(schemas).map(of).collect()
}
