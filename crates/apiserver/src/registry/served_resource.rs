//! Served resources (built-in kinds and CRDs) and the registry that finds them by group, version
//! and resource name.

use crate::registry::crd::custom_resource::CustomResource;
use crate::registry::crd::webhook_conversion::WebhookConverter;
use crate::registry::storage_conversion::StorageConversion;
use optik_builtin::{Defaulter, NormalizeError, Strategy};
use optik_catalog::{ApiResource, Text};
use optik_object::{CorruptBytes, Map, Object, ResourceName, SplicedObject, Status, Value, splice};
use optik_schema::TypeRef;
use optik_store::{KeyRange, Revision, Version};
use optik_table::Printer;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A served resource, with values precomputed for handlers.
pub(crate) struct ServedResource {
    pub(crate) resource: ApiResource,
    /// `apps/v1`
    pub(crate) api_version: Text,
    pub(crate) storage_conversion: StorageConversion,
    /// Created for the first table.
    printer: OnceLock<Box<dyn Printer>>,
    /// Field types of a built-in kind, looked up on first use.
    types: OnceLock<Option<TypeRef<'static>>>,
    zero_value: OnceLock<Object>,
    defaulter: OnceLock<Option<Defaulter>>,
    /// The strategy of its objects, beyond defaulting.
    pub(crate) strategy: Strategy,
    /// Other versions that serve the same objects, by apiVersion.
    equivalent_versions: Vec<(Text, StorageConversion)>,
    /// The custom resource; `None` for built-in kinds.
    pub(crate) custom: Option<CustomResource>,
}

/// All served resources at one moment. A request uses one such snapshot only.
#[derive(Clone, Default)]
pub(crate) struct ResourceRegistry {
    /// In discovery order.
    pub(crate) all: Vec<Arc<ServedResource>>,
    /// By group, version and plural.
    by_name: BTreeMap<Text, BTreeMap<Text, BTreeMap<Text, Arc<ServedResource>>>>,
    /// The state of the CRDs that were compiled.
    crds: BTreeMap<String, CrdState>,
}

/// This server's progress with a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrdState {
    /// The revision that was compiled.
    pub(crate) revision: Revision,
    /// Whether its names were accepted or rejected. Until then its kinds may still appear.
    pub(crate) names_decided: bool,
}

/// The sort key of a version: `v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > other`, others
/// alphabetically.
pub(crate) fn version_order(version: &str) -> (u8, u32, u32, Reverse<String>) {
    let other = || (0, 0, 0, Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other();
    };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (major, rest) = rest.split_at(digits);
    let Ok(major) = major.parse() else {
        return other();
    };
    let known = |stability: u8, minor: u32| (stability, major, minor, Reverse(String::new()));
    let minor = |rest: &str| rest.parse::<u32>().ok();
    match rest {
        "" => known(3, 0),
        rest => {
            let beta = rest.strip_prefix("beta").and_then(minor);
            let alpha = rest.strip_prefix("alpha").and_then(minor);
            match (beta, alpha) {
                (Some(minor), _) => known(2, minor),
                (_, Some(minor)) => known(1, minor),
                _ => other(),
            }
        }
    }
}

impl ResourceRegistry {
    pub(crate) fn from_resources(resources: Vec<ApiResource>) -> Self {
        let mut kinds = Self::default();
        // Equivalent versions are per group, even if another group serves the same objects.
        let mut shown: BTreeMap<[Text; 2], Vec<(Text, StorageConversion)>> = BTreeMap::new();
        for resource in &resources {
            if let Some(prefix) = &resource.key_prefix {
                let place = [resource.group.clone(), prefix.clone()];
                let versions = shown.entry(place).or_default();
                versions.push((
                    resource.api_version(),
                    StorageConversion::for_resource(resource),
                ));
            }
        }
        for resource in resources {
            let mut kind = ServedResource::new(resource, None);
            let prefix = kind.resource.key_prefix.as_ref();
            let place = prefix.map(|it| [kind.resource.group.clone(), it.clone()]);
            let versions = place.and_then(|place| shown.get(&place));
            let others = versions.into_iter().flatten();
            let others = others.filter(|(api_version, _)| *api_version != kind.api_version);
            kind.equivalent_versions = others.cloned().collect();
            let kind = Arc::new(kind);
            kinds.all.push(Arc::clone(&kind));
            kinds.insert(kind);
        }
        kinds
    }

