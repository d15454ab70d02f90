//! Validation of dynamic resource allocation kinds: ResourceSlice, DeviceClass and ResourceClaim.
//!
//! CEL selectors are not compiled here.

use super::accessors::{entries, flag, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::c_identifier;
use super::pods::validate_node_selector;
use super::resources::is_extended;
use super::selectors::{validate_annotations, validate_labels};
use super::storage::validate_csi_driver_name;
use optik_object::{Object, Value, dns1123_label, dns1123_subdomain, label_value, qualified_name};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const SPEC: FieldPath<'static> = FieldPath::root("spec");
/// Item limit of the lists of requests, constraints, selectors and configurations.
const LIST_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;
const DEVICES_MAX: usize = 128;
/// Device limit if devices have taints, counters or list values.
const COMPLEX_DEVICES_MAX: usize = 64;
const ATTRIBUTES_MAX: usize = 32;
const VALUES_MAX: usize = 48;
const VALUE_BYTES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const CONSUMPTIONS_MAX: usize = 2;
const COUNTER_SETS_MAX: usize = 8;
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Validates each item. Returns false, after one error, if there are too many items.
fn validate_each(
    path: FieldPath<'_>,
    list: &Value,
    most: usize,
    errors: &mut Errors,
    mut check: impl FnMut(FieldPath<'_>, &Value, &mut Errors),
) -> bool {
    let list = items(list);
    if list.len() > most {
        errors.too_many(path, list.len(), most);
        return false;
    }
    for (at, item) in list.iter().enumerate() {
        check(path.index(at), item, errors);
    }
    true
}

/// `validate_each`, and reports items with duplicate names.
fn validate_each_unique(
    path: FieldPath<'_>,
    list: &Value,
    most: usize,
    name: fn(&Value) -> &str,
    errors: &mut Errors,
    check: impl FnMut(FieldPath<'_>, &Value, &mut Errors),
) {
    if !validate_each(path, list, most, errors, check) {
        return;
    }
    let mut known = BTreeSet::new();
    for (at, item) in items(list).iter().enumerate() {
        if !known.insert(name(item)) {
            errors.duplicate(path.index(at), name(item));
        }
    }
}

fn own_name(item: &Value) -> &str {
    text(&item["name"])
}

pub(crate) fn validate_device_class(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    validate_selectors(SPEC.child("selectors"), &spec["selectors"], errors);
    let config = SPEC.child("config");
    validate_each(
        config,
        &spec["config"],
        LIST_MAX,
        errors,
        validate_device_configuration,
    );
    let path = SPEC.child("extendedResourceName");
    if let Some(name) = spec["extendedResourceName"].as_str()
        && !is_extended(name)
    {
        errors.invalid(path, name, "must be a valid extended resource name");
    }
}

fn validate_selectors(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    validate_each(path, list, LIST_MAX, errors, |path, selector, errors| {
        let own = path.child("cel");
        let expression = text(&selector["cel"]["expression"]);
        if !is_set(&selector["cel"]) {
            errors.required(own, "");
        } else if expression.len() > EXPRESSION_BYTES_MAX {
            errors.too_long(own.child("expression"), EXPRESSION_BYTES_MAX);
        }
    });
}

fn validate_device_configuration(path: FieldPath<'_>, config: &Value, errors: &mut Errors) {
    let path = path.child("opaque");
    let opaque = &config["opaque"];
    if !is_set(opaque) {
        return errors.required(path, "");
    }
    validate_csi_driver_name(path.child("driver"), text(&opaque["driver"]), errors);
    let own = path.child("parameters");
    match &opaque["parameters"] {
        Value::Null => errors.required(own, ""),
        long if long.to_string().len() > PARAMETERS_BYTES_MAX => {
            errors.too_long(own, PARAMETERS_BYTES_MAX);
        }
        Value::Object(_) => {}
        _ => errors.invalid(own, "<value omitted>", "must be a valid JSON object"),
    }
}

pub(crate) fn validate_resource_claim(object: &Object, errors: &mut Errors) {
    validate_resource_claim_spec(SPEC, spec(object), errors);
}

pub(crate) fn validate_resource_claim_template(object: &Object, errors: &mut Errors) {
    let (path, metadata) = (SPEC.child("metadata"), &spec(object)["metadata"]);
    validate_annotations(path.child("annotations"), &metadata["annotations"], errors);
    validate_labels(path.child("labels"), &metadata["labels"], errors);
    validate_resource_claim_spec(SPEC.child("spec"), &spec(object)["spec"], errors);
}

pub(crate) fn validate_spec_immutable(new: &Object, old: &Object, errors: &mut Errors) {
    errors.is_fixed(SPEC, spec(new), spec(old));
}

/// The requests of a claim by name, with the names of their alternatives.
type ClaimRequests<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn validate_resource_claim_spec(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let (path, devices) = (path.child("devices"), &spec["devices"]);
    let known: ClaimRequests<'_> = items(&devices["requests"])
        .iter()
        .map(|request| {
            let alternatives = items(&request["firstAvailable"]).iter();
            (own_name(request), alternatives.map(own_name).collect())
        })
        .collect();
    let list = path.child("requests");
    validate_each_unique(
        list,
        &devices["requests"],
        LIST_MAX,
        own_name,
        errors,
        validate_device_request,
    );
    let list = path.child("constraints");
    let check = |path: FieldPath<'_>, constraint: &Value, errors: &mut Errors| {
        validate_request_references(
            path.child("requests"),
            &constraint["requests"],
            &known,
            errors,
        );
        let (matching, distinct) = (
            &constraint["matchAttribute"],
            &constraint["distinctAttribute"],
        );
        match (matching.as_str(), distinct.as_str()) {
            (Some(name), _) => validate_full_name(path.child("matchAttribute"), name, errors),
            (None, Some(name)) => validate_full_name(path.child("distinctAttribute"), name, errors),
            (None, None) => {
                let message = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is \
                               required, but multiple fields are set";
                errors.required(path, message);
            }
        }
    };
    validate_each(list, &devices["constraints"], LIST_MAX, errors, check);
    let list = path.child("config");
    let check = |path: FieldPath<'_>, config: &Value, errors: &mut Errors| {
        validate_request_references(path.child("requests"), &config["requests"], &known, errors);
        validate_device_configuration(path, config, errors);
    };
    validate_each(list, &devices["config"], LIST_MAX, errors, check);
}

fn validate_device_request(path: FieldPath<'_>, request: &Value, errors: &mut Errors) {
    let name = own_name(request);
    errors.problems(path.child("name"), name, dns1123_label(name));
    let alternatives = &request["firstAvailable"];
    match (is_set(&request["exactly"]), !items(alternatives).is_empty()) {
        (false, false) => errors.required(
            path,
            "exactly one of `exactly` or `firstAvailable` is required",
        ),
        (true, true) => errors.invalid(
            path,
            Value::Null,
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are \
             set",
        ),
        (true, false) => {
            validate_exact_device_request(path.child("exactly"), &request["exactly"], errors);
        }
        (false, true) => {
            let list = path.child("firstAvailable");
            let check = |path: FieldPath<'_>, one: &Value, errors: &mut Errors| {
                let name = own_name(one);
                errors.problems(path.child("name"), name, dns1123_label(name));
                validate_exact_device_request(path, one, errors);
            };
            validate_each_unique(
                list,
                alternatives,
                ALTERNATIVES_MAX,
                own_name,
                errors,
                check,
            );
        }
    }
}

