//! The paths and operations of each resource, independent of the OpenAPI version.

use crate::builtin_schemas::key;
use optik_catalog::{ApiResource, Subresource, Verb};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A path and its operations.
pub(crate) struct ApiPath {
    pub(crate) path: String,
    /// `namespace`, `name`
    pub(crate) parameters: Vec<&'static str>,
    pub(crate) operations: Vec<ApiOperation>,
}

pub(crate) struct ApiOperation {
    /// `get`, `put`, …
    pub(crate) method: &'static str,
    /// `x-kubernetes-action`
    pub(crate) action: &'static str,
    pub(crate) id: String,
    pub(crate) tag: String,
    /// Group, version, kind.
    pub(crate) kind: [String; 3],
    pub(crate) parameters: &'static [QueryParameter],
    pub(crate) body: OperationBody,
    /// The name of the schema of the response.
    pub(crate) response_schema: String,
    /// The status codes of success, with their descriptions.
    pub(crate) codes: &'static [(&'static str, &'static str)],
    pub(crate) media: &'static MediaTypes,
}

pub(crate) struct QueryParameter {
    pub(crate) name: &'static str,
    /// `string`, `integer`, `boolean`
    pub(crate) kind: &'static str,
}

pub(crate) enum OperationBody {
    None,
    /// The name of a schema, and whether the body is required.
    Object(String, bool),
    Patch,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The media types of request and response bodies of a resource.
pub(crate) struct MediaTypes {
    pub(crate) patches: &'static [&'static str],
    pub(crate) bodies: &'static [&'static str],
    pub(crate) responses: &'static [&'static str],
}

const BUILT_IN: &MediaTypes = &MediaTypes {
    patches: &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ],
    bodies: &["*/*"],
    responses: &[
        "application/json",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ],
};
const CUSTOM: &MediaTypes = &MediaTypes {
    patches: &[
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ],
    bodies: &["application/json", "application/yaml"],
    responses: &["application/json", "application/yaml"],
};

/// A path item of OpenAPI v2 or v3; the closures write the parts that differ.
pub(crate) fn path_item(
    path: &ApiPath,
    operation_of: impl Fn(&ApiOperation) -> Value,
    parameter_of: impl Fn(&str) -> Value,
    pretty: Value,
) -> Value {
    let operations = path.operations.iter();
    let mut item: Map<String, Value> = operations
        .map(|operation| (operation.method.to_owned(), operation_of(operation)))
        .collect();
    let parameters = path.parameters.iter().map(|name| parameter_of(name));
    let parameters = parameters.chain([pretty]).collect();
    item.insert("parameters".to_owned(), parameters);
    item.into()
}

/// The name of the schema of every patch.
pub(crate) fn patch_schema() -> String {
    format!("{META}Patch")
}

const fn parameter(name: &'static str, kind: &'static str) -> QueryParameter {
    QueryParameter { name, kind }
}

const READ: &[QueryParameter] = &[];
const WRITE: &[QueryParameter] = &[
    parameter("dryRun", "string"),
    parameter("fieldManager", "string"),
    parameter("fieldValidation", "string"),
];
const PATCH: &[QueryParameter] = &[
    parameter("dryRun", "string"),
    parameter("fieldManager", "string"),
    parameter("fieldValidation", "string"),
    parameter("force", "boolean"),
];
const LIST: &[QueryParameter] = &[
    parameter("allowWatchBookmarks", "boolean"),
    parameter("continue", "string"),
    parameter("fieldSelector", "string"),
    parameter("labelSelector", "string"),
    parameter("limit", "integer"),
    parameter("resourceVersion", "string"),
    parameter("resourceVersionMatch", "string"),
    parameter("sendInitialEvents", "boolean"),
    parameter("timeoutSeconds", "integer"),
    parameter("watch", "boolean"),
];
const DELETE: &[QueryParameter] = &[
    parameter("dryRun", "string"),
    parameter("gracePeriodSeconds", "integer"),
    parameter("orphanDependents", "boolean"),
    parameter("propagationPolicy", "string"),
];
const DELETE_ALL: &[QueryParameter] = &[
    parameter("continue", "string"),
    parameter("dryRun", "string"),
    parameter("fieldSelector", "string"),
    parameter("gracePeriodSeconds", "integer"),
    parameter("labelSelector", "string"),
    parameter("limit", "integer"),
    parameter("orphanDependents", "boolean"),
    parameter("propagationPolicy", "string"),
    parameter("resourceVersion", "string"),
    parameter("resourceVersionMatch", "string"),
    parameter("timeoutSeconds", "integer"),
];

