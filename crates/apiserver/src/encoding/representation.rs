//! The representation of a response: its encoding (serializer) and its transform (whole object,
//! table, metadata only).
//!
//! Handlers produce JSON, the stored bytes. [`Representation`] is what the client negotiated
//! instead. This module is the only one that knows how to get from one to the other, for an object
//! (`Serializer::serialize`), a list while it is written (`ListEncoder`), a watch event
//! (`Serializer::serialize_event`) and an error (`error_response`).

pub(crate) use crate::encoding::error_response::{document_response, error_response};
pub(crate) use crate::encoding::list_encoder::{ListEncoder, Separation};
pub(crate) use crate::encoding::serializer::{SerializeError, Serializer, encode_status};

use crate::registry::served_resource::ServedResource;
use http::HeaderValue;
use optik_object::Status;

/// The encoding of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

/// How much of an object a response shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    #[default]
    Object,
    /// PartialObjectMetadata. `of_list`: the client named the list type, not the item type.
    PartialMetadata { version: MetaVersion, of_list: bool },
    Table {
        version: MetaVersion,
        include_object: IncludeObject,
    },
}

/// What a table row includes of its object besides the cells (`includeObject`).
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
    /// Whether handlers produce this representation already.
    pub(crate) fn is_stored_form(self) -> bool {
        self == Self::default()
    }

    /// A small number that mostly distinguishes representations.
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

    /// The content type of a watch.
    pub(crate) fn stream_type(self) -> HeaderValue {
        match self {
            Self::Protobuf => {
                HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch")
            }
            other => other.media_type(),
        }
    }
}

/// Rejects a transform that lists do not have.
pub(crate) fn check_list_transform(
    form: Representation,
    kind: &ServedResource,
) -> Result<(), Status> {
    crate::encoding::serializer::check_transform(form.transform, kind, true)
}