/// Validates the device class, selectors and count of a request.
fn validate_exact_device_request(path: FieldPath<'_>, wanted: &Value, errors: &mut Errors) {
    let class = path.child("deviceClassName");
    match text(&wanted["deviceClassName"]) {
        "" => errors.required(class, ""),
        name => errors.problems(class, name, dns1123_subdomain(name)),
    }
    validate_selectors(path.child("selectors"), &wanted["selectors"], errors);
    let count = int(&wanted["count"]).unwrap_or(0);
    match text(&wanted["allocationMode"]) {
        "All" if count != 0 => {
            let message = "must not be specified when allocationMode is 'All'";
            errors.invalid(path.child("count"), count, message);
        }
        "All" => {}
        "ExactCount" if count <= 0 => {
            errors.invalid(path.child("count"), count, "must be greater than zero");
        }
        "ExactCount" => {}
        other => {
            let known = ["All", "ExactCount"];
            errors.not_supported(path.child("allocationMode"), other, &known);
        }
    }
    let list = path.child("tolerations");
    for (at, one) in items(&wanted["tolerations"]).iter().enumerate() {
        validate_toleration(list.index(at), one, errors);
    }
}

fn validate_toleration(path: FieldPath<'_>, toleration: &Value, errors: &mut Errors) {
    let member = |name: &str| text(&toleration[name]);
    let (key, value) = (member("key"), member("value"));
    if !key.is_empty() {
        errors.problems(path.child("key"), key, qualified_name(key));
    }
    match member("operator") {
        "Exists" if !value.is_empty() => {
            let message = "must be empty for operator `Exists`";
            errors.invalid(path.child("value"), value, message);
        }
        "Equal" => errors.problems(path.child("value"), value, label_value(value)),
        operator => errors.one_of(path.child("operator"), operator, &["Equal", "Exists"]),
    }
    let effect = member("effect");
    if !effect.is_empty() {
        errors.one_of_or_nothing(path.child("effect"), effect, EFFECTS);
    }
}