    /// This registry plus custom resources, which come in groups. A built-in kind is never hidden.
    pub(crate) fn with_custom(
        &self,
        custom: Vec<Arc<ServedResource>>,
        definitions: BTreeMap<String, CrdState>,
    ) -> Self {
        let mut kinds = Self {
            crds: definitions,
            ..self.clone()
        };
        let mut listed = Vec::new();
        for kind in custom {
            let resource = &kind.resource;
            if self
                .find(&resource.group, &resource.version, &resource.plural)
                .is_some()
            {
                continue;
            }
            if kind
                .custom
                .as_ref()
                .is_some_and(|custom| custom.established)
            {
                listed.push(Arc::clone(&kind));
            }
            kinds.insert(kind);
        }
        // The preferred version of a group comes first.
        listed.sort_by_cached_key(|kind| {
            let resource = &kind.resource;
            let version = Reverse(version_order(&resource.version));
            (resource.group.clone(), version, resource.plural.clone())
        });
        kinds.all.extend(listed);
        kinds
    }

    fn insert(&mut self, kind: Arc<ServedResource>) {
        let resource = &kind.resource;
        let names = [&resource.group, &resource.version, &resource.plural].map(Text::clone);
        let [group, version, plural] = names;
        let versions = self.by_name.entry(group).or_default();
        versions.entry(version).or_default().insert(plural, kind);
    }

    /// The state of a CRD in this registry.
    pub(crate) fn crd_state(&self, name: &str) -> Option<CrdState> {
        self.crds.get(name).copied()
    }

    /// Whether the registry was made of these CRDs.
    pub(crate) fn has_crds(&self, states: &BTreeMap<String, CrdState>) -> bool {
        self.crds == *states
    }

    pub(crate) fn find(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<&Arc<ServedResource>> {
        self.by_name.get(group)?.get(version)?.get(plural)
    }

    /// Other kinds that serve the same objects.
    pub(crate) fn equivalents(&self, kind: &ServedResource) -> Vec<Arc<ServedResource>> {
        let ApiResource { group, plural, .. } = &kind.resource;
        let same = |other: &&Arc<ServedResource>| {
            other.resource.key_prefix == kind.resource.key_prefix
                && other.is_stored()
                && other.api_version != kind.api_version
        };
        if kind.custom.is_some() {
            let versions = self.by_name.get(group).into_iter().flatten();
            let others = versions.filter_map(|(_, kinds)| kinds.get(plural));
            return others.filter(same).map(Arc::clone).collect();
        }
        // Built-in kinds come first.
        let built_in = self.all.iter().take_while(|kind| kind.custom.is_none());
        built_in.filter(same).map(Arc::clone).collect()
    }

    /// The resource of a kind in a version.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<ServedResource>> {
        let mut all = self.all.iter().filter(|known| known.is_stored());
        all.find(|known| known.api_version == api_version && known.resource.kind == kind)
    }

    /// Whether the kind, or a list of it, exists.
    pub(crate) fn has_kind(&self, group: &str, version: &str, kind: &str) -> bool {
        let versions = self.by_name.get(group);
        let kinds = versions.and_then(|versions| versions.get(version));
        let mut kinds = kinds.into_iter().flat_map(BTreeMap::values);
        kinds.any(|known| {
            let name = &known.resource.kind;
            kind == *name || kind == known.resource.list_kind
        })
    }

    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        let versions = self.by_name.get(group);
        versions.is_some_and(|versions| versions.contains_key(version))
    }

    /// Whether the group is built in, so its versions and resources are fixed.
    pub(crate) fn is_built_in(&self, group: &str) -> bool {
        let versions = self
            .by_name
            .get(group)
            .into_iter()
            .flat_map(BTreeMap::values);
        let mut kinds = versions.flat_map(BTreeMap::values);
        kinds.any(|kind| kind.custom.is_none())
    }
}

/// The size of metadata in values. managedFields are counted without defaults: none are applied in
/// them.
fn metadata_cost(metadata: &Map) -> usize {
    let members = metadata.iter();
    let costs = members.map(|(name, value)| match name.as_str() {
        "managedFields" => optik_object::cost_without_defaults(value),
        _ => optik_object::cost(value),
    });
    costs.sum()
}

