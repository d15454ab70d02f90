//! The types of custom kinds: what a definition says, and what every object has.

use crate::described::Described;
use crate::schemas::key;
use optik_catalog::Resource;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where the members that all objects have are described already.
const SOME_KIND: &str = "io.k8s.api.core.v1.ConfigMap";
const SOME_LIST: &str = "io.k8s.api.core.v1.ConfigMapList";

const KINDS: &str = "x-kubernetes-group-version-kind";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const UNKNOWN_KEPT: &str = "x-kubernetes-preserve-unknown-fields";

/// Which version of OpenAPI the types are for. The older one has no words for much of
/// what schemas can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    V2,
    V3,
}

/// Types by name, and their names by kind.
#[derive(Debug, Default)]
pub(crate) struct Customs {
    pub(crate) schemas: BTreeMap<String, Value>,
    pub(crate) kinds: BTreeMap<String, String>,
}

impl Customs {
    /// The types of those kinds that are not built in.
    pub(crate) fn of<'r, D: Described + ?Sized + 'r>(
        described: impl Iterator<Item = &'r D>,
        table: &BTreeMap<&str, &str>,
        dialect: Dialect,
    ) -> Self {
        let mut customs = Self::default();
        let common = Common::find(table);
        for described in described {
            let Some(definition) = described.definition() else {
                continue;
            };
            let resource = described.resource();
            let schema = of_object(definition, &common, dialect);
            customs.add(resource, &resource.kind, schema);
            let schema = of_list(resource, &common);
            customs.add(resource, &resource.list_kind, schema);
        }
        customs
    }

    fn add(&mut self, resource: &Resource, kind: &str, mut schema: Value) {
        let (group, version) = (&*resource.group, &*resource.version);
        schema[KINDS] = json!([{"group": group, "version": version, "kind": kind}]);
        let selectable = resource.fields.rules.iter();
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
struct Common {
    object: Map<String, Value>,
    list: Map<String, Value>,
}

impl Common {
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
            object: members(SOME_KIND),
            list: members(SOME_LIST),
        }
    }
}

fn of_object(definition: Value, common: &Common, dialect: Dialect) -> Value {
    let mut schema = match definition {
        Value::Object(members) => members,
        // Without a type nothing can be said, not even what all objects have: clients
        // would take it for everything there is.
        _ => return json!({"type": "object"}),
    };
    if dialect == Dialect::V2 && is_set(&schema, UNKNOWN_KEPT) {
        return json!({"type": "object"});
    }
    spell(&mut schema, common, dialect);
    add_members(&mut schema, &common.object);
    schema.into()
}

fn of_list(resource: &Resource, common: &Common) -> Value {
    let Resource {
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

/// Rewrites a schema and all in it. Definitions are as deep as JSON may be.
fn spell(schema: &mut Map<String, Value>, common: &Common, dialect: Dialect) {
    if dialect == Dialect::V2 {
        to_v2(schema);
    } else if is_set(schema, INT_OR_STRING) && !schema.contains_key("anyOf") {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        schema.insert("anyOf".to_owned(), either);
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            spell_value(property, common, dialect);
        }
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name) {
            spell_value(inner, common, dialect);
        }
    }
    // Clients of the older version would refuse whatever else is in there.
    let open = dialect == Dialect::V2 && is_set(schema, UNKNOWN_KEPT);
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

fn spell_value(value: &mut Value, common: &Common, dialect: Dialect) {
    if let Value::Object(schema) = value {
        spell(schema, common, dialect);
    }
}

/// Leaves out what the older version cannot say, or what its clients get wrong.
fn to_v2(schema: &mut Map<String, Value>) {
    for name in ["allOf", "anyOf", "oneOf", "not", "default"] {
        schema.remove(name);
    }
    let nullable = is_set(schema, "nullable");
    schema.remove("nullable");
    if is_set(schema, INT_OR_STRING) {
        schema.remove("type");
    }
    if nullable || is_set(schema, UNKNOWN_KEPT) {
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
    use crate::schemas::Schemas;

    fn resource() -> Resource {
        let mut all = optik_catalog::builtin().into_iter();
        let mut resource = all.find(|own| own.plural == "configmaps").unwrap();
        resource.group = "show.example.com".into();
        resource.version = "v1".into();
        resource.kind = "Show".into();
        resource.list_kind = "Shows".into();
        resource.plural = "shows".into();
        resource
    }

    struct Custom(Resource, Value);

    impl Described for Custom {
        fn resource(&self) -> &Resource {
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
        let schemas = Schemas::unpack();
        let custom = Custom(resource(), definition);
        [Dialect::V3, Dialect::V2].map(|dialect| {
            let customs = Customs::of([&custom].into_iter(), &schemas.by_name(), dialect);
            customs.schemas[NAME].clone()
        })
    }

    #[test]
    fn objects_have_what_all_objects_have() {
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
    fn the_older_version_says_less() {
        let [newer, older] = both(json!({"type": "object", "properties": {
            "null": {"type": "string", "nullable": true, "description": "May be null."},
            "port": {"x-kubernetes-int-or-string": true},
            "any": {"type": "object", UNKNOWN_KEPT: true, "properties": {"a": {"type": "string"}}},
            "one": {"type": "object", "oneOf": [{"required": ["a"]}], "default": {}},
        }}));
        let expected = json!({
            "null": {"description": "May be null."}, "port": {"x-kubernetes-int-or-string": true},
            "any": {UNKNOWN_KEPT: true}, "one": {"type": "object"},
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
    fn objects_in_objects() {
        let [newer, older] = both(json!({"type": "object", "properties": {
            "open": {"type": "object", EMBEDDED: true, UNKNOWN_KEPT: true},
            "whole": {"type": "object", EMBEDDED: true, "required": ["kind"]},
        }}));
        let whole = &older["properties"]["whole"];
        assert_eq!(whole["required"], json!(["kind", "apiVersion"]));
        assert!(whole["properties"]["metadata"].is_object());
        let expected = json!({EMBEDDED: true, UNKNOWN_KEPT: true});
        assert_eq!(older["properties"]["open"], expected);
        assert!(newer["properties"]["open"]["properties"]["kind"].is_object());
    }

    #[test]
    fn of_what_takes_anything_little_is_said() {
        let [newer, older] = both(json!({"type": "object", UNKNOWN_KEPT: true}));
        assert!(older.get("properties").is_none());
        assert!(newer["properties"]["metadata"].is_object());
    }

    #[test]
    fn documents_have_custom_kinds() {
        let custom = Custom(resource(), json!({"type": "object"}));
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
    fn another_definition_has_another_hash() {
        struct Other(Resource);
        impl Described for Other {
            fn resource(&self) -> &Resource {
                &self.0
            }
            fn definition(&self) -> Option<Value> {
                None
            }
            fn identity(&self) -> &'static str {
                "2"
            }
        }
        let one = Custom(resource(), Value::Null);
        let other = Other(resource());
        assert_ne!(
            crate::hash([&one].into_iter()),
            crate::hash([&other].into_iter())
        );
    }
}
