//! The OpenAPI schemas of custom resources: the schema of the CRD, and the members every object
//! has.

use crate::builtin_schemas::key;
use crate::openapi_kind::OpenApiKind;
use optik_catalog::ApiResource;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The built-in schemas that provide the members every object has.
const SAMPLE_KIND: &str = "io.k8s.api.core.v1.ConfigMap";
const SAMPLE_LIST: &str = "io.k8s.api.core.v1.ConfigMapList";

const KINDS: &str = "x-kubernetes-group-version-kind";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const PRESERVE_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";

/// The OpenAPI version the schemas are published in. OpenAPI v2 cannot express many keywords of CRD
/// schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenApiVersion {
    V2,
    V3,
}

/// Schemas by name, and their names by kind.
#[derive(Debug, Default)]
pub(crate) struct CustomSchemas {
    pub(crate) schemas: BTreeMap<String, Value>,
    pub(crate) kinds: BTreeMap<String, String>,
}

impl CustomSchemas {
    /// The schemas of the custom resources among `described`.
    pub(crate) fn for_kinds<'r, D: OpenApiKind + ?Sized + 'r>(
        described: impl Iterator<Item = &'r D>,
        table: &BTreeMap<&str, &str>,
        dialect: OpenApiVersion,
    ) -> Self {
        let mut customs = Self::default();
        let common = CommonMembers::find(table);
        for described in described {
            let Some(definition) = described.definition() else {
                continue;
            };
            let resource = described.resource();
            let schema = object_schema(definition, &common, dialect);
            customs.add(resource, &resource.kind, schema);
            let schema = list_schema(resource, &common);
            customs.add(resource, &resource.list_kind, schema);
        }
        customs
    }

    fn add(&mut self, resource: &ApiResource, kind: &str, mut schema: Value) {
        let (group, version) = (&*resource.group, &*resource.version);
        schema[KINDS] = json!([{"group": group, "version": version, "kind": kind}]);
        let selectable = resource.selectable_fields.rules.iter();
        let selectable: Vec<Value> = selectable
            .map(|rule| json!({"fieldPath": rule.label}))
            .collect();
        if !selectable.is_empty() {
            schema["x-kubernetes-selectable-fields"] = selectable.into();
        }
        let name = name_of(group, version, kind);
        self.kinds.insert(key(group, version, kind), name.clone());
        self.schemas.insert(name, schema);
    }
}

/// `com.example.v1.Widget`
fn name_of(group: &str, version: &str, kind: &str) -> String {
    let mut words: Vec<&str> = group.split('.').collect();
    words.reverse();
    format!("{}.{version}.{kind}", words.join("."))
}

/// The members that every object or list has.
struct CommonMembers {
    object: Map<String, Value>,
    list: Map<String, Value>,
}

impl CommonMembers {
    fn find(table: &BTreeMap<&str, &str>) -> Self {
        let members = |name: &str| {
            let json = table.get(name).copied().unwrap_or("{}");
            let schema: Value = serde_json::from_str(json).unwrap_or_default();
            let mut found = Map::new();
            for name in ["apiVersion", "kind", "metadata"] {
                let mut member = schema["properties"][name].clone();
                if let Value::Object(member) = &mut member {
                    member.remove("default");
                }
                found.insert(name.to_owned(), member);
            }
            found
        };
        Self {
            object: members(SAMPLE_KIND),
            list: members(SAMPLE_LIST),
        }
    }
}

fn object_schema(definition: Value, common: &CommonMembers, dialect: OpenApiVersion) -> Value {
    let mut schema = match definition {
        Value::Object(members) => members,
        // A CRD without a schema is published as an untyped object, even without the members every
        // object has: clients would take those for the complete list.
        _ => return json!({"type": "object"}),
    };
    if dialect == OpenApiVersion::V2 && is_set(&schema, PRESERVE_UNKNOWN_FIELDS) {
        return json!({"type": "object"});
    }
    rewrite_schema(&mut schema, common, dialect);
    add_members(&mut schema, &common.object);
    schema.into()
}