impl ServedResource {
    /// A resource defined by a CRD.
    pub(crate) fn custom(resource: ApiResource, custom: CustomResource) -> Self {
        Self::new(resource, Some(custom))
    }

    pub(crate) fn new(resource: ApiResource, custom: Option<CustomResource>) -> Self {
        Self {
            api_version: resource.api_version(),
            storage_conversion: match custom {
                Some(_) => StorageConversion::Identity,
                None => StorageConversion::for_resource(&resource),
            },
            printer: OnceLock::new(),
            types: OnceLock::new(),
            zero_value: OnceLock::new(),
            defaulter: OnceLock::new(),
            strategy: match custom {
                Some(_) => Strategy::default(),
                None => Strategy::for_resource(&resource.group, &resource.plural),
            },
            equivalent_versions: Vec::new(),
            resource,
            custom,
        }
    }

    /// Whether objects of it are stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.resource.key_prefix.is_some()
    }

    /// The table printer of its objects.
    pub(crate) fn printer(&self) -> &dyn Printer {
        self.printer
            .get_or_init(|| match self.custom {
                Some(_) => Box::new(optik_table::custom_printer(declared_columns(
                    &self.resource,
                ))),
                None => {
                    let ApiResource {
                        group,
                        version,
                        plural,
                        ..
                    } = &self.resource;
                    Box::new(optik_table::builtin_printer(group, version, plural))
                }
            })
            .as_ref()
    }

    /// Upstream's internal Go type name, which some errors show: `core.ConfigMap`.
    pub(crate) fn internal_name(&self) -> String {
        let group = &*self.resource.group;
        let package = match group {
            "" | "events.k8s.io" => "core",
            "internal.apiserver.k8s.io" => "apiserverinternal",
            group => group.split('.').next().unwrap_or(group),
        };
        format!("{package}.{}", self.resource.kind)
    }

    /// The schema of its fields, if known.
    pub(crate) fn schema(&self) -> Option<TypeRef<'_>> {
        match &self.custom {
            Some(custom) => Some(custom.version().types().root()),
            None => *self
                .types
                .get_or_init(|| schema_of(&self.api_version, &self.resource.kind)),
        }
    }

    /// The object that Go encodes for the zero value of the type.
    pub(crate) fn zero_value(&self) -> Option<&Object> {
        let schema = self.schema()?;
        let blank = || match self.defaulter() {
            Some(settler) => Object::from(settler.zero_value()),
            None => Object::try_from(optik_schema::zero_value(schema)).unwrap_or_default(),
        };
        Some(self.zero_value.get_or_init(blank))
    }

    /// Rejects an object that is too large to process. Few bytes can become many values, by
    /// defaults and by managedFields.
    pub(crate) fn check_size(&self, object: &Object) -> Result<(), Status> {
        self.check_members_size(object.members())
    }

    /// Like `check_size`, for a part of an object.
    pub(crate) fn check_members_size(&self, members: &Map) -> Result<(), Status> {
        let cost: usize = members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("metadata", Value::Object(metadata)) => metadata_cost(metadata),
                _ => optik_object::cost(value),
            })
            .sum();
        match cost > self.resource.strategy_options.cost_max {
            true => Err(Status::too_large("object has too many values")),
            false => Ok(()),
        }
    }

    /// The resource name in Invalid errors: in the group of the stored form.
    pub(crate) fn error_resource(&self) -> ResourceName<'_> {
        let name = self.resource.name();
        match self.storage_conversion {
            StorageConversion::EventsV1 => ResourceName { group: "", ..name },
            StorageConversion::Identity | StorageConversion::AutoscalingV1 => name,
        }
    }

    /// Applies defaults to an object of a built-in kind, in the version of this kind, and
    /// normalizes it.
    pub(crate) fn default_and_normalize(&self, object: &mut Object) -> Result<(), NormalizeError> {
        match self.defaulter() {
            Some(settler) => settler.normalize(object.members_mut()),
            None => Ok(()),
        }
    }

    /// Normalizes the status after clients changed it.
    pub(crate) fn normalize_status(&self, object: &mut Object) {
        if let Some(settler) = self.defaulter() {
            settler.normalize_status(object.members_mut());
        }
    }

    fn defaulter(&self) -> Option<Defaulter> {
        *self.defaulter.get_or_init(|| match self.custom {
            Some(_) => None,
            None => Defaulter::for_kind(&self.api_version, &self.resource.kind),
        })
    }

    /// The apiVersion and kind in which its objects are stored.
    pub(crate) fn stored_type(&self) -> (&str, &str) {
        let kind = &*self.resource.kind;
        let own = match &self.custom {
            Some(custom) => (custom.versions.stored().api_version.as_str(), kind),
            None => (&*self.api_version, kind),
        };
        self.storage_conversion.stored_type().unwrap_or(own)
    }

    /// The conversion webhook of its objects, if there is one.
    pub(crate) fn converter(&self) -> Option<(&CustomResource, &WebhookConverter)> {
        let custom = self.custom.as_ref()?;
        Some((custom, custom.versions.converter.as_ref()?))
    }

    /// Whether its objects are served in this version.
    pub(crate) fn is_served_in(&self, api_version: &str) -> bool {
        match &self.custom {
            Some(custom) => custom.versions.find(api_version).is_some(),
            None => self.conversion_in(api_version).is_some(),
        }
    }

    /// The conversion to a version; `None` if its objects are not served in it.
    fn conversion_in(&self, api_version: &str) -> Option<StorageConversion> {
        if api_version == self.api_version {
            return Some(self.storage_conversion);
        }
        let mut others = self.equivalent_versions.iter();
        let other = others.find(|(other, _)| other == api_version);
        other.map(|(_, face)| *face)
    }

    /// The schema of the fields in one of its versions.
    pub(crate) fn schema_in(&self, api_version: &str) -> Option<TypeRef<'_>> {
        if let Some(custom) = &self.custom {
            return Some(custom.versions.find(api_version)?.types().root());
        }
        self.conversion_in(api_version)?;
        schema_of(api_version, &self.resource.kind)
    }

    /// Converts an object between versions. Those of custom resources differ in their type only.
    pub(crate) fn convert(&self, object: &mut Object, from: &str, to: &str) {
        if self.custom.is_some() {
            object.set_type(&self.resource.kind, to);
        } else if let (Some(from), Some(face)) = (self.conversion_in(from), self.conversion_in(to))
        {
            from.to_stored(object);
            face.to_client(object);
            object.set_type(&self.resource.kind, to);
        }
    }

    /// An object as served in this version.
    pub(crate) fn to_client<'o>(&self, stored: &'o Object) -> Cow<'o, Object> {
        if self.storage_conversion == StorageConversion::Identity {
            return Cow::Borrowed(stored);
        }
        let mut object = stored.clone();
        self.storage_conversion.to_client(&mut object);
        object.set_type(&self.resource.kind, &self.api_version);
        Cow::Owned(object)
    }

    /// Parses a stored object and normalizes it to what the kind is today.
    pub(crate) fn decode_stored(&self, bytes: &[u8]) -> Result<Object, CorruptBytes> {
        let mut object = parse_stored(bytes)?;
        if let Some(custom) = &self.custom {
            custom.normalize_to_storage_version(&mut object, &self.resource.kind);
        }
        Ok(object)
    }

    /// `/api/v1`, `/apis/apps/v1`
    pub(crate) fn api_path(&self) -> String {
        if self.resource.group.is_empty() {
            format!("/api/{}", self.resource.version)
        } else {
            format!("/apis/{}/{}", self.resource.group, self.resource.version)
        }
    }

    pub(crate) fn is_namespaced(&self) -> bool {
        self.resource.is_namespaced()
    }

    /// The store key of an object.
    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> String {
        let directory = self.resource.key_prefix.as_deref().unwrap_or_default();
        match namespace {
            Some(namespace) => format!("{directory}{namespace}/{name}"),
            None => format!("{directory}{name}"),
        }
    }

    /// The key prefix of a collection: all objects of a kind, or those of a namespace.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let directory = self.resource.key_prefix.as_deref().unwrap_or_default();
        match namespace {
            Some(namespace) => format!("{directory}{namespace}/"),
            None => directory.to_owned(),
        }
    }

    pub(crate) fn range(&self, namespace: Option<&str>) -> KeyRange {
        KeyRange::prefix(self.collection(namespace))
    }

    /// Namespace and name from the store key of an object of this kind.
    pub(crate) fn split_key<'k>(&self, key: &'k [u8]) -> (&'k str, &'k str) {
        let directory = self.resource.key_prefix.as_deref().unwrap_or_default();
        let rest = key.get(directory.len()..).unwrap_or_default();
        let rest = std::str::from_utf8(rest).unwrap_or_default();
        if self.is_namespaced() {
            rest.split_once('/').unwrap_or(("", rest))
        } else {
            ("", rest)
        }
    }

    /// Appends an object as served in this version.
    pub(crate) fn write(
        &self,
        stored: ObjectView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBytes> {
        if self.custom.is_some() {
            let mut object = self.decode_stored(stored.bytes)?;
            object.set_resource_version(stored.revision);
            self.write_custom(object, out);
            return Ok(());
        }
        match self.splice(stored) {
            Some(spliced) => spliced.write_to(out),
            None => self.write_converted(stored, out)?,
        }
        Ok(())
    }

    /// Whether the served form equals the stored form, except for the resourceVersion.
    pub(crate) fn shows_as_stored(&self) -> bool {
        self.custom.is_none() && self.storage_conversion == StorageConversion::Identity
    }

    /// The stored object as served, without parsing; `None` if the served form differs.
    pub(crate) fn splice<'a>(&self, stored: ObjectView<'a>) -> Option<SplicedObject<'a>> {
        if !self.shows_as_stored() {
            return None;
        }
        stored.splice(stored.bytes).ok()
    }

    /// Appends a custom resource. Its members are in alphabetical order, and list items have kind
    /// and apiVersion, too.
    pub(crate) fn write_custom(&self, mut object: Object, out: &mut Vec<u8>) {
        object.set_type(&self.resource.kind, &self.api_version);
        out.extend_from_slice(&optik_object::to_bytes(&Value::from(object)));
    }

    /// Appends an object by parsing it: for another served form, or bytes written by another
    /// program.
    fn write_converted(
        &self,
        stored: ObjectView<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptBytes> {
        let mut object = parse_stored(stored.bytes)?;
        self.storage_conversion.to_client(&mut object);
        object.set_type(&self.resource.kind, &self.api_version);
        self.normalize_status(&mut object);
        let bytes = object.encode().map_err(|_| CorruptBytes { at: 0 })?;
        stored.splice(&bytes)?.write_to(out);
        Ok(())
    }
}

