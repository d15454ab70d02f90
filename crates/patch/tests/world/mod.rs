//! Test fixture: one object, and writes to it by several managers.
#![allow(dead_code, reason = "each test file uses its part of it")]

use optik_object::{Object, Timestamp, Value};
use optik_patch::{
    ApplyError, ApplyRequest, ApplyResult, Endpoint, Family, FieldSet, MergePatch, OneVersion,
    UpdateRequest, apply, merge_patch, update,
};
use optik_schema::{Schema, TypeRef, builtin_type};
use std::sync::OnceLock;

pub(crate) struct World {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) of: TypeRef<'static>,
    pub(crate) family: Family,
    pub(crate) live: Option<Object>,
    pub(crate) seconds: i64,
}

/// A custom kind with a list of each type.
static CUSTOM: &str = "\
=Thing
 apiVersion s
 kind s
 metadata @1
 spec @2
 status @5
=Meta
 name s
 namespace s
 uid s
 labels {s}
 annotations {s}
=Spec
 set [=s]
 list [s]
 keyed [k,p|@3]
 whole @4
 map {s}
 wholemap {!s}
 entries {@3}
 free @5
 text s
 number l
 inner @6
=Item
 k s d=\"\"
 p l d=7
 v s
 in @6
=Whole !
 a s
 b s
=Free ?
=Inner
 a s
 b s
 deep @3
";

pub(crate) fn custom() -> TypeRef<'static> {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA
        .get_or_init(|| Schema::parse(CUSTOM).expect("a table"))
        .root()
}

pub(crate) fn object(value: Value) -> Object {
    value.try_into().expect("an object")
}

impl World {
    pub(crate) fn config_map() -> Self {
        Self::of(
            "v1",
            "ConfigMap",
            builtin_type("", "v1", "ConfigMap").unwrap(),
            Family::BuiltIn,
        )
    }

    pub(crate) fn deployment() -> Self {
        let of = builtin_type("apps", "v1", "Deployment").unwrap();
        Self::of("apps/v1", "Deployment", of, Family::BuiltIn)
    }

    pub(crate) fn thing() -> Self {
        Self::of("t.io/v1", "Thing", custom(), Family::Custom)
    }

    pub(crate) fn of(
        api_version: &'static str,
        kind: &'static str,
        of: TypeRef<'static>,
        family: Family,
    ) -> Self {
        Self {
            api_version,
            kind,
            of,
            family,
            live: None,
            seconds: 1000,
        }
    }

    pub(crate) fn body(&self, mut content: Value) -> Object {
        content["apiVersion"] = self.api_version.into();
        content["kind"] = self.kind.into();
        if content["metadata"].is_null() {
            content["metadata"] = serde_json::json!({});
        }
        content["metadata"]["name"] = "x".into();
        object(content)
    }

    fn reset(subresource: &str) -> FieldSet {
        match subresource {
            "" => FieldSet::from_fields(&[&["status"]]),
            _ => FieldSet::from_fields(&[&["spec"], &["metadata", "labels"]]),
        }
    }

    /// Applies without storing the result.
    pub(crate) fn try_apply(
        &self,
        manager: &str,
        subresource: &str,
        config: &Object,
        force: bool,
    ) -> Result<ApplyResult, ApplyError> {
        let reset = Self::reset(subresource);
        let versions = OneVersion {
            api_version: self.api_version,
            of: self.of,
            reset: Some(&reset),
        };
        let endpoint = Endpoint {
            api_version: self.api_version,
            kind: self.kind,
            subresource,
            versions: &versions,
        };
        let request = ApplyRequest {
            live: self.live.as_ref(),
            config,
            manager,
            force,
            now: Timestamp::from_seconds(self.seconds),
        };
        apply(&endpoint, &request)
    }

    /// Forced if the name ends with an exclamation mark.
    pub(crate) fn apply(
        &mut self,
        manager: &str,
        content: Value,
    ) -> Result<ApplyResult, ApplyError> {
        self.apply_to("", manager, content)
    }

    pub(crate) fn apply_to(
        &mut self,
        subresource: &str,
        manager: &str,
        content: Value,
    ) -> Result<ApplyResult, ApplyError> {
        let config = self.body(content);
        let name = manager.trim_end_matches('!');
        let applied = self.try_apply(name, subresource, &config, name != manager)?;
        self.live = Some(applied.object.clone());
        self.seconds += 1;
        Ok(applied)
    }

    /// Stores what a create, update or patch would store.
    pub(crate) fn write(&mut self, subresource: &str, manager: &str, mut new: Object) {
        let reset = Self::reset(subresource);
        let versions = OneVersion {
            api_version: self.api_version,
            of: self.of,
            reset: Some(&reset),
        };
        let endpoint = Endpoint {
            api_version: self.api_version,
            kind: self.kind,
            subresource,
            versions: &versions,
        };
        let write = UpdateRequest {
            live: self.live.as_ref(),
            manager,
            now: Timestamp::from_seconds(self.seconds),
            family: self.family,
        };
        update(&endpoint, &write, &mut new);
        self.live = Some(new);
        self.seconds += 1;
    }

    pub(crate) fn create(&mut self, manager: &str, content: Value) {
        let new = self.body(content);
        self.live = None;
        self.write("", manager, new);
    }

    /// Applies a merge patch.
    pub(crate) fn patch(&mut self, manager: &str, patch: &Value) {
        self.patch_to("", manager, patch);
    }

    pub(crate) fn patch_to(&mut self, subresource: &str, manager: &str, patch: &Value) {
        let body = patch.to_string();
        let patch = MergePatch::decode(body.as_bytes(), optik_patch::StrictDecoding::On).unwrap();
        let mut new = self.live.clone().expect("an object");
        merge_patch(new.members_mut(), patch.members);
        self.write(subresource, manager, new);
    }

    pub(crate) fn at(&self, pointer: &str) -> Value {
        let live = self
            .live
            .as_ref()
            .map(|live| Value::Object(live.members().clone()));
        live.unwrap_or_default()
            .pointer(pointer)
            .cloned()
            .unwrap_or_default()
    }

    /// The owners of all fields, in one line: `A m1 .data.a .data.b; U upd .data.c`.
    pub(crate) fn owners(&self) -> String {
        let Value::Array(list) = self.at("/metadata/managedFields") else {
            return String::new();
        };
        let entries = list.iter().map(|entry| {
            let set = FieldSet::decode(&entry["fieldsV1"]).unwrap();
            let operation = &entry["operation"].as_str().unwrap()[..1];
            format!("{operation} {} {set}", entry["manager"].as_str().unwrap())
        });
        entries.collect::<Vec<_>>().join("; ")
    }
}