fn list_schema(resource: &ApiResource, common: &CommonMembers) -> Value {
    let ApiResource {
        group,
        version,
        kind,
        list_kind,
        ..
    } = resource;
    let item = name_of(group, version, kind);
    let mut members = common.list.clone();
    let items = json!({
        "type": "array", "items": {"$ref": format!("#/components/schemas/{item}")},
    });
    members.insert("items".to_owned(), items);
    json!({
        "type": "object", "description": format!("{list_kind} is a list of {kind}"),
        "required": ["items"], "properties": members,
    })
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn add_members(schema: &mut Map<String, Value>, members: &Map<String, Value>) {
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties.extend(members.clone());
    }
}

/// Rewrites a schema and its subschemas. A CRD may be nested as deep as a document may be.
fn rewrite_schema(
    schema: &mut Map<String, Value>,
    common: &CommonMembers,
    dialect: OpenApiVersion,
) {
    if dialect == OpenApiVersion::V2 {
        to_v2(schema);
    } else if is_set(schema, INT_OR_STRING) && !schema.contains_key("anyOf") {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        schema.insert("anyOf".to_owned(), either);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            rewrite_value(property, common, dialect);
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name) {
            rewrite_value(inner, common, dialect);
        }
    }
    // OpenAPI v2 clients would reject any other member here.
    let open = dialect == OpenApiVersion::V2 && is_set(schema, PRESERVE_UNKNOWN_FIELDS);
    if is_set(schema, EMBEDDED) && !open {
        add_members(schema, &common.object);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|own| own == name) {
                    required.push(name.into());
                }
            }
        }
    }
}

fn rewrite_value(value: &mut Value, common: &CommonMembers, dialect: OpenApiVersion) {
    if let Value::Object(schema) = value {
        rewrite_schema(schema, common, dialect);
    }
}

