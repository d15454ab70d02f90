//! Admission policies and their bindings, parsed and compiled.

use crate::admission::matching::MatchResources;
use crate::admission::policies::expression_env::{ExpressionEnv, OptionalVariables};
use crate::admission::policies::mutation_types;
use crate::registry::label_selector::parse_label_selector;
use optik_cel::{CelType, Program};
use optik_object::selector::LabelSelector;
use optik_object::{Object, Value};

/// A compiled ValidatingAdmissionPolicy or MutatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct AdmissionPolicy {
    pub(super) name: String,
    pub(super) match_constraints: MatchResources,
    /// `failurePolicy: Ignore`: a failure admits the write.
    pub(super) ignores_failure: bool,
    /// apiVersion and kind of parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) match_conditions: Vec<PolicyExpression>,
    pub(super) variables: Vec<PolicyExpression>,
    pub(super) validations: Vec<PolicyValidation>,
    pub(super) audit_annotations: Vec<(String, PolicyExpression)>,
    pub(super) mutations: Vec<PolicyMutation>,
    pub(super) reinvocation_if_needed: bool,
}

/// A compiled expression, or its compile error.
#[derive(Debug)]
pub(super) struct PolicyExpression {
    pub(super) text: String,
    pub(super) program: Result<Program, String>,
}

#[derive(Debug)]
pub(super) struct PolicyValidation {
    pub(super) expression: PolicyExpression,
    pub(super) message: String,
    pub(super) message_expression: Option<PolicyExpression>,
    pub(super) reason: String,
}

#[derive(Debug)]
pub(super) struct PolicyMutation {
    pub(super) expression: PolicyExpression,
    pub(super) patch_type: MutationPatchType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationPatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// A policy binding, which activates a policy.
#[derive(Debug)]
pub(crate) struct PolicyBinding {
    pub(super) name: String,
    pub(super) policy: String,
    /// Restricts the writes that the policy matches; `None`: no restriction.
    pub(super) match_resources: Option<MatchResources>,
    pub(super) params: Option<ParamRef>,
    pub(super) validation_actions: Vec<ValidationAction>,
}

#[derive(Debug)]
pub(super) struct ParamRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<LabelSelector>,
    pub(super) must_exist: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidationAction {
    Deny,
    Warn,
    Audit,
}

impl ValidationAction {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

pub(super) fn str_at<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

pub(super) fn items_at<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value[name].as_array().into_iter().flatten()
}

/// The result type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedResultType {
    Bool,
    String,
    StringOrNull,
    Anything,
    Object,
    JsonPatch,
}

impl ExpectedResultType {
    /// The error if an expression has the wrong result type.
    fn type_mismatch(self, of: &CelType) -> Option<String> {
        let is_made =
            |of: &CelType, name: &str| matches!(of, CelType::Object(shape) if shape.name == name);
        let (good, wanted) = match self {
            Self::Bool => (matches!(of, CelType::Bool), "bool"),
            Self::String => (matches!(of, CelType::String), "string"),
            Self::StringOrNull => {
                let good = matches!(of, CelType::String | CelType::Null);
                return (!good)
                    .then(|| format!("must evaluate to one of [string null_type] but got {of}"));
            }
            Self::Anything => (true, ""),
            Self::Object => (is_made(of, mutation_types::OBJECT_TYPE), "Object"),
            Self::JsonPatch => {
                let good = matches!(of, CelType::List(of) if is_made(of, mutation_types::JSON_PATCH_TYPE)
                    || matches!(**of, CelType::Dyn));
                (good, "list(JSONPatch)")
            }
        };
        // A dynamic type is checked at evaluation.
        let later = matches!(of, CelType::Dyn);
        (!good && !later).then(|| format!("must evaluate to {wanted} but got {of}"))
    }
}

impl PolicyExpression {
    pub(super) fn compile(
        source: &str,
        with: OptionalVariables,
        known: &ExpressionEnv,
        wanted: ExpectedResultType,
    ) -> Self {
        let program = known.compile(source, with);
        let program = program.map_err(|error| error.to_string());
        let program = program.and_then(|program| match wanted.type_mismatch(program.output()) {
            None => Ok(program),
            Some(why) => Err(why),
        });
        Self {
            text: source.to_owned(),
            program,
        }
    }
}