const OK: &[(&str, &str)] = &[("200", "OK")];
const OK_OR_CREATED: &[(&str, &str)] = &[("200", "OK"), ("201", "Created")];
const OK_CREATED_OR_ACCEPTED: &[(&str, &str)] =
    &[("200", "OK"), ("201", "Created"), ("202", "Accepted")];
const OK_OR_ACCEPTED: &[(&str, &str)] = &[("200", "OK"), ("202", "Accepted")];

/// The paths of a resource. `schemas` are the names of schemas by kind.
pub(crate) fn paths(
    resource: &ApiResource,
    schemas: &BTreeMap<String, &str>,
    is_custom: bool,
) -> Vec<ApiPath> {
    let own = KindNames::new(resource, schemas, is_custom);
    let base = base(&resource.group, &resource.version);
    let scope = match resource.is_namespaced() {
        true => "/namespaces/{namespace}",
        false => "",
    };
    let mut in_scope: Vec<&'static str> = Vec::new();
    if resource.is_namespaced() {
        in_scope.push("namespace");
    }
    let mut paths = Vec::new();
    if resource.is_namespaced() && resource.verbs.contains(Verb::List) {
        paths.push(ApiPath {
            path: format!("{base}/{}", resource.plural),
            parameters: Vec::new(),
            operations: vec![own.operation(
                "get",
                "list",
                LIST,
                OperationBody::None,
                &own.list,
                OK,
            )],
        });
    }
    let collection = format!("{base}{scope}/{}", resource.plural);
    paths.push(ApiPath {
        path: collection.clone(),
        parameters: in_scope.clone(),
        operations: collection_operations(resource, &own),
    });
    let mut with_name = in_scope;
    with_name.insert(0, "name");
    paths.push(ApiPath {
        path: format!("{collection}/{{name}}"),
        parameters: with_name.clone(),
        operations: object_operations(resource, &own),
    });
    for sub in &resource.subresources {
        paths.push(ApiPath {
            path: format!("{collection}/{{name}}/{}", sub.name),
            parameters: with_name.clone(),
            operations: subresource_operations(resource, sub, schemas, is_custom),
        });
    }
    paths.retain(|path| !path.operations.is_empty());
    paths
}

