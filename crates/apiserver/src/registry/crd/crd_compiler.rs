//! Compiles a CRD (CustomResourceDefinition) to its served resources, one for each served version.

use crate::registry::crd::custom_resource::{
    CrdSource, CustomResource, CustomVersions, ScalePaths, VersionSchema,
};
use crate::registry::crd::custom_resource_definition::{CustomResourceDefinition, versions};
use crate::registry::crd::version_schemas::version_schema;
use crate::registry::crd::webhook_conversion::WebhookConverter;
use crate::registry::served_resource::{ServedResource, version_order};
use optik_catalog::{
    ApiResource, FieldPaths, FieldSegments, FieldValueKind, GenerationRule, PrinterColumn,
    ResponseKind, ScaleMapping, ScaleSelector, Scope, SelectableField, SelectableFields,
    StatusMetadataReset, StatusRule, StrategyOptions, Subresource, SubresourceAction, Text, Verb,
    Verbs,
};
use optik_object::selector::UnsupportedFieldLabel;
use optik_object::{Object, Value};
use optik_schema::structural::Structural;
use optik_store::Version;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The verbs in discovery, in upstream's order.
const VERBS: &[Verb] = &[
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Create,
    Verb::Update,
    Verb::Watch,
];
/// The verbs of a CRD that is being deleted.
const TERMINATING_VERBS: &[Verb] = &[
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Watch,
];
const SUBRESOURCE_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// Compiles the schemas of all versions; equal schemas are shared.
pub(super) fn compile_schemas(
    object: &Object,
    definition: &CustomResourceDefinition,
) -> Arc<CustomVersions> {
    // Keyed by their JSON text: an order is needed, and values have none.
    let mut known: BTreeMap<String, Arc<Structural>> = BTreeMap::new();
    let mut all = Vec::new();
    let mut stored = 0;
    for (index, version) in versions(object).iter().enumerate() {
        let schema = version_schema(version).unwrap_or(&Value::Null);
        let compiled = known.entry(schema.to_string());
        let compiled = compiled.or_insert_with(|| Arc::new(Structural::from_json(schema)));
        let compiled = Arc::clone(compiled);
        let name = version["name"].as_str().unwrap_or_default();
        let api_version = format!("{}/{name}", definition.group);
        all.push(VersionSchema::new(api_version, compiled));
        if version["storage"] == Value::Bool(true) {
            stored = index;
        }
    }
    Arc::new(CustomVersions::new(
        WebhookConverter::read(object),
        all,
        stored,
    ))
}

/// The served resources of a CRD.
pub(super) fn compile_resources(
    object: &Object,
    definition: &CustomResourceDefinition,
    schemas: &Arc<CustomVersions>,
    stored: &Arc<Version>,
    life: &watch::Receiver<()>,
) -> Vec<Arc<ServedResource>> {
    let mut kinds = Vec::new();
    if !definition.is_served() {
        return kinds;
    }
    let newest = newest_version(object);
    for (own, version) in versions(object).iter().enumerate() {
        if version["served"] != Value::Bool(true) {
            continue;
        }
        let custom = CustomResource {
            versions: Arc::clone(schemas),
            version_index: own,
            scale: scale_paths(version),
            source: CrdSource {
                stored: Arc::clone(stored),
                identity: format!("{} {}", definition.uid, definition.generation),
            },
            deprecation: deprecation(definition, version, newest),
            terminating: definition.terminating,
            established: definition.established,
            replaced: life.clone(),
        };
        let resource = resource(definition, version);
        kinds.push(Arc::new(ServedResource::custom(resource, custom)));
    }
    kinds
}

fn resource(definition: &CustomResourceDefinition, version: &Value) -> ApiResource {
    let names = &definition.accepted_names;
    let owned = |text: &str| Text::from(text.to_owned());
    let texts = |list: &[String]| list.iter().map(|text| owned(text)).collect();
    let subresources = subresources(definition, version);
    let has_status = subresources.iter().any(|sub| sub.name == "status");
    let plural = &definition.spec_names.plural;
    ApiResource {
        group: owned(&definition.group),
        version: owned(version["name"].as_str().unwrap_or_default()),
        plural: owned(plural),
        singular: owned(&names.singular),
        kind: owned(&names.kind),
        list_kind: owned(&names.list_kind),
        scope: if definition.namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        verbs: Verbs::from_verbs(VERBS),
        verb_order: if definition.terminating {
            TERMINATING_VERBS
        } else {
            VERBS
        },
        short_names: texts(&names.short_names),
        categories: texts(&names.categories),
        subresources,
        key_prefix: Some(optik_catalog::custom_key_prefix(&definition.group, plural).into()),
        strategy_options: StrategyOptions {
            unconditional_update: false,
            unqualified_finalizers: true,
            generation: GenerationRule::Content,
            status: if has_status {
                StatusRule::Split {
                    initial: Some(""),
                    keeps: StatusMetadataReset::All,
                }
            } else {
                StatusRule::None
            },
            ..StrategyOptions::default()
        },
        selectable_fields: fields(definition, version),
        scale: scale_paths(version).as_ref().map(scaling),
        columns: columns(version),
    }
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    let list = version.get("additionalPrinterColumns");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|column| {
        let text = |name: &str| Text::from(column[name].as_str().unwrap_or_default().to_owned());
        let priority = column["priority"].as_i64().unwrap_or_default();
        PrinterColumn {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or_default(),
            json_path: text("jsonPath"),
        }
    })
    .collect()
}