/// Validates references to requests of the same claim: `request`, or `request/alternative`.
fn validate_request_references(
    path: FieldPath<'_>,
    list: &Value,
    known: &ClaimRequests<'_>,
    errors: &mut Errors,
) {
    let check = |path: FieldPath<'_>, name: &Value, errors: &mut Errors| {
        let name = text(name);
        let segments: Vec<&str> = name.split('/').collect();
        let found = match segments[..] {
            [request] => known.contains_key(request),
            [request, alternative] => known
                .get(request)
                .is_some_and(|known| known.contains(alternative)),
            _ => false,
        };
        if segments.len() <= 2 {
            for segment in segments {
                errors.problems(path, segment, dns1123_label(segment));
            }
        }
        if !found {
            let message = "must be the name of a request in the claim or the name of a request \
                           and a subrequest separated by '/'";
            errors.invalid(path, name, message);
        }
    };
    validate_each_unique(path, list, LIST_MAX, text, errors, check);
}

/// Validates `name` or `domain/name`.
fn validate_qualified_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let segments: Vec<&str> = name.split('/').collect();
    let (domain, own) = match segments[..] {
        [own] => (None, own),
        [domain, own] => (Some(domain), own),
        _ => return,
    };
    match domain {
        Some("") => errors.invalid(path, "", "the domain must not be empty"),
        Some(domain) => validate_csi_driver_name(path, domain, errors),
        None => {}
    }
    if own.is_empty() && domain.is_some() {
        return errors.invalid(path, "", "the name must not be empty");
    }
    if own.len() > NAME_BYTES_MAX {
        errors.too_long(path, NAME_BYTES_MAX);
    }
    errors.problems(path, own, c_identifier(own));
}

fn validate_full_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name.contains('/') {
        return validate_qualified_name(path, name, errors);
    }
    validate_qualified_name(path, name, errors);
    let message = "a fully qualified name must be a domain and a name separated by a slash";
    errors.invalid(path, name, message);
}

pub(crate) fn validate_resource_slice(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    validate_slice_pool_and_nodes(spec, errors);
    validate_slice_devices_and_counters(spec, errors);
}

/// The driver, pool and node of a slice are immutable.
pub(crate) fn validate_resource_slice_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (now, before) = (spec(new), spec(old));
    validate_slice_pool_and_nodes(now, errors);
    let pool = SPEC.child("pool");
    errors.is_fixed(
        pool.child("name"),
        &now["pool"]["name"],
        &before["pool"]["name"],
    );
    for name in ["driver", "nodeName"] {
        errors.is_fixed(SPEC.child(name), &now[name], &before[name]);
    }
    validate_slice_devices_and_counters(now, errors);
}

fn validate_slice_pool_and_nodes(spec: &Value, errors: &mut Errors) {
    validate_csi_driver_name(SPEC.child("driver"), text(&spec["driver"]), errors);
    let (path, pool) = (SPEC.child("pool"), &spec["pool"]);
    let own = path.child("name");
    match text(&pool["name"]) {
        "" => errors.required(own, ""),
        name => {
            if name.len() > 253 {
                errors.too_long(own, 253);
            }
            for part in name.split('/') {
                errors.problems(own, part, dns1123_subdomain(part));
            }
        }
    }
    let number = |name: &str| int(&pool[name]).unwrap_or(0);
    let count = number("resourceSliceCount");
    if count <= 0 {
        let message = "must be greater than zero";
        errors.invalid(path.child("resourceSliceCount"), count, message);
    }
    let generation = number("generation");
    if generation < 0 {
        let message = "must be greater than or equal to zero";
        errors.invalid(path.child("generation"), generation, message);
    }
}

