//! Policies and bindings, read and compiled.

use super::making;
use super::names::{Known, With};
use crate::admission::matching::Reach;
use crate::labels::selector_of;
use optik_object::selector::LabelSelector;
use optik_object::{Object, Value};
use optik_rules::{Program, Type};

/// What looks at writes.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(super) name: String,
    pub(super) reach: Reach,
    /// What goes wrong is as good as a yes.
    pub(super) fails_open: bool,
    /// The apiVersion and the kind of parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) conditions: Vec<Expression>,
    pub(super) variables: Vec<Expression>,
    pub(super) validations: Vec<Validation>,
    pub(super) annotations: Vec<(String, Expression)>,
    pub(super) mutations: Vec<Mutation>,
    pub(super) reinvoked: bool,
}

/// An expression, or why it cannot be one.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) program: Result<Program, String>,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) expression: Expression,
    pub(super) how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Apply,
    Patch,
}

/// What makes a policy count.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(super) name: String,
    pub(super) policy: String,
    /// Which of the writes that the policy is about; all of them if it says nothing.
    pub(super) reach: Option<Reach>,
    pub(super) params: Option<ParamRef>,
    pub(super) actions: Vec<Action>,
}

#[derive(Debug)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<LabelSelector>,
    pub(super) must_exist: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

impl Action {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

/// What the value of an expression may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Bool,
    String,
    StringOrNull,
    Anything,
    Object,
    Patch,
}

impl Wanted {
    /// What is wrong with a type, if something is.
    fn complaint(self, of: &Type) -> Option<String> {
        let is_made =
            |of: &Type, name: &str| matches!(of, Type::Object(shape) if shape.name == name);
        let (good, wanted) = match self {
            Self::Bool => (matches!(of, Type::Bool), "bool"),
            Self::String => (matches!(of, Type::String), "string"),
            Self::StringOrNull => {
                let good = matches!(of, Type::String | Type::Null);
                return (!good)
                    .then(|| format!("must evaluate to one of [string null_type] but got {of}"));
            }
            Self::Anything => (true, ""),
            Self::Object => (is_made(of, making::OBJECT), "Object"),
            Self::Patch => {
                let good = matches!(of, Type::List(of) if is_made(of, making::PATCH)
                    || matches!(**of, Type::Dyn));
                (good, "list(JSONPatch)")
            }
        };
        // What is known only when it runs is checked then.
        let later = matches!(of, Type::Dyn);
        (!good && !later).then(|| format!("must evaluate to {wanted} but got {of}"))
    }
}

impl Expression {
    pub(super) fn compile(source: &str, with: With, known: &Known, wanted: Wanted) -> Self {
        let program = known.compile(source, with);
        let program = program.map_err(|error| error.to_string());
        let program = program.and_then(|program| match wanted.complaint(program.output()) {
            None => Ok(program),
            Some(why) => Err(why),
        });
        Self {
            text: source.to_owned(),
            program,
        }
    }
}

/// The variables of a policy in their order; each may use those before it.
pub(super) fn variables(spec: &Value, with: With) -> (Vec<Expression>, Known) {
    let mut compiled = Vec::new();
    let mut known = Known::nothing();
    for variable in list(spec, "variables") {
        let expression =
            Expression::compile(text(variable, "expression"), with, &known, Wanted::Anything);
        let of = match &expression.program {
            Ok(program) => program.output().clone(),
            Err(_) => Type::Dyn,
        };
        known.add(text(variable, "name"), of);
        compiled.push(expression);
    }
    (compiled, known)
}

impl Policy {
    pub(super) fn read(object: &Object) -> Self {
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        let param_kind = &spec["paramKind"];
        let with = With {
            params: param_kind.is_object(),
            authorizer: true,
            making: spec["mutations"].is_array(),
        };
        let without_authorizer = With {
            authorizer: false,
            ..with
        };
        let (compiled, known) = variables(spec, with);
        let nothing_known = Known::nothing();
        let bool_with =
            |source: &str, known: &Known| Expression::compile(source, with, known, Wanted::Bool);
        let validations = list(spec, "validations").map(|validation| Validation {
            expression: bool_with(text(validation, "expression"), &known),
            message: text(validation, "message").trim().to_owned(),
            message_expression: match text(validation, "messageExpression") {
                "" => None,
                source => Some(Expression::compile(
                    source,
                    without_authorizer,
                    &known,
                    Wanted::String,
                )),
            },
            reason: text(validation, "reason").to_owned(),
        });
        let annotations = list(spec, "auditAnnotations").map(|annotation| {
            let source = text(annotation, "valueExpression").trim();
            let value = Expression::compile(source, with, &known, Wanted::StringOrNull);
            (text(annotation, "key").to_owned(), value)
        });
        let mutations = list(spec, "mutations").map(|mutation| {
            let (how, source, wanted) = match text(mutation, "patchType") {
                "JSONPatch" => (How::Patch, &mutation["jsonPatch"], Wanted::Patch),
                _ => (How::Apply, &mutation["applyConfiguration"], Wanted::Object),
            };
            let source = text(source, "expression");
            Mutation {
                expression: Expression::compile(source, with, &known, wanted),
                how,
            }
        });
        Self {
            name: object.name().to_owned(),
            reach: Reach::read(&spec["matchConstraints"], "resourceRules"),
            fails_open: text(spec, "failurePolicy") == "Ignore",
            param_kind: param_kind.is_object().then(|| {
                let part = |name| text(param_kind, name).to_owned();
                (part("apiVersion"), part("kind"))
            }),
            conditions: list(spec, "matchConditions")
                .map(|condition| bool_with(text(condition, "expression"), &nothing_known))
                .collect(),
            validations: validations.collect(),
            annotations: annotations.collect(),
            mutations: mutations.collect(),
            variables: compiled,
            reinvoked: text(spec, "reinvocationPolicy") == "IfNeeded",
        }
    }
}

impl Binding {
    pub(super) fn read(object: &Object) -> Self {
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        let reach = &spec["matchResources"];
        let params = &spec["paramRef"];
        Self {
            name: object.name().to_owned(),
            policy: text(spec, "policyName").to_owned(),
            reach: reach
                .is_object()
                .then(|| Reach::read(reach, "resourceRules")),
            params: params.is_object().then(|| ParamRef {
                name: text(params, "name").to_owned(),
                namespace: text(params, "namespace").to_owned(),
                selector: params["selector"]
                    .is_object()
                    .then(|| selector_of(&params["selector"])),
                must_exist: text(params, "parameterNotFoundAction") == "Deny",
            }),
            actions: list(spec, "validationActions")
                .filter_map(|action| match action.as_str()? {
                    "Deny" => Some(Action::Deny),
                    "Warn" => Some(Action::Warn),
                    "Audit" => Some(Action::Audit),
                    _ => None,
                })
                .collect(),
        }
    }
}
