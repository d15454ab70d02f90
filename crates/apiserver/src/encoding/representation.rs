//! The form of an answer: how it is written down, and how much of an object it shows.
//!
//! Handlers make JSON, the bytes that are stored. [`Representation`] is what the client asked for
//! instead, and this module the only place that knows how one becomes the other: for
//! an object ([`Serializer::answer`]), a list while it is written ([`ListEncoder`]), an event of a
//! watch ([`Serializer::event`]) and a refusal ([`refusal()`]).

pub(crate) use crate::encoding::error_response::{document_response, error_response};
pub(crate) use crate::encoding::list_encoder::{ListEncoder, Separation};
pub(crate) use crate::encoding::serializer::{SerializeError, Serializer, encode_status};

use crate::registry::served_resource::ServedResource;
use http::HeaderValue;
use optik_object::Status;

/// How an answer is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

/// How much of an object it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    Object,
    /// PartialObjectMetadata. `of_list`: the client named the list type, not that of its items.
    PartialMetadata { version: MetaVersion, of_list: bool },
    Table {
        version: MetaVersion,
        include_object: IncludeObject,
    },
}

/// What a row of a table has of its object, beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// A version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Representation {
    pub(crate) encoding: Encoding,
    pub(crate) transform: Transform,
}

impl Representation {
    /// Whether it is what handlers make anyway.
    pub(crate) fn is_stored_form(self) -> bool {
        self == Self::default()
    }

    /// A small number that tells forms apart, mostly.
    pub(crate) fn cache_hash(self) -> usize {
        let encoding = match self.encoding {
            Encoding::Json => 0,
            Encoding::Yaml => 1,
            Encoding::Protobuf => 2,
        };
        let look = match self.transform {
            Transform::Object => 0,
            Transform::PartialMetadata { .. } => 1,
            Transform::Table { .. } => 2,
        };
        encoding * 3 + look
    }
}

impl Encoding {
    pub(crate) fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        })
    }

    /// Of a watch.
    pub(crate) fn stream_type(self) -> HeaderValue {
        match self {
            Self::Protobuf => {
                HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch")
            }
            other => other.media_type(),
        }
    }
}

/// Whether a list has this form.
pub(crate) fn check_list_transform(
    form: Representation,
    kind: &ServedResource,
) -> Result<(), Status> {
    crate::encoding::serializer::check_transform(form.transform, kind, true)
}