/// Validates that nodes are selected in exactly one of several ways; returns the ways that are
/// used.
fn validate_node_selection(
    path: FieldPath<'_>,
    holder: &Value,
    ways: &[&'static str],
    errors: &mut Errors,
) -> Vec<String> {
    let mut set = Vec::new();
    for way in ways {
        let (own, value) = (path.child(way), &holder[*way]);
        match value {
            Value::Null => continue,
            Value::Bool(false) => {
                errors.invalid(own, false, "must be either unset or set to true");
                continue;
            }
            Value::String(name) if name.is_empty() => {
                // Upstream's messages for devices and slices differ.
                let message = match ways.len() {
                    3 => "must not be empty",
                    _ => "must be either unset or set to a non-empty string",
                };
                errors.invalid(own, "", message);
                continue;
            }
            Value::String(name) => errors.problems(own, name, dns1123_subdomain(name)),
            Value::Object(_) => validate_node_selector(own, value, errors),
            _ => {}
        }
        set.push(format!("`{way}`"));
    }
    set
}

fn validate_slice_devices_and_counters(spec: &Value, errors: &mut Errors) {
    let ways = [
        "nodeName",
        "nodeSelector",
        "allNodes",
        "perDeviceNodeSelection",
    ];
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    let set = validate_node_selection(SPEC, spec, &ways, errors);
    if is_set(&spec["nodeSelector"]) && items(terms).len() != 1 {
        let path = SPEC.child("nodeSelector");
        let path = path.child("nodeSelectorTerms");
        let message = "must have exactly one node selector term";
        errors.invalid(path, json!(items(terms)), message);
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
               required";
    match set.len() {
        0 => errors.required(SPEC, one),
        1 => {}
        _ => {
            let message = format!("{one}, but multiple fields are set");
            errors.invalid(SPEC, format!("{{{}}}", set.join(", ")), message);
        }
    }
    if is_set(&spec["sharedCounters"]) && is_set(&spec["devices"]) {
        let message = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid(SPEC, "", message);
    }
    let intricate = items(&spec["devices"]).iter().any(is_complex_device);
    let most = match intricate {
        true => COMPLEX_DEVICES_MAX,
        false => DEVICES_MAX,
    };
    let selects = flag(&spec["perDeviceNodeSelection"]);
    let check = |path: FieldPath<'_>, one: &Value, errors: &mut Errors| {
        validate_device(path, one, selects, errors);
    };
    let list = SPEC.child("devices");
    validate_each_unique(list, &spec["devices"], most, own_name, errors, check);
    let list = SPEC.child("sharedCounters");
    let check = |path: FieldPath<'_>, set: &Value, errors: &mut Errors| {
        validate_counters(path, "name", set, errors);
    };
    let sets = &spec["sharedCounters"];
    validate_each_unique(list, sets, COUNTER_SETS_MAX, own_name, errors, check);
}

const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
const SCALARS: [&str; 4] = ["bool", "int", "string", "version"];

fn is_complex_device(device: &Value) -> bool {
    let mut attributes = entries(&device["attributes"]);
    !items(&device["taints"]).is_empty()
        || !items(&device["consumesCounters"]).is_empty()
        || attributes.any(|(_, value)| LISTS.iter().any(|list| is_set(&value[*list])))
}

/// Validates the counters of `holder` and the name in its field `member`.
fn validate_counters(path: FieldPath<'_>, member: &str, holder: &Value, errors: &mut Errors) {
    match text(&holder[member]) {
        "" => errors.required(path.child(member), ""),
        name => errors.problems(path.child(member), name, dns1123_label(name)),
    }
    let own = path.child("counters");
    let count = entries(&holder["counters"]).count();
    if count == 0 {
        errors.required(own, "");
    } else if count > LIST_MAX {
        errors.too_many(own, count, LIST_MAX);
    } else {
        for (name, _) in entries(&holder["counters"]) {
            errors.problems(own, name, dns1123_label(name));
        }
    }
}

