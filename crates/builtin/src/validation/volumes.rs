//! Validation of the volumes of a pod.

use super::accessors::{int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use crate::quantity::Quantity;
use optik_object::{Value, dns1123_label, dns1123_subdomain, qualified_name};
use std::collections::{BTreeMap, BTreeSet};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
/// In the order of upstream's checks.
const SOURCES: &[&str] = &[
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The valid volumes of a pod, by name; containers can mount them.
#[derive(Default)]
pub(crate) struct PodVolumes<'a>(BTreeMap<&'a str, &'a Value>);

impl PodVolumes<'_> {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn is_block(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|volume| {
            is_set(&volume["persistentVolumeClaim"]) || is_set(&volume["ephemeral"])
        })
    }
}

/// Validates volumes and returns the valid ones.
pub(crate) fn validate_volumes<'a>(
    path: FieldPath<'_>,
    list: &'a Value,
    pod: &str,
    errors: &mut Errors,
) -> PodVolumes<'a> {
    let mut good = PodVolumes::default();
    for (at, volume) in items(list).iter().enumerate() {
        let path = path.index(at);
        let before = errors.count();
        let name = text(&volume["name"]);
        validate_volume_source(path, volume, pod, errors);
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else {
            errors.problems(path.child("name"), name, dns1123_label(name));
        }
        if good.has(name) {
            errors.duplicate(path.child("name"), name);
        }
        if errors.count() == before {
            good.0.insert(name, volume);
        }
    }
    good
}

fn validate_volume_source(path: FieldPath<'_>, volume: &Value, pod: &str, errors: &mut Errors) {
    let mut sources = 0;
    if is_set(&volume["emptyDir"]) {
        sources += 1;
        let limit = Quantity::from_value(&volume["emptyDir"]["sizeLimit"]);
        if limit.is_ok_and(Quantity::is_negative) {
            let own = path.child("emptyDir");
            let message = "SizeLimit field must be a valid resource quantity";
            errors.forbidden(own.child("sizeLimit"), message);
        }
    }
    for member in SOURCES {
        let source = &volume[*member];
        if !is_set(source) {
            continue;
        }
        if sources > 0 {
            let message = "may not specify more than 1 volume type";
            errors.forbidden(path.child(member), message);
            continue;
        }
        sources += 1;
        if *member == "image" && !pod.is_empty() && text(&source["reference"]).is_empty() {
            errors.required(path.child(member).child("reference"), "");
        }
        validate_one_volume_source(path.child(member), member, source, errors);
        if *member == "ephemeral" && !pod.is_empty() {
            let name = text(&volume["name"]);
            let claim = format!("{pod}-{name}");
            for problem in dns1123_subdomain(&claim) {
                let message = format!("PVC name {}: {problem}", optik_object::quote(&claim));
                errors.invalid(path.child("name"), name, message);
            }
        }
    }
    if sources == 0 {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_one_volume_source(
    path: FieldPath<'_>,
    member: &str,
    source: &Value,
    errors: &mut Errors,
) {
    let mut need = |name: &str| {
        if text(&source[name]).is_empty() {
            errors.required(path.child(name), "");
        }
    };
    match member {
        "hostPath" => validate_host_path(path, source, errors),
        "gitRepo" => need("repository"),
        "secret" => {
            need("secretName");
            validate_key_to_path_list(path, source, errors);
        }
        "configMap" => {
            need("name");
            validate_key_to_path_list(path, source, errors);
        }
        "nfs" => {
            need("server");
            need("path");
            let place = text(&source["path"]);
            if !place.starts_with('/') {
                errors.invalid(path.child("path"), place, "must be an absolute path");
            }
        }
        "persistentVolumeClaim" => need("claimName"),
        "downwardAPI" => {
            validate_file_mode(path.child("defaultMode"), &source["defaultMode"], errors);
            for file in items(&source["items"]) {
                validate_downward_api_file(path, file, errors);
            }
        }
        "projected" => validate_projected(path, source, errors),
        "csi" => {
            let driver = text(&source["driver"]);
            super::storage::validate_csi_driver_name(path.child("driver"), driver, errors);
        }
        "ephemeral" => match &source["volumeClaimTemplate"] {
            Value::Null => errors.required(path.child("volumeClaimTemplate"), ""),
            template => {
                let path = path.child("volumeClaimTemplate");
                super::storage::validate_persistent_volume_claim_spec(
                    path.child("spec"),
                    &template["spec"],
                    errors,
                );
            }
        },
        "image" => errors.one_of(
            path.child("pullPolicy"),
            text(&source["pullPolicy"]),
            &["Always", "IfNotPresent", "Never"],
        ),
        "iscsi" => {
            need("targetPortal");
            need("iqn");
        }
        "rbd" => need("image"),
        _ => {}
    }
}

pub(crate) fn validate_host_path(path: FieldPath<'_>, source: &Value, errors: &mut Errors) {
    let place = text(&source["path"]);
    if place.is_empty() {
        return errors.required(path.child("path"), "");
    }
    validate_path_no_backsteps(path.child("path"), place, errors);
    if is_set(&source["type"]) {
        errors.one_of_or_nothing(
            path.child("type"),
            text(&source["type"]),
            &[
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ],
        );
    }
}

fn validate_file_mode(path: FieldPath<'_>, mode: &Value, errors: &mut Errors) {
    if let Some(mode) = int(mode)
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, mode, FILE_MODE);
    }
}

