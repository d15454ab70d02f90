//! `ValueShape`: whether a value is a scalar, a list or a map. It follows from a declared type; for
//! undeclared types it follows from the value.

use crate::fieldset::PathElement;
use optik_object::{Map, Value, quote};
use optik_schema::{
    ElementRelationship, Scalar, Struct, TypeNode, TypeRef, UnknownFields, Untyped,
};
use std::sync::Arc;

#[derive(Clone, Copy)]
pub(super) enum ValueShape<'a> {
    Scalar(Option<Scalar>),
    List(ListShape<'a>),
    Map(MapShape<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct ListShape<'a> {
    pub(super) of: TypeRef<'a>,
    pub(super) item: &'a ElementRelationship,
}

#[derive(Clone, Copy)]
pub(super) struct MapShape<'a> {
    of: TypeRef<'a>,
    structure: Option<&'a Struct>,
    /// The type of undeclared members; `None` if there must be none.
    pub(super) others: Option<TypeRef<'a>>,
    pub(super) atomic: bool,
}

/// The shape of a value. An untyped value that is missing or null is a map.
pub(super) fn shape<'a>(of: TypeRef<'a>, value: Option<&Value>) -> ValueShape<'a> {
    match of.node() {
        // Go decodes it with custom code, so upstream's schema does not declare its type.
        TypeNode::Scalar(Scalar::IntOrString) => deduced(of.deduced(), false, value),
        TypeNode::Scalar(scalar) => ValueShape::Scalar(Some(*scalar)),
        TypeNode::List(list) => ValueShape::List(ListShape {
            of: of.at(list.of),
            item: &list.relationship,
        }),
        TypeNode::Struct(structure) => ValueShape::Map(MapShape {
            of,
            structure: Some(structure),
            others: (structure.unknown == UnknownFields::Kept).then(|| of.deduced()),
            atomic: structure.atomic,
        }),
        TypeNode::Map(map) => ValueShape::Map(MapShape {
            of,
            structure: None,
            others: Some(of.at(map.value)),
            atomic: map.atomic,
        }),
        TypeNode::Untyped(untyped) => deduced(of, *untyped == Untyped::Atomic, value),
    }
}

/// The shape of a whole object, which is a map even if its type is not.
pub(super) fn root(of: TypeRef<'_>) -> MapShape<'_> {
    match shape(of, None) {
        ValueShape::Map(map) => map,
        ValueShape::List(_) | ValueShape::Scalar(_) => MapShape {
            of,
            structure: None,
            others: Some(of.deduced()),
            atomic: false,
        },
    }
}

fn deduced<'a>(of: TypeRef<'a>, atomic: bool, value: Option<&Value>) -> ValueShape<'a> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => ValueShape::Map(MapShape {
            of,
            structure: None,
            others: Some(of),
            atomic,
        }),
        Some(Value::Array(_)) => ValueShape::List(ListShape {
            of,
            item: &ElementRelationship::Atomic,
        }),
        Some(_) => ValueShape::Scalar(None),
    }
}

impl<'a> MapShape<'a> {
    /// The type of a member. An undeclared member of a structure is untyped.
    pub(super) fn member(&self, name: &str) -> MemberType<'a> {
        let declared = self.structure.and_then(|it| it.field(name));
        match (declared, self.others) {
            (Some(field), _) => MemberType::Declared(self.of.at(field.of)),
            (None, Some(others)) => MemberType::Other(others),
            (None, None) => MemberType::Undeclared(self.of.deduced()),
        }
    }
}

pub(super) enum MemberType<'a> {
    Declared(TypeRef<'a>),
    Other(TypeRef<'a>),
    Undeclared(TypeRef<'a>),
}

impl<'a> MemberType<'a> {
    pub(super) fn is_declared(&self) -> bool {
        matches!(self, Self::Declared(_))
    }

    pub(super) fn type_ref(&self) -> TypeRef<'a> {
        match self {
            Self::Declared(of) | Self::Other(of) | Self::Undeclared(of) => *of,
        }
    }
}

impl ValueShape<'_> {
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl ListShape<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        *self.item == ElementRelationship::Atomic
    }

    /// The identity of an item, or why it has none.
    pub(super) fn identity(&self, item: &Value) -> Result<PathElement, String> {
        match self.item {
            ElementRelationship::Atomic => Err("invalid indexing of non-associative list".into()),
            ElementRelationship::Value => match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".into())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null".into(),
                ),
                scalar => Ok(PathElement::value(scalar.clone())),
            },
            ElementRelationship::Keys(names) => match item {
                Value::Null => Err("associative list with keys may not have a null element".into()),
                Value::Object(members) => self.keys(names, members),
                _ => Err("associative list with keys may not have non-map elements".into()),
            },
        }
    }

    fn keys(&self, names: &[optik_schema::Text], members: &Map) -> Result<PathElement, String> {
        let keys = names.iter().filter_map(|name| {
            let value = members.get(name.as_ref());
            let value = value.or_else(|| self.of.key_default(name))?;
            Some((Arc::from(name.as_ref()), value.clone()))
        });
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() && !names.is_empty() {
            let names: Vec<String> = names.iter().map(|name| quote(name)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        Ok(PathElement::key(keys))
    }
}

/// The members of a non-empty object; `None` for any other value.
pub(super) fn members(value: Option<&Value>) -> Option<&Map> {
    value?.as_object().filter(|members| !members.is_empty())
}

/// The items of a list; none for any other value.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}