fn subresources(definition: &CustomResourceDefinition, version: &Value) -> Vec<Subresource> {
    let has = |name: &str| {
        version["subresources"]
            .get(name)
            .is_some_and(Value::is_object)
    };
    let verbs = Verbs::from_verbs(SUBRESOURCE_VERBS);
    let mut list = Vec::new();
    if has("status") {
        list.push(Subresource {
            name: "status".into(),
            verbs,
            action: SubresourceAction::Status,
            kind: ResponseKind {
                group: "".into(),
                version: "".into(),
                kind: definition.accepted_names.kind.clone().into(),
            },
        });
    }
    if has("scale") {
        list.push(Subresource {
            name: "scale".into(),
            verbs,
            action: SubresourceAction::Scale,
            kind: ResponseKind {
                group: "autoscaling".into(),
                version: "v1".into(),
                kind: "Scale".into(),
            },
        });
    }
    list
}

fn scale_paths(version: &Value) -> Option<ScalePaths> {
    let scale = version.get("subresources")?.get("scale")?;
    let text = |name: &str| scale.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(ScalePaths {
        spec: text("specReplicasPath")?,
        status: text("statusReplicasPath")?,
        selector: text("labelSelectorPath").filter(|path| !path.is_empty()),
    })
}

fn scaling(paths: &ScalePaths) -> ScaleMapping {
    let path = |text: &str| -> FieldSegments {
        let names = text.split('.').filter(|name| !name.is_empty());
        names.map(|name| Text::from(name.to_owned())).collect()
    };
    ScaleMapping {
        replicas: path(&paths.spec),
        unset: None,
        observed: path(&paths.status),
        selector: match &paths.selector {
            None => ScaleSelector::None,
            Some(selector) => ScaleSelector::Text(path(selector)),
        },
    }
}

fn fields(definition: &CustomResourceDefinition, version: &Value) -> SelectableFields {
    let list = version.get("selectableFields").and_then(Value::as_array);
    let paths = list.into_iter().flatten();
    let paths = paths.filter_map(|field| field["jsonPath"].as_str());
    let rules = paths.map(|path| {
        let label = path.strip_prefix('.').unwrap_or(path);
        SelectableField {
            label: label.to_owned().into(),
            paths: FieldPaths::One(
                label
                    .split('.')
                    .map(|name| name.to_owned().into())
                    .collect(),
            ),
            shape: FieldValueKind::Any,
        }
    });
    SelectableFields {
        rules: rules.collect::<Vec<_>>().into(),
        namespace: definition.namespaced,
        unknown: UnsupportedFieldLabel::OfOwnFields,
    }
}

/// The newest served version that is not deprecated.
fn newest_version(object: &Object) -> Option<&str> {
    let versions = versions(object).iter();
    let served = versions.filter(|other| other["served"] == true && other["deprecated"] != true);
    let names = served.filter_map(|other| other["name"].as_str());
    names.max_by_key(|other| version_order(other))
}

/// The warning for a deprecated version: its own text, or a pointer to the newer version.
fn deprecation(
    definition: &CustomResourceDefinition,
    version: &Value,
    newest: Option<&str>,
) -> Option<String> {
    if version["deprecated"] != Value::Bool(true) {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let (group, kind) = (&definition.group, &definition.accepted_names.kind);
    let name = version["name"].as_str().unwrap_or_default();
    let mut text = format!("{group}/{name} {kind} is deprecated");
    let newer = newest.filter(|newest| version_order(newest) > version_order(name));
    if let Some(newer) = newer {
        text.push_str(&format!("; use {group}/{newer} {kind}"));
    }
    Some(text)
}
