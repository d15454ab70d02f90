//! Whether the expressions of a policy make sense for the kinds that it is about.
//!
//! A policy works either way: an expression that asks for what is not there fails when it
//! runs. This tells whoever wrote it before that.

use super::compiled::{list, text};
use super::names::{Types, With, names};
use crate::kinds::{Kind, Kinds};
use crate::server::ApiServer;
use optik_object::Value;
use optik_rules::{CompileError, Program, Type};
use optik_schema::structural::{Structural, shape_of};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Expressions are held against so many kinds of one rule.
const KINDS_MAX: usize = 10;

impl ApiServer {
    /// What is odd about the expressions of a ValidatingAdmissionPolicy, as its status says
    /// it: `[{fieldRef, warning}]`.
    pub async fn policy_warnings(&self, policy: Value) -> Vec<Value> {
        let kinds = self.current_kinds();
        // Types are unpacked for it, which others should not have to wait for.
        let found = tokio::task::spawn_blocking(move || warnings(&kinds, &policy["spec"])).await;
        found.unwrap_or_default()
    }
}

fn warnings(kinds: &Kinds, spec: &Value) -> Vec<Value> {
    let about = kinds_of(kinds, spec);
    let params = params_of(kinds, spec);
    let asked: Vec<&Kind> = about.iter().copied().chain(params).collect();
    let types = types_of(&asked);
    let params = match params {
        Some(_) => types.last().cloned().flatten().unwrap_or(Type::Dyn),
        None => Type::Dyn,
    };
    let with = With {
        params: spec["paramKind"].is_object(),
        authorizer: true,
        making: false,
    };
    let views: Vec<View<'_>> = about
        .into_iter()
        .zip(types)
        .filter_map(|(kind, object)| {
            let params = params.clone();
            let object = object?;
            Some(View::new(kind, with, Types { object, params }, spec))
        })
        .collect();
    let mut found = Vec::new();
    for (at, validation) in list(spec, "validations").enumerate() {
        for member in ["expression", "messageExpression"] {
            let source = text(validation, member);
            let complaints = views.iter().filter_map(|view| view.complaint(source));
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

/// The policy for objects of one kind.
struct View<'k> {
    kind: &'k Kind,
    with: With,
    types: Types,
    variables: Vec<(String, Type)>,
}

impl<'k> View<'k> {
    fn new(kind: &'k Kind, with: With, types: Types, spec: &Value) -> Self {
        let mut view = Self {
            kind,
            with,
            types,
            variables: Vec::new(),
        };
        for variable in list(spec, "variables") {
            let compiled = view.compile(text(variable, "expression"));
            let of = compiled.map_or(Type::Dyn, |program| program.output().clone());
            let name = text(variable, "name").to_owned();
            view.variables.push((name, of));
        }
        view
    }

    fn compile(&self, source: &str) -> Result<Program, CompileError> {
        let names = names(self.with, &self.types, &self.variables);
        Program::compile(source, &names, None)
    }

    fn complaint(&self, source: &str) -> Option<String> {
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

/// The kinds that the rules of a policy name, by group, version and kind. What is said with
/// a star may be anything, and is left out.
fn kinds_of<'k>(kinds: &'k Kinds, spec: &Value) -> Vec<&'k Kind> {
    let mut found: BTreeMap<[&str; 3], &Kind> = BTreeMap::new();
    for rule in list(&spec["matchConstraints"], "resourceRules") {
        let mut count = 0;
        for [group, version, plural] in named(rule) {
            for kind in kinds.all.iter().filter(|kind| {
                let of = &kind.resource;
                // The core group is no group: its name alone finds others, too.
                (group.is_empty() || *of.group == *group)
                    && *of.version == *version
                    && *of.plural == *plural
            }) {
                let of = &kind.resource;
                found.insert([&of.group, &of.version, &of.kind], kind);
                count += 1;
                if count == KINDS_MAX {
                    return found.into_values().collect();
                }
            }
        }
    }
    found.into_values().collect()
}

/// The groups, versions and resources of a rule, in their order.
fn named(rule: &Value) -> impl Iterator<Item = [&str; 3]> {
    let sorted = |member: &str| {
        let mut all: Vec<&str> = list(rule, member).filter_map(Value::as_str).collect();
        all.sort_unstable();
        all
    };
    let exact = |member: &str| {
        let all = sorted(member);
        match all.iter().any(|name| name.contains('*')) {
            true => Vec::new(),
            false => all,
        }
    };
    let (groups, versions) = (exact("apiGroups"), exact("apiVersions"));
    let mut resources = sorted("resources");
    resources.retain(|name| !name.contains(['*', '/']));
    groups.into_iter().flat_map(move |group| {
        let resources = resources.clone();
        versions.clone().into_iter().flat_map(move |version| {
            let resources = resources.clone().into_iter();
            resources.map(move |resource| [group, version, resource])
        })
    })
}

fn params_of<'k>(kinds: &'k Kinds, spec: &Value) -> Option<&'k Kind> {
    let (version, kind) = (&spec["paramKind"]["apiVersion"], &spec["paramKind"]["kind"]);
    let (version, kind) = (version.as_str()?, kind.as_str()?);
    let mut all = kinds.all.iter();
    let found = all.find(|known| *known.api_version == *version && *known.resource.kind == *kind);
    found.map(Arc::as_ref)
}

/// What expressions see of objects of some kinds.
fn types_of(kinds: &[&Kind]) -> Vec<Option<Type>> {
    let schemas = optik_openapi::whole(kinds);
    let of = |(kind, schema): (&&Kind, Option<Value>)| {
        let schema = schema?;
        // Some definitions say nothing of what all objects have.
        let bare = !schema["properties"]["metadata"]["properties"].is_object();
        let shape = shape_of(&Structural::read(&schema), bare, &kind.resource.kind)?;
        Some(shape.type_of())
    };
    kinds.iter().zip(schemas).map(of).collect()
}
