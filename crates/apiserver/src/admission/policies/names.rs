//! The names that expressions of policies can use.

use super::making::Making;
use optik_rules::{
    CompileError, FieldShape, Library, Names, ObjectShape, Program, Shape, ShapeKind, Type,
};
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

/// The places of the variables.
pub(super) const OBJECT: usize = 0;
pub(super) const OLD_OBJECT: usize = 1;
pub(super) const REQUEST: usize = 2;
pub(super) const PARAMS: usize = 3;
pub(super) const NAMESPACE_OBJECT: usize = 4;
pub(super) const AUTHORIZER: usize = 5;
pub(super) const REQUEST_RESOURCE: usize = 6;
/// And those of the policy itself, behind `variables`.
pub(super) const OWN: usize = 8;

/// No expression can say this.
const UNSAID: &str = "\0";

/// What there is besides the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct With {
    pub(super) params: bool,
    pub(super) authorizer: bool,
    /// Objects and patches can be made.
    pub(super) making: bool,
}

/// Of which types objects and parameters are taken to be.
#[derive(Clone, Debug)]
pub(super) struct Types {
    pub(super) object: Type,
    pub(super) params: Type,
}

impl Types {
    /// A policy may be about anything.
    pub(super) const UNKNOWN: Self = Self {
        object: Type::Dyn,
        params: Type::Dyn,
    };
}

/// The variables of a policy that an expression can use, and the names that follow from them:
/// a policy may have as many expressions as variables, so they are not made anew for each.
#[derive(Debug)]
pub(super) struct Known {
    types: Types,
    variables: Vec<(String, Type)>,
    made: RefCell<Vec<(With, Names)>>,
}

impl Known {
    pub(super) fn of(types: Types) -> Self {
        Self {
            types,
            variables: Vec::new(),
            made: RefCell::default(),
        }
    }

    /// Nothing but what every expression can use.
    pub(super) fn nothing() -> Self {
        Self::of(Types::UNKNOWN)
    }

    pub(super) fn add(&mut self, name: &str, of: Type) {
        let made = self.made.get_mut();
        // Before the first one, `variables` itself is no name.
        if self.variables.is_empty() {
            made.clear();
        }
        for (_, names) in made {
            names.add(&format!("variables.{name}"), of.clone());
        }
        self.variables.push((name.to_owned(), of));
    }

    pub(super) fn compile(&self, source: &str, with: With) -> Result<Program, CompileError> {
        let mut made = self.made.borrow_mut();
        let at = made.iter().position(|(of, _)| *of == with);
        let at = at.unwrap_or_else(|| {
            made.push((with, names(with, &self.types, &self.variables)));
            made.len() - 1
        });
        Program::compile(source, &made[at].1, None)
    }
}

/// The names for an expression behind some variables of its policy.
fn names(with: With, types: &Types, variables: &[(String, Type)]) -> Names {
    let only_if = |there: bool, name: &'static str| if there { name } else { UNSAID };
    let empty = Type::Object(Arc::new(ObjectShape::new(
        "kubernetes.variables".into(),
        Vec::new(),
    )));
    let mut names = Names::default()
        .with("object", types.object.clone())
        .with("oldObject", types.object.clone())
        .with("request", REQUEST_SHAPE.type_of())
        .with(only_if(with.params, "params"), types.params.clone())
        .with("namespaceObject", NAMESPACE_SHAPE.type_of())
        .with(
            only_if(with.authorizer, "authorizer"),
            Type::Library(Library::Authorizer),
        )
        .with(
            only_if(with.authorizer, "authorizer.requestResource"),
            Type::Library(Library::ResourceCheck),
        )
        .with(only_if(!variables.is_empty(), "variables"), empty);
    for (name, of) in variables {
        names.add(&format!("variables.{name}"), of.clone());
    }
    match with.making {
        true => names.making(Arc::new(Making)),
        false => names,
    }
}

fn shape(kind: ShapeKind) -> Shape {
    Shape {
        kind,
        elements_max: 0,
        bytes_min: 0,
        nullable: true,
    }
}

fn object(name: &str, fields: Vec<(&str, Shape)>) -> Shape {
    let fields = fields.into_iter().map(|(name, shape)| FieldShape {
        name: name.into(),
        key: name.into(),
        shape,
    });
    let fields = ObjectShape::new(name.into(), fields.collect());
    shape(ShapeKind::Object(Arc::new(fields)))
}

fn map(of: Shape) -> Shape {
    shape(ShapeKind::Map(Arc::new(of)))
}

fn list(of: Shape) -> Shape {
    shape(ShapeKind::List {
        items: Arc::new(of),
        order: optik_rules::Order::Matters,
    })
}

static REQUEST_SHAPE: LazyLock<Shape> = LazyLock::new(|| {
    let text = || shape(ShapeKind::String);
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
            ("dryRun", shape(ShapeKind::Bool)),
            ("options", shape(ShapeKind::Any)),
        ],
    )
});

static NAMESPACE_SHAPE: LazyLock<Shape> = LazyLock::new(|| {
    let text = || shape(ShapeKind::String);
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        vec![
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", map(text())),
            ("annotations", map(text())),
            ("UID", text()),
            ("creationTimestamp", shape(ShapeKind::DateTime)),
            ("deletionGracePeriodSeconds", shape(ShapeKind::Int)),
            ("deletionTimestamp", shape(ShapeKind::DateTime)),
            ("generation", shape(ShapeKind::Int)),
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

/// How the JSON of a request is read.
pub(super) fn request_shape() -> &'static Shape {
    &REQUEST_SHAPE
}

/// How the JSON of a namespace is read.
pub(super) fn namespace_shape() -> &'static Shape {
    &NAMESPACE_SHAPE
}
