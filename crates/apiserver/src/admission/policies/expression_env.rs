//! The CEL environment of policy expressions: variable names and their types.

use crate::admission::policies::mutation_types::MutationTypes;
use optik_cel::{
    CelType, CompileError, DeclField, DeclKind, DeclType, Environment, ObjectDecl, OpaqueType,
    Program,
};
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

/// The slots of the variables.
pub(super) const OBJECT_SLOT: usize = 0;
pub(super) const OLD_OBJECT_SLOT: usize = 1;
pub(super) const REQUEST_SLOT: usize = 2;
pub(super) const PARAMS_SLOT: usize = 3;
pub(super) const NAMESPACE_OBJECT_SLOT: usize = 4;
pub(super) const AUTHORIZER_SLOT: usize = 5;
pub(super) const REQUEST_RESOURCE_SLOT: usize = 6;
/// The slots of the policy's own variables, under `variables`.
pub(super) const FIRST_VARIABLE_SLOT: usize = 8;

/// A name that no expression can contain.
const UNNAMEABLE: &str = "\0";

/// Which variables are declared besides the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OptionalVariables {
    pub(super) params: bool,
    pub(super) authorizer: bool,
    /// Whether expressions can construct `Object` and `JSONPatch` values.
    pub(super) patch_types: bool,
}

/// The types of objects and parameters.
#[derive(Clone, Debug)]
pub(super) struct VariableTypes {
    pub(super) object: CelType,
    pub(super) params: CelType,
}

impl VariableTypes {
    /// Types for policies that can match any kind.
    pub(super) const UNKNOWN: Self = Self {
        object: CelType::Dyn,
        params: CelType::Dyn,
    };
}

/// The variables of a policy that an expression can use, and the environments derived from them.
/// Environments are cached and extended by each variable instead of being built for each
/// expression: a policy can have as many expressions as variables.
#[derive(Debug)]
pub(super) struct ExpressionEnv {
    types: VariableTypes,
    variables: Vec<(String, CelType)>,
    names_cache: RefCell<Vec<(OptionalVariables, Environment)>>,
}

impl ExpressionEnv {
    pub(super) fn new(types: VariableTypes) -> Self {
        Self {
            types,
            variables: Vec::new(),
            names_cache: RefCell::default(),
        }
    }

    /// The environment without policy variables.
    pub(super) fn without_variables() -> Self {
        Self::new(VariableTypes::UNKNOWN)
    }

    pub(super) fn declare_variable(&mut self, name: &str, of: CelType) {
        let made = self.names_cache.get_mut();
        // Before the first variable, `variables` itself is not declared.
        if self.variables.is_empty() {
            made.clear();
        }
        for (_, names) in made {
            names.add_variable(&format!("variables.{name}"), of.clone());
        }
        self.variables.push((name.to_owned(), of));
    }

    pub(super) fn compile(
        &self,
        source: &str,
        with: OptionalVariables,
    ) -> Result<Program, CompileError> {
        let mut made = self.names_cache.borrow_mut();
        let at = made.iter().position(|(of, _)| *of == with);
        let at = at.unwrap_or_else(|| {
            made.push((with, declared_names(with, &self.types, &self.variables)));
            made.len() - 1
        });
        Program::compile(source, &made[at].1, None)
    }
}

/// The declared names for an expression that follows some variables of its policy.
fn declared_names(
    with: OptionalVariables,
    types: &VariableTypes,
    variables: &[(String, CelType)],
) -> Environment {
    let only_if = |there: bool, name: &'static str| if there { name } else { UNNAMEABLE };
    let empty = CelType::Object(Arc::new(ObjectDecl::new(
        "kubernetes.variables".into(),
        Vec::new(),
    )));
    let mut names = Environment::default()
        .with_variable("object", types.object.clone())
        .with_variable("oldObject", types.object.clone())
        .with_variable("request", REQUEST_SHAPE.type_of())
        .with_variable(only_if(with.params, "params"), types.params.clone())
        .with_variable("namespaceObject", NAMESPACE_SHAPE.type_of())
        .with_variable(
            only_if(with.authorizer, "authorizer"),
            CelType::Opaque(OpaqueType::Authorizer),
        )
        .with_variable(
            only_if(with.authorizer, "authorizer.requestResource"),
            CelType::Opaque(OpaqueType::ResourceCheck),
        )
        .with_variable(only_if(!variables.is_empty(), "variables"), empty);
    for (name, of) in variables {
        names.add_variable(&format!("variables.{name}"), of.clone());
    }
    match with.patch_types {
        true => names.with_type_provider(Arc::new(MutationTypes)),
        false => names,
    }
}

fn shape(kind: DeclKind) -> DeclType {
    DeclType {
        kind,
        elements_max: 0,
        bytes_min: 0,
        nullable: true,
    }
}

fn object(name: &str, fields: Vec<(&str, DeclType)>) -> DeclType {
    let fields = fields.into_iter().map(|(name, shape)| DeclField {
        name: name.into(),
        key: name.into(),
        shape,
    });
    let fields = ObjectDecl::new(name.into(), fields.collect());
    shape(DeclKind::Object(Arc::new(fields)))
}

fn map(of: DeclType) -> DeclType {
    shape(DeclKind::Map(Arc::new(of)))
}

fn list(of: DeclType) -> DeclType {
    shape(DeclKind::List {
        items: Arc::new(of),
        list_type: optik_cel::CelListType::Atomic,
    })
}

static REQUEST_SHAPE: LazyLock<DeclType> = LazyLock::new(|| {
    let text = || shape(DeclKind::String);
    let texts = |name: &str, names: [&'static str; 3]| {
        object(name, names.map(|name| (name, text())).into())
    };
    let kind = || {
        let names = ["group", "version", "kind"];
        texts("kubernetes.GroupVersionKind", names)
    };
    let resource = || {
        let names = ["group", "version", "resource"];
        texts("kubernetes.GroupVersionResource", names)
    };
    let user = object(
        "kubernetes.UserInfo",
        vec![
            ("username", text()),
            ("uid", text()),
            ("groups", list(text())),
            ("extra", map(list(text()))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        vec![
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", shape(DeclKind::Bool)),
            ("options", shape(DeclKind::Any)),
        ],
    )
});

static NAMESPACE_SHAPE: LazyLock<DeclType> = LazyLock::new(|| {
    let text = || shape(DeclKind::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        vec![
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", shape(DeclKind::DateTime)),
            ("deletionGracePeriodSeconds", shape(DeclKind::Int)),
            ("deletionTimestamp", shape(DeclKind::DateTime)),
            ("generation", shape(DeclKind::Int)),
            ("resourceVersion", text()),
            ("finalizers", list(text())),
        ],
    );
    let finalizers = vec![("finalizers", list(text()))];
    object(
        "kubernetes.Namespace",
        vec![
            ("metadata", metadata),
            ("spec", object("kubernetes.NamespaceSpec", finalizers)),
            (
                "status",
                object("kubernetes.NamespaceStatus", vec![("phase", text())]),
            ),
        ],
    )
});

/// The shape by which the JSON of a request is read.
pub(super) fn request_shape() -> &'static DeclType {
    &REQUEST_SHAPE
}

/// The shape by which the JSON of a namespace is read.
pub(super) fn namespace_shape() -> &'static DeclType {
    &NAMESPACE_SHAPE
}