/// The printer columns of a CRD version, with their JSON paths.
fn declared_columns(resource: &ApiResource) -> impl Iterator<Item = (optik_table::Column, &str)> {
    resource.columns.iter().map(|column| {
        let shown = optik_table::Column {
            name: column.name.clone(),
            kind: column.kind.clone(),
            format: column.format.clone(),
            description: column.description.clone(),
            priority: column.priority,
        };
        (shown, &*column.json_path)
    })
}

fn schema_of(api_version: &str, kind: &str) -> Option<TypeRef<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    optik_schema::builtin_type(group, version, kind)
}

impl std::fmt::Debug for ServedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.api_version, self.resource.kind)
    }
}

/// A stored object's bytes on the way to a client.
#[derive(Clone, Copy)]
pub(crate) struct ObjectView<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) revision: u64,
    /// With kind and apiVersion.
    pub(crate) typed: bool,
}

impl<'a> ObjectView<'a> {
    /// A live version at its own revision.
    pub(crate) fn from_version(version: &'a Version) -> Self {
        Self {
            bytes: version.value(),
            revision: version.mod_revision().get(),
            typed: true,
        }
    }

    /// Splices other bytes in the same way.
    fn splice(self, bytes: &[u8]) -> Result<SplicedObject<'_>, CorruptBytes> {
        let spliced = splice(bytes, self.revision)?;
        Ok(if self.typed {
            spliced
        } else {
            spliced.without_type()
        })
    }
}

/// Parses a stored object.
pub(crate) fn parse_stored(bytes: &[u8]) -> Result<Object, CorruptBytes> {
    let parsed = optik_object::parse_stored(bytes).map_err(|_| CorruptBytes { at: 0 })?;
    Object::try_from(parsed.value).map_err(|_| CorruptBytes { at: 0 })
}
