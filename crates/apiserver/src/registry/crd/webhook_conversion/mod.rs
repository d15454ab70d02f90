//! Conversion of custom resources between versions by a webhook.
//!
//! Versions of built-in kinds differ by their `StorageConversion`, those of most CRDs only by their
//! apiVersion. This module is for CRDs with a conversion webhook. Their objects are converted when
//! they are read from the store and when they are written to it; everything in between sees the
//! version of the request.

mod conversion_review;
#[cfg(test)]
mod tests;

use crate::registry::crd::custom_resource::CustomResource;
use crate::registry::crd::webhook_conversion::conversion_review::{
    ConversionRequest, converted_objects,
};
use crate::registry::served_resource::{ServedResource, parse_stored};
use crate::server::store_errors::damaged_object;
use crate::server::webhook_client::{WebhookClient, WebhookClientConfig, WebhookPost};
use bytes::Bytes;
use optik_object::{Object, Status, Value};
use optik_store::Version;
use std::sync::Arc;
use std::time::Duration;

const USER_AGENT: &str = "kube-apiserver-admission";
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of objects in one `ConversionReview`.
const CONVERSION_OBJECTS_MAX: usize = 500;
/// Maximum stored bytes of the objects in one `ConversionReview`, unless it has only one: parsed
/// and encoded they take many times as much.
const CONVERSION_BYTES_MAX: usize = 4 << 20;

/// The conversion webhook of a CRD.
#[derive(Clone, Debug)]
pub(crate) struct WebhookConverter {
    client_config: WebhookClientConfig,
    /// `v1` or `v1beta1`; `None` if the webhook accepts neither.
    review_version: Option<&'static str>,
}

impl WebhookConverter {
    /// Reads a CRD's conversion; `None` if its versions differ only in their apiVersion.
    pub(crate) fn read(definition: &Object) -> Option<Self> {
        let conversion = definition.get("spec")?.get("conversion")?;
        if conversion["strategy"].as_str() != Some("Webhook") {
            return None;
        }
        let webhook = &conversion["webhook"];
        let versions = webhook["conversionReviewVersions"].as_array();
        let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            client_config: WebhookClientConfig::read(&webhook["clientConfig"]),
            review_version: versions.find_map(|version| match version {
                "v1" => Some("v1"),
                "v1beta1" => Some("v1beta1"),
                _ => None,
            }),
        })
    }

    /// Converts objects to another version, in order. Objects already in that version are
    /// unchanged.
    async fn convert(
        &self,
        outside: &WebhookClient,
        to: &str,
        mut objects: Vec<Object>,
    ) -> Result<Vec<Object>, Status> {
        let others = objects.iter_mut().filter(|one| one.api_version() != to);
        let mut others: Vec<&mut Object> = others.collect();
        let given: Vec<&Object> = others.iter().map(|object| &**object).collect();
        let Some(first) = given.first() else {
            return Ok(objects);
        };
        let converted = self.call_webhook(outside, to, &given).await;
        let converted = converted.map_err(|error| {
            let of = gvk_text(first);
            Status::storage_failure(format!("conversion webhook for {of} {error}"))
        })?;
        for (object, converted) in others.iter_mut().zip(converted) {
            **object = converted;
        }
        Ok(objects)
    }

    async fn call_webhook(
        &self,
        outside: &WebhookClient,
        to: &str,
        objects: &[&Object],
    ) -> Result<Vec<Object>, String> {
        let version = self
            .review_version
            .ok_or("failed: no supported conversion review versions")?;
        let uid = crate::handlers::write::new_uid(&*outside.entropy);
        let question = ConversionRequest {
            uid: &uid,
            version,
            desired_version: to,
            objects,
        };
        let posting = WebhookPost {
            client_config: &self.client_config,
            user_agent: USER_AGENT,
            timeout: CONVERSION_TIMEOUT,
            body: question.to_json(),
        };
        let review = outside.post(posting).await;
        let review = review.map_err(|error| format!("failed: {error}"))?;
        converted_objects(&question, &review)
    }
}

/// `example.com/v1, Kind=Thing`
fn gvk_text(object: &Object) -> String {
    format!("{}, Kind={}", object.api_version(), object.kind())
}

/// The objects of one `ConversionReview`.
#[derive(Default)]
pub(crate) struct ConversionBatch {
    objects: usize,
    bytes: usize,
}