/// `/api/v1`, `/apis/apps/v1`
pub(crate) fn base(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

fn collection_operations(resource: &ApiResource, own: &KindNames) -> Vec<ApiOperation> {
    let mut operations = Vec::new();
    let verbs = resource.verbs;
    if verbs.contains(Verb::List) {
        operations.push(own.operation("get", "list", LIST, OperationBody::None, &own.list, OK));
    }
    if verbs.contains(Verb::Create) {
        let body = OperationBody::Object(own.schema.clone(), true);
        operations.push(own.operation(
            "post",
            "post",
            WRITE,
            body,
            &own.schema,
            OK_CREATED_OR_ACCEPTED,
        ));
    }
    if verbs.contains(Verb::DeleteCollection) {
        let status = format!("{META}Status");
        let delete = "deletecollection";
        operations.push(own.operation("delete", delete, DELETE_ALL, options(), &status, OK));
    }
    operations
}

fn object_operations(resource: &ApiResource, own: &KindNames) -> Vec<ApiOperation> {
    let mut operations = own.reads_and_writes(resource.verbs);
    if resource.verbs.contains(Verb::Delete) {
        let status = format!("{META}Status");
        operations.push(own.operation(
            "delete",
            "delete",
            DELETE,
            options(),
            &status,
            OK_OR_ACCEPTED,
        ));
    }
    operations
}

fn subresource_operations(
    resource: &ApiResource,
    sub: &Subresource,
    schemas: &BTreeMap<String, &str>,
    is_custom: bool,
) -> Vec<ApiOperation> {
    let or = |own: &str, other: &str| if own.is_empty() { other } else { own }.to_owned();
    let named = KindNames {
        kind: match sub.kind.version.is_empty() {
            true => [
                resource.group.to_string(),
                resource.version.to_string(),
                or(&sub.kind.kind, &resource.kind),
            ],
            false => [
                sub.kind.group.to_string(),
                sub.kind.version.to_string(),
                sub.kind.kind.to_string(),
            ],
        },
        ..KindNames::new(resource, schemas, is_custom)
    };
    let [group, version, kind] = &named.kind;
    let Some(schema) = schemas.get(&key(group, version, kind)) else {
        return Vec::new();
    };
    let suffix: String = sub.name.split('/').map(capitalize).collect();
    let named = KindNames {
        schema: (*schema).to_owned(),
        suffix,
        ..named
    };
    let mut operations = named.reads_and_writes(sub.verbs);
    if sub.verbs.contains(Verb::Create) {
        let body = OperationBody::Object(named.schema.clone(), true);
        operations.push(named.operation(
            "post",
            "post",
            WRITE,
            body,
            &named.schema,
            OK_CREATED_OR_ACCEPTED,
        ));
    }
    operations
}

fn options() -> OperationBody {
    OperationBody::Object(format!("{META}DeleteOptions"), false)
}

/// A kind and the names of its operations.
struct KindNames {
    kind: [String; 3],
    schema: String,
    /// `AppsV1NamespacedDeployment`
    stem: String,
    suffix: String,
    tag: String,
    /// The name of the schema of lists.
    list: String,
    media: &'static MediaTypes,
}

impl KindNames {
    fn new(resource: &ApiResource, schemas: &BTreeMap<String, &str>, is_custom: bool) -> Self {
        let (group, version) = (&*resource.group, &*resource.version);
        let short = match group {
            "" => "core".to_owned(),
            group if is_custom => camel_case_group(group),
            group => group.split('.').next().unwrap_or(group).to_owned(),
        };
        let schema = schemas.get(&key(group, version, &resource.kind));
        let schema = schema.copied().unwrap_or_default().to_owned();
        let list = schemas.get(&key(group, version, &resource.list_kind));
        let scope = match resource.is_namespaced() {
            true => "Namespaced",
            false => "",
        };
        Self {
            kind: [group.into(), version.into(), resource.kind.to_string()],
            list: match list {
                Some(list) => (*list).to_owned(),
                None => format!("{schema}List"),
            },
            media: if is_custom { CUSTOM } else { BUILT_IN },
            schema,
            stem: format!(
                "{}{}{scope}{}",
                capitalize(&short),
                capitalize(version),
                resource.kind
            ),
            suffix: String::new(),
            tag: format!("{short}_{version}"),
        }
    }

    fn reads_and_writes(&self, verbs: optik_catalog::Verbs) -> Vec<ApiOperation> {
        let mut operations = Vec::new();
        if verbs.contains(Verb::Get) {
            operations.push(self.operation(
                "get",
                "get",
                READ,
                OperationBody::None,
                &self.schema,
                OK,
            ));
        }
        if verbs.contains(Verb::Update) {
            let body = OperationBody::Object(self.schema.clone(), true);
            let codes = OK_OR_CREATED;
            operations.push(self.operation("put", "put", WRITE, body, &self.schema, codes));
        }
        if verbs.contains(Verb::Patch) {
            let (body, codes) = (OperationBody::Patch, OK_OR_CREATED);
            operations.push(self.operation("patch", "patch", PATCH, body, &self.schema, codes));
        }
        operations
    }

    fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        parameters: &'static [QueryParameter],
        body: OperationBody,
        answer: &str,
        codes: &'static [(&'static str, &'static str)],
    ) -> ApiOperation {
        let word = match action {
            "get" => "read",
            "post" => "create",
            "put" => "replace",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        ApiOperation {
            method,
            action,
            id: format!("{word}{}{}", self.stem, self.suffix),
            tag: self.tag.clone(),
            kind: self.kind.clone(),
            parameters,
            body,
            response_schema: answer.to_owned(),
            codes,
            media: self.media,
        }
    }
}

/// `exampleCom` of `example.com`
fn camel_case_group(group: &str) -> String {
    let mut words = group.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |word, next| word + &capitalize(next))
}

fn capitalize(word: &str) -> String {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