fn validate_key_to_path_list(path: FieldPath<'_>, source: &Value, errors: &mut Errors) {
    validate_file_mode(path.child("defaultMode"), &source["defaultMode"], errors);
    let list = path.child("items");
    for (at, item) in items(&source["items"]).iter().enumerate() {
        validate_key_to_path(list.index(at), item, errors);
    }
}

fn validate_key_to_path(path: FieldPath<'_>, item: &Value, errors: &mut Errors) {
    for member in ["key", "path"] {
        if text(&item[member]).is_empty() {
            errors.required(path.child(member), "");
        }
    }
    validate_local_path(path.child("path"), text(&item["path"]), errors);
    validate_file_mode(path.child("mode"), &item["mode"], errors);
}

fn validate_local_path(path: FieldPath<'_>, place: &str, errors: &mut Errors) {
    validate_local_descending_path(path, place, errors);
    if place.starts_with("..") && !place.starts_with("../") {
        errors.invalid(path, place, "must not start with '..'");
    }
}

pub(crate) fn validate_local_descending_path(
    path: FieldPath<'_>,
    place: &str,
    errors: &mut Errors,
) {
    if place.starts_with('/') {
        errors.invalid(path, place, "must be a relative path");
    }
    validate_path_no_backsteps(path, place, errors);
}

pub(crate) fn validate_path_no_backsteps(path: FieldPath<'_>, place: &str, errors: &mut Errors) {
    if place.split('/').any(|part| part == "..") {
        errors.invalid(path, place, "must not contain '..'");
    }
}

