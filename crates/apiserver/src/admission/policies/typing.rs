//! Whether the expressions of a policy make sense for the kinds that it is about.
//!
//! A policy works either way: an expression that asks for what is not there fails when it
//! runs. This tells whoever wrote it before that.

use super::compiled::{list, text};
use super::names::{Known, Types, With};
use crate::kinds::{Kind, Kinds};
use crate::server::ApiServer;
use optik_object::Value;
use optik_rules::{CompileError, Program, Type};
use optik_schema::structural::{Structural, shape_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
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
    known: Known,
}

impl<'k> View<'k> {
    fn new(kind: &'k Kind, with: With, types: Types, spec: &Value) -> Self {
        let mut view = Self {
            kind,
            with,
            known: Known::of(types),
        };
        for variable in list(spec, "variables") {
            let compiled = view.compile(text(variable, "expression"));
            let of = compiled.map_or(Type::Dyn, |program| program.output().clone());
            view.known.add(text(variable, "name"), of);
        }
        view
    }

    fn compile(&self, source: &str) -> Result<Program, CompileError> {
        self.known.compile(source, self.with)
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
        let named = Named::by(rule);
        let all = kinds.all.iter();
        let mut named: Vec<_> = all
            .filter_map(|kind| Some((named.place(kind)?, &**kind)))
            .collect();
        named.sort_by_key(|(place, _)| *place);
        let is_full = named.len() >= KINDS_MAX;
        for (_, kind) in named.into_iter().take(KINDS_MAX) {
            let of = &kind.resource;
            found.insert([&of.group, &of.version, &of.kind], kind);
        }
        if is_full {
            break;
        }
    }
    found.into_values().collect()
}

/// The groups, versions and resources of a rule. A rule stands for all combinations of them.
struct Named<'r> {
    groups: BTreeSet<&'r str>,
    versions: BTreeSet<&'r str>,
    resources: BTreeSet<&'r str>,
}

impl<'r> Named<'r> {
    fn by(rule: &'r Value) -> Self {
        let all = |member: &str| -> BTreeSet<&'r str> {
            list(rule, member).filter_map(Value::as_str).collect()
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

    /// Where a kind stands among the combinations, if one of them names it.
    fn place<'k>(&self, kind: &'k Kind) -> Option<[&'k str; 3]> {
        let of = &kind.resource;
        // The core group is no group: its name alone finds others, too.
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