fn validate_device(path: FieldPath<'_>, device: &Value, selects: bool, errors: &mut Errors) {
    let name = own_name(device);
    errors.problems(path.child("name"), name, dns1123_label(name));
    let (attributes, capacity) = (&device["attributes"], &device["capacity"]);
    let traits = entries(attributes).count() + entries(capacity).count();
    if traits > ATTRIBUTES_MAX {
        let message = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}"
        );
        errors.invalid(path, traits, message);
    }
    let values: usize = entries(attributes).map(|(_, value)| values(value)).sum();
    if values > VALUES_MAX {
        let message = format!("the total number of attribute values must not exceed {VALUES_MAX}");
        errors.invalid(path, values, message);
    }
    let list = path.child("attributes");
    for (name, value) in entries(attributes) {
        validate_qualified_name(list, name, errors);
        validate_attribute(list.key(name), value, errors);
    }
    let list = path.child("capacity");
    for (name, value) in entries(capacity) {
        validate_qualified_name(list, name, errors);
        if is_set(&value["requestPolicy"]) && !flag(&device["allowMultipleAllocations"]) {
            let own = list.key(name);
            let message = "allowMultipleAllocations must be true";
            errors.forbidden(own.child("requestPolicy"), message);
        }
    }
    validate_each(
        path.child("taints"),
        &device["taints"],
        TAINTS_MAX,
        errors,
        validate_taint,
    );
    let list = path.child("consumesCounters");
    let consumed = &device["consumesCounters"];
    let set: fn(&Value) -> &str = |item| text(&item["counterSet"]);
    validate_each_unique(
        list,
        consumed,
        CONSUMPTIONS_MAX,
        set,
        errors,
        |path, one, errors| {
            validate_counters(path, "counterSet", one, errors);
        },
    );
    validate_nodes_of_device(path, device, selects, errors);
}

fn validate_nodes_of_device(
    path: FieldPath<'_>,
    device: &Value,
    selects: bool,
    errors: &mut Errors,
) {
    let ways = ["nodeName", "nodeSelector", "allNodes"];
    if !selects {
        if ways.iter().any(|way| is_set(&device[*way])) {
            let message = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                           `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(path, Value::Null, message);
        }
        return;
    }
    let message = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                   `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let set = validate_node_selection(path, device, &ways, errors);
    match set.len() {
        0 => errors.required(path, message),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", set.join(", ")), message),
    }
}

fn values(attribute: &Value) -> usize {
    let counted: usize = LISTS
        .iter()
        .map(|list| items(&attribute[*list]).len())
        .sum();
    counted.max(1)
}

fn validate_attribute(path: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    for member in ["string", "version"] {
        if let Some(text) = value[member].as_str() {
            validate_attribute_text(path.child(member), member, text, errors);
        }
    }
    for (list, member) in LISTS.iter().zip(SCALARS) {
        let own = path.child(list);
        for (at, item) in items(&value[*list]).iter().enumerate() {
            if let Some(text) = item.as_str() {
                validate_attribute_text(own.index(at), member, text, errors);
            }
        }
    }
    let set = SCALARS.iter().chain(&LISTS);
    let message = "exactly one value must be specified";
    match set.filter(|member| is_set(&value[**member])).count() {
        0 => errors.invalid(path, "", message),
        1 => {}
        _ => errors.invalid(path, value.clone(), message),
    }
}

fn validate_attribute_text(path: FieldPath<'_>, kind: &str, value: &str, errors: &mut Errors) {
    if kind == "version" && !is_version(value) {
        let message = "must be a string compatible with semver.org spec 2.0.0";
        errors.invalid(path, value, message);
    }
    if value.len() > VALUE_BYTES_MAX {
        errors.too_long(path, VALUE_BYTES_MAX);
    }
}

/// Whether the text is a semantic version: `1.2.3-rc.1+build`.
fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(fits)
    };
    let released = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        word(part) && (!digits || number(part))
    };
    let (rest, build) = match text.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (text, None),
    };
    let (core, release) = match rest.split_once('-') {
        Some((core, release)) => (core, Some(release)),
        None => (rest, None),
    };
    core.split('.').count() == 3
        && core.split('.').all(number)
        && release.is_none_or(|release| release.split('.').all(released))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn validate_taint(path: FieldPath<'_>, taint: &Value, errors: &mut Errors) {
    let member = |name: &str| text(&taint[name]);
    errors.problems(
        path.child("key"),
        member("key"),
        qualified_name(member("key")),
    );
    let value = member("value");
    errors.problems(path.child("value"), value, label_value(value));
    errors.one_of(path.child("effect"), member("effect"), EFFECTS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_version_attributes_must_be_semver() {
        for (text, expected) in [
            ("1.2.3", true),
            ("1.2.3-rc.1+b.01", true),
            ("0.0.0-0a", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("v1.2.3", false),
            ("", false),
        ] {
            assert_eq!(is_version(text), expected, "{text}");
        }
    }
}