/// Removes what OpenAPI v2 cannot express, or what its clients handle wrongly.
fn to_v2(schema: &mut Map<String, Value>) {
    for name in ["allOf", "anyOf", "oneOf", "not", "default"] {
        schema.remove(name);
    }
    let nullable = is_set(schema, "nullable");
    schema.remove("nullable");
    if is_set(schema, INT_OR_STRING) {
        schema.remove("type");
    }
    if nullable || is_set(schema, PRESERVE_UNKNOWN_FIELDS) {
        let structure = [
            "type",
            "items",
            "properties",
            "additionalProperties",
            "required",
        ];
        for name in structure {
            schema.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_schemas::BuiltinSchemas;

    fn resource() -> ApiResource {
        let mut all = optik_catalog::builtin().into_iter();
        let mut resource = all.find(|own| own.plural == "configmaps").unwrap();
        resource.group = "show.example.com".into();
        resource.version = "v1".into();
        resource.kind = "Show".into();
        resource.list_kind = "Shows".into();
        resource.plural = "shows".into();
        resource
    }

    struct TestKind(ApiResource, Value);

    impl OpenApiKind for TestKind {
        fn resource(&self) -> &ApiResource {
            &self.0
        }
        fn definition(&self) -> Option<Value> {
            Some(self.1.clone())
        }
        fn identity(&self) -> &'static str {
            "1"
        }
    }

    const NAME: &str = "com.example.show.v1.Show";

    fn both(definition: Value) -> [Value; 2] {
        let schemas = BuiltinSchemas::unpack();
        let custom = TestKind(resource(), definition);
        [OpenApiVersion::V3, OpenApiVersion::V2].map(|dialect| {
            let customs =
                CustomSchemas::for_kinds([&custom].into_iter(), &schemas.by_name(), dialect);
            customs.schemas[NAME].clone()
        })
    }

    #[test]
    fn openapi_custom_kinds_have_type_and_metadata_members() {
        let definition = json!({"type": "object", "description": "A show.", "properties": {
            "metadata": {"type": "object"}, "spec": {"type": "string", "description": "Words."}}});
        for schema in both(definition) {
            assert_eq!(schema["description"], "A show.");
            let members = &schema["properties"];
            assert_eq!(
                members["spec"],
                json!({"type": "string", "description": "Words."})
            );
            assert_eq!(members["apiVersion"]["type"], "string");
            let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
            assert_eq!(members["metadata"]["allOf"][0]["$ref"], metadata);
            let kind = json!([{"group": "show.example.com", "version": "v1", "kind": "Show"}]);
            assert_eq!(schema[KINDS], kind);
        }
    }

    #[test]
    fn openapi_v2_omits_what_it_cannot_express() {
        let [newer, older] = both(json!({"type": "object", "properties": {
            "null": {"type": "string", "nullable": true, "description": "May be null."},
            "port": {"x-kubernetes-int-or-string": true},
            "any": {"type": "object", PRESERVE_UNKNOWN_FIELDS: true, "properties": {"a": {"type": "string"}}},
            "one": {"type": "object", "oneOf": [{"required": ["a"]}], "default": {}},
        }}));
        let expected = json!({
            "null": {"description": "May be null."}, "port": {"x-kubernetes-int-or-string": true},
            "any": {PRESERVE_UNKNOWN_FIELDS: true}, "one": {"type": "object"},
        });
        for (name, schema) in expected.as_object().unwrap() {
            assert_eq!(older["properties"][name], *schema, "{name}");
        }
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        assert_eq!(newer["properties"]["port"]["anyOf"], either);
        assert_eq!(newer["properties"]["null"]["nullable"], true);
        assert!(newer["properties"]["one"]["oneOf"].is_array());
    }

    #[test]
    fn openapi_describes_embedded_resources() {
        let [newer, older] = both(json!({"type": "object", "properties": {
            "open": {"type": "object", EMBEDDED: true, PRESERVE_UNKNOWN_FIELDS: true},
            "whole": {"type": "object", EMBEDDED: true, "required": ["kind"]},
        }}));
        let whole = &older["properties"]["whole"];
        assert_eq!(whole["required"], json!(["kind", "apiVersion"]));
        assert!(whole["properties"]["metadata"].is_object());
        let expected = json!({EMBEDDED: true, PRESERVE_UNKNOWN_FIELDS: true});
        assert_eq!(older["properties"]["open"], expected);
        assert!(newer["properties"]["open"]["properties"]["kind"].is_object());
    }

    #[test]
    fn openapi_of_unrestricted_schema_is_minimal() {
        let [newer, older] = both(json!({"type": "object", PRESERVE_UNKNOWN_FIELDS: true}));
        assert!(older.get("properties").is_none());
        assert!(newer["properties"]["metadata"].is_object());
    }

    #[test]
    fn openapi_documents_include_custom_kinds() {
        let custom = TestKind(resource(), json!({"type": "object"}));
        let path = "apis/show.example.com/v1";
        let text = crate::v3([&custom].into_iter(), path).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let list = &document["components"]["schemas"]["com.example.show.v1.Shows"];
        let item = "#/components/schemas/com.example.show.v1.Show";
        assert_eq!(list["properties"]["items"]["items"]["$ref"], item);
        for path in document["paths"].as_object().unwrap().values() {
            let text = path.to_string();
            assert!(
                !text.contains("protobuf") && !text.contains("strategic"),
                "{text}"
            );
        }
        let older = crate::v2([&custom].into_iter());
        let item = "#/definitions/com.example.show.v1.Show";
        let list = &older["definitions"]["com.example.show.v1.Shows"];
        assert_eq!(list["properties"]["items"]["items"]["$ref"], item);
        let metadata = &older["definitions"][NAME]["properties"]["metadata"];
        let expected = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        assert_eq!(metadata["$ref"], expected);
    }

    #[test]
    fn openapi_hash_changes_with_the_definition() {
        struct Other(ApiResource);
        impl OpenApiKind for Other {
            fn resource(&self) -> &ApiResource {
                &self.0
            }
            fn definition(&self) -> Option<Value> {
                None
            }
            fn identity(&self) -> &'static str {
                "2"
            }
        }
        let one = TestKind(resource(), Value::Null);
        let other = Other(resource());
        assert_ne!(
            crate::hash([&one].into_iter()),
            crate::hash([&other].into_iter())
        );
    }
}