/// Compiles the variables of a policy in order; each can use the previous ones.
pub(super) fn variables(
    spec: &Value,
    with: OptionalVariables,
) -> (Vec<PolicyExpression>, ExpressionEnv) {
    let mut compiled = Vec::new();
    let mut known = ExpressionEnv::without_variables();
    for variable in items_at(spec, "variables") {
        let expression = PolicyExpression::compile(
            str_at(variable, "expression"),
            with,
            &known,
            ExpectedResultType::Anything,
        );
        let of = match &expression.program {
            Ok(program) => program.output().clone(),
            Err(_) => CelType::Dyn,
        };
        known.declare_variable(str_at(variable, "name"), of);
        compiled.push(expression);
    }
    (compiled, known)
}

impl AdmissionPolicy {
    pub(super) fn read(object: &Object) -> Self {
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        let param_kind = &spec["paramKind"];
        let with = OptionalVariables {
            params: param_kind.is_object(),
            authorizer: true,
            patch_types: spec["mutations"].is_array(),
        };
        let without_authorizer = OptionalVariables {
            authorizer: false,
            ..with
        };
        let (compiled, known) = variables(spec, with);
        let nothing_known = ExpressionEnv::without_variables();
        let bool_with = |source: &str, known: &ExpressionEnv| {
            PolicyExpression::compile(source, with, known, ExpectedResultType::Bool)
        };
        let validations = items_at(spec, "validations").map(|validation| PolicyValidation {
            expression: bool_with(str_at(validation, "expression"), &known),
            message: str_at(validation, "message").trim().to_owned(),
            message_expression: match str_at(validation, "messageExpression") {
                "" => None,
                source => Some(PolicyExpression::compile(
                    source,
                    without_authorizer,
                    &known,
                    ExpectedResultType::String,
                )),
            },
            reason: str_at(validation, "reason").to_owned(),
        });
        let annotations = items_at(spec, "auditAnnotations").map(|annotation| {
            let source = str_at(annotation, "valueExpression").trim();
            let value =
                PolicyExpression::compile(source, with, &known, ExpectedResultType::StringOrNull);
            (str_at(annotation, "key").to_owned(), value)
        });
        let mutations = items_at(spec, "mutations").map(|mutation| {
            let (how, source, wanted) = match str_at(mutation, "patchType") {
                "JSONPatch" => (
                    MutationPatchType::JsonPatch,
                    &mutation["jsonPatch"],
                    ExpectedResultType::JsonPatch,
                ),
                _ => (
                    MutationPatchType::ApplyConfiguration,
                    &mutation["applyConfiguration"],
                    ExpectedResultType::Object,
                ),
            };
            let source = str_at(source, "expression");
            PolicyMutation {
                expression: PolicyExpression::compile(source, with, &known, wanted),
                patch_type: how,
            }
        });
        Self {
            name: object.name().to_owned(),
            match_constraints: MatchResources::read(&spec["matchConstraints"], "resourceRules"),
            ignores_failure: str_at(spec, "failurePolicy") == "Ignore",
            param_kind: param_kind.is_object().then(|| {
                let part = |name| str_at(param_kind, name).to_owned();
                (part("apiVersion"), part("kind"))
            }),
            match_conditions: items_at(spec, "matchConditions")
                .map(|condition| bool_with(str_at(condition, "expression"), &nothing_known))
                .collect(),
            validations: validations.collect(),
            audit_annotations: annotations.collect(),
            mutations: mutations.collect(),
            variables: compiled,
            reinvocation_if_needed: str_at(spec, "reinvocationPolicy") == "IfNeeded",
        }
    }
}

impl PolicyBinding {
    pub(super) fn read(object: &Object) -> Self {
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        let reach = &spec["matchResources"];
        let params = &spec["paramRef"];
        Self {
            name: object.name().to_owned(),
            policy: str_at(spec, "policyName").to_owned(),
            match_resources: reach
                .is_object()
                .then(|| MatchResources::read(reach, "resourceRules")),
            params: params.is_object().then(|| ParamRef {
                name: str_at(params, "name").to_owned(),
                namespace: str_at(params, "namespace").to_owned(),
                selector: params["selector"]
                    .is_object()
                    .then(|| parse_label_selector(&params["selector"])),
                must_exist: str_at(params, "parameterNotFoundAction") == "Deny",
            }),
            validation_actions: items_at(spec, "validationActions")
                .filter_map(|action| match action.as_str()? {
                    "Deny" => Some(ValidationAction::Deny),
                    "Warn" => Some(ValidationAction::Warn),
                    "Audit" => Some(ValidationAction::Audit),
                    _ => None,
                })
                .collect(),
        }
    }
}