fn validate_downward_api_file(path: FieldPath<'_>, file: &Value, errors: &mut Errors) {
    if text(&file["path"]).is_empty() {
        errors.required(path.child("path"), "");
    }
    validate_local_path(path.child("path"), text(&file["path"]), errors);
    if is_set(&file["fieldRef"]) {
        validate_field_selector(
            path.child("fieldRef"),
            &file["fieldRef"],
            VOLUME_FIELDS,
            errors,
        );
        if is_set(&file["resourceFieldRef"]) {
            let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid(path, "resource", message);
        }
    } else if is_set(&file["resourceFieldRef"]) {
        let path = path.child("resourceFieldRef");
        validate_resource_selector(path, &file["resourceFieldRef"], true, errors);
    } else {
        errors.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    validate_file_mode(path.child("mode"), &file["mode"], errors);
}

/// Validates a downward API field reference.
pub(crate) fn validate_field_selector(
    path: FieldPath<'_>,
    reference: &Value,
    known: &[&str],
    errors: &mut Errors,
) {
    let field = text(&reference["fieldPath"]);
    if text(&reference["apiVersion"]).is_empty() {
        return errors.required(path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(path.child("fieldPath"), "");
    }
    let subscript = field
        .strip_suffix("']")
        .and_then(|rest| rest.split_once("['"));
    match subscript {
        Some(("metadata.annotations", key)) => {
            errors.problems(path, key, qualified_name(&key.to_lowercase()));
        }
        Some(("metadata.labels", key)) => errors.problems(path, key, qualified_name(key)),
        _ if !is_convertible(field) => {
            let message = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(path.child("fieldPath"), field, message);
        }
        _ => errors.one_of_or_nothing(path.child("fieldPath"), field, known),
    }
}

fn is_convertible(field: &str) -> bool {
    const MORE: &[&str] = &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
        "spec.host",
    ];
    VOLUME_FIELDS.contains(&field) || MORE.contains(&field)
}

pub(crate) fn validate_resource_selector(
    path: FieldPath<'_>,
    reference: &Value,
    in_volume: bool,
    errors: &mut Errors,
) {
    let resource = text(&reference["resource"]);
    let of_pages = ["requests.hugepages-", "limits.hugepages-"];
    if in_volume && text(&reference["containerName"]).is_empty() {
        errors.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.child("resource"), "");
    } else if !of_pages.iter().any(|prefix| resource.starts_with(prefix)) {
        errors.one_of_or_nothing(path.child("resource"), resource, RESOURCES);
    }
}

fn validate_projected(path: FieldPath<'_>, source: &Value, errors: &mut Errors) {
    validate_file_mode(path.child("defaultMode"), &source["defaultMode"], errors);
    let mut places = BTreeSet::new();
    let list = path.child("sources");
    for (at, source) in items(&source["sources"]).iter().enumerate() {
        let own = list.index(at);
        let mut sources = 0;
        for member in ["secret", "configMap"] {
            let projection = &source[member];
            if !is_set(projection) {
                continue;
            }
            sources += 1;
            let own = own.child(member);
            let name = text(&projection["name"]);
            if name.is_empty() {
                errors.required(own.child("name"), "");
            }
            let keys = own.child("items");
            for (at, item) in items(&projection["items"]).iter().enumerate() {
                validate_key_to_path(keys.index(at), item, errors);
                let place = text(&item["path"]);
                if !place.is_empty() && !places.insert(place) {
                    errors.invalid(path, name, "conflicting duplicate paths");
                }
            }
        }
        if is_set(&source["downwardAPI"]) {
            sources += 1;
            for file in items(&source["downwardAPI"]["items"]) {
                validate_downward_api_file(own.child("downwardAPI"), file, errors);
                let place = text(&file["path"]);
                if !place.is_empty() && !places.insert(place) {
                    errors.invalid(path, place, "conflicting duplicate paths");
                }
            }
        }
        if is_set(&source["serviceAccountToken"]) {
            sources += 1;
            let own = own.child("serviceAccountToken");
            validate_service_account_token_projection(
                path,
                own,
                &source["serviceAccountToken"],
                errors,
            );
        }
        sources += usize::from(is_set(&source["clusterTrustBundle"]));
        sources += usize::from(is_set(&source["podCertificate"]));
        if sources > 1 {
            let message = "may not specify more than 1 volume type per source";
            errors.forbidden(own, message);
        }
    }
}

/// Validates the expiration of a projected service account token.
pub(super) fn validate_token_lifetime(path: FieldPath<'_>, seconds: i64, errors: &mut Errors) {
    if seconds < 600 {
        let message = "may not specify a duration less than 10 minutes";
        errors.invalid(path, seconds, message);
    }
    if seconds > 1 << 32 {
        let message = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(path, seconds, message);
    }
}

fn validate_service_account_token_projection(
    path: FieldPath<'_>,
    own: FieldPath<'_>,
    token: &Value,
    errors: &mut Errors,
) {
    let seconds = int(&token["expirationSeconds"]).unwrap_or(0);
    validate_token_lifetime(own.child("expirationSeconds"), seconds, errors);
    match text(&token["path"]) {
        "" => errors.required(path.child("path"), ""),
        place => validate_local_path(path.child("path"), place, errors),
    }
}
