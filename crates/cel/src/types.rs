//! The CEL types.

use crate::decl_type::ObjectDecl;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum CelType {
    Dyn,
    /// The type of an expression whose error has been reported already.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<CelType>),
    Map(Arc<(CelType, CelType)>),
    Optional(Arc<CelType>),
    /// The type of a type value.
    Type(Arc<CelType>),
    /// An object whose fields are declared.
    Object(Arc<ObjectDecl>),
    /// A library type without visible structure.
    Opaque(OpaqueType),
    /// A type parameter, by number.
    TypeParam(u32),
}

/// The opaque types that libraries add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpaqueType {
    Url,
    Quantity,
    Ip,
    Cidr,
    Semver,
    Format,
    Authorizer,
    PathCheck,
    GroupCheck,
    ResourceCheck,
    Decision,
}

impl OpaqueType {
    pub(crate) const ALL: [Self; 11] = [
        Self::Url,
        Self::Quantity,
        Self::Ip,
        Self::Cidr,
        Self::Semver,
        Self::Format,
        Self::Authorizer,
        Self::PathCheck,
        Self::GroupCheck,
        Self::ResourceCheck,
        Self::Decision,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Url => "kubernetes.URL",
            Self::Quantity => "kubernetes.Quantity",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::PathCheck => "kubernetes.authorization.PathCheck",
            Self::GroupCheck => "kubernetes.authorization.GroupCheck",
            Self::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Self::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl CelType {
    #[must_use]
    pub fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    #[must_use]
    pub fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    pub(crate) fn type_of(of: Self) -> Self {
        Self::Type(Arc::new(of))
    }

    pub(crate) const fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The type inside an optional, and whether it was one; other types are returned unchanged.
    pub(crate) fn unwrapped(&self) -> (&Self, bool) {
        match self {
            Self::Optional(of) => (of, true),
            other => (other, false),
        }
    }

    pub(crate) const fn is_scalar(&self) -> bool {
        matches!(
            self,
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint
        )
    }

    /// Whether two types are identical.
    pub(crate) fn is_identical(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b))
            | (Self::Optional(a), Self::Optional(b))
            | (Self::Type(a), Self::Type(b)) => a.is_identical(b),
            (Self::Map(a), Self::Map(b)) => a.0.is_identical(&b.0) && a.1.is_identical(&b.1),
            (Self::Object(a), Self::Object(b)) => a.name == b.name,
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (Self::TypeParam(a), Self::TypeParam(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(of) => write!(f, "map({}, {})", of.0, of.1),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Type(of) => write!(f, "type({of})"),
            Self::Object(shape) => f.write_str(&shape.name),
            Self::Opaque(library) => f.write_str(library.name()),
            Self::TypeParam(number) => write!(f, "_var{number}"),
        }
    }
}