impl ConversionBatch {
    /// Adds an object if the batch has room for it. Returns whether it was added.
    pub(crate) fn try_add(&mut self, version: &Version) -> bool {
        let bytes = self.bytes + version.value().len();
        let fits = self.objects < CONVERSION_OBJECTS_MAX && bytes <= CONVERSION_BYTES_MAX;
        let takes = fits || self.objects == 0;
        if takes {
            self.objects += 1;
            self.bytes = bytes;
        }
        takes
    }
}

/// Reads stored objects in the version of a kind. Calls the conversion webhook if there is one;
/// otherwise does nothing.
pub(crate) async fn read_stored_as(
    outside: &WebhookClient,
    kind: &ServedResource,
    versions: Vec<Arc<Version>>,
) -> Result<Vec<Arc<Version>>, Status> {
    let Some((custom, converter)) = kind.converter() else {
        return Ok(versions);
    };
    let mut shown = Vec::with_capacity(versions.len());
    let mut rest = &versions[..];
    while !rest.is_empty() {
        let mut portion = ConversionBatch::default();
        let count = rest.iter().take_while(|version| portion.try_add(version));
        let (some, others) = rest.split_at(count.count());
        let objects = normalized_stored(kind, custom, some)?;
        let converted = converter.convert(outside, &kind.api_version, objects);
        for (version, mut object) in some.iter().zip(converted.await?) {
            custom.prune_own(&mut object);
            let bytes = object.encode();
            let bytes = bytes.map_err(|error| Status::internal(&error.to_string()))?;
            shown.push(version.with_value(Bytes::from(bytes)));
        }
        rest = others;
    }
    Ok(shown)
}

/// A stored object in its stored version, normalized to today's schema.
fn normalized_stored(
    kind: &ServedResource,
    custom: &CustomResource,
    versions: &[Arc<Version>],
) -> Result<Vec<Object>, Status> {
    let objects = versions.iter().map(|version| {
        let unreadable = |error| damaged_object(&String::from_utf8_lossy(version.key()), error);
        let mut object = parse_stored(version.value()).map_err(unreadable)?;
        if object.api_version() != kind.api_version {
            custom.normalize_stored(&mut object);
        }
        Ok(object)
    });
    objects.collect()
}

/// Like `read_stored_as`, for one object.
pub(crate) async fn read_stored_one_as(
    outside: &WebhookClient,
    kind: &ServedResource,
    version: &Arc<Version>,
) -> Result<Arc<Version>, Status> {
    let mut read = read_stored_as(outside, kind, vec![Arc::clone(version)]).await?;
    Ok(read.pop().unwrap_or_else(|| Arc::clone(version)))
}

/// Converts an object of a kind to its storage version.
pub(crate) async fn to_storage_version(
    outside: &WebhookClient,
    kind: &ServedResource,
    object: &Object,
    encoded: &Bytes,
) -> Result<Bytes, Status> {
    let Some((custom, converter)) = kind.converter() else {
        return Ok(encoded.clone());
    };
    let to = &custom.versions.stored().api_version;
    if object.api_version() == to {
        return Ok(encoded.clone());
    }
    let converted = converter.convert(outside, to, vec![object.clone()]).await?;
    let mut converted = converted.into_iter();
    let mut object = converted.next().unwrap_or_default();
    custom.prune_as(to, &mut object);
    let bytes = object.encode();
    let bytes = bytes.map_err(|error| Status::bad_request(error.to_string()))?;
    Ok(bytes.into())
}

/// Converts an object of one kind to another kind that serves the same objects.
pub(crate) async fn convert_to_kind(
    outside: &WebhookClient,
    from: &Arc<ServedResource>,
    to: &Arc<ServedResource>,
    object: &Object,
) -> Result<Object, Status> {
    let mut object = object.clone();
    if from.api_version == to.api_version {
        return Ok(object);
    }
    if let Some((_, converter)) = from.converter() {
        let revision = object.remove_metadata_member("resourceVersion");
        let converted = converter.convert(outside, &to.api_version, vec![object]);
        let mut object = converted.await?.into_iter().next().unwrap_or_default();
        if let Some(revision) = revision {
            let metadata = object.metadata_mut();
            metadata.insert("resourceVersion".into(), revision);
        }
        return Ok(object);
    }
    from.storage_conversion.to_stored(&mut object);
    to.storage_conversion.to_client(&mut object);
    object.set_type(&to.resource.kind, &to.api_version);
    Ok(object)
}
