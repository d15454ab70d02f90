//! The kinds that are served, found by the words of a path.

use crate::conversion::Converter;
use crate::custom::Custom;
use crate::face::Face;
use optik_builtin::{Rules, SettleError, Settler};
use optik_catalog::{Resource, Text};
use optik_object::{Damaged, Map, Object, ResourceName, Spliced, Status, Value, splice};
use optik_schema::Type;
use optik_store::{KeyRange, Revision, Version};
use optik_table::Printer;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// A resource, and what handlers need so often that it is made once.
pub(crate) struct Kind {
    pub(crate) resource: Resource,
    /// `apps/v1`
    pub(crate) api_version: Text,
    /// `/registry/configmaps/`; `None` if nothing is kept.
    directory: Option<String>,
    pub(crate) face: Face,
    /// Made for the first table.
    printer: OnceLock<Box<dyn Printer>>,
    /// Of a built-in kind, once somebody has asked for them.
    types: OnceLock<Option<Type<'static>>>,
    blank: OnceLock<Object>,
    settler: OnceLock<Option<Settler>>,
    /// What it does with its objects beyond defaults.
    pub(crate) rules: Rules,
    /// Other versions that show the same objects, by apiVersion.
    others: Vec<(Text, Face)>,
    /// What a definition says of it; `None` for built-in kinds.
    pub(crate) custom: Option<Custom>,
}

/// All of them, at one moment. A request looks at one such moment only.
#[derive(Clone, Default)]
pub(crate) struct Kinds {
    /// In the order of discovery.
    pub(crate) all: Vec<Arc<Kind>>,
    /// By group, version and plural.
    by_name: BTreeMap<Text, BTreeMap<Text, BTreeMap<Text, Arc<Kind>>>>,
    /// What is known of the definitions that these are made of.
    definitions: BTreeMap<String, DefinitionState>,
}

/// How far this server is with a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefinitionState {
    /// The revision that was compiled.
    pub(crate) revision: Revision,
    /// Whether its names were accepted or refused. Until then its kinds may still come.
    pub(crate) decided: bool,
}

/// Where a version stands among others: `v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > other`,
/// others by the alphabet.
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

impl Kinds {
    pub(crate) fn of(resources: Vec<Resource>) -> Self {
        let mut kinds = Self::default();
        // Groups know nothing of each other, even if they show the same objects.
        let mut shown: BTreeMap<[Text; 2], Vec<(Text, Face)>> = BTreeMap::new();
        for resource in &resources {
            if let Some(directory) = &resource.storage {
                let place = [resource.group.clone(), directory.clone()];
                let versions = shown.entry(place).or_default();
                versions.push((resource.api_version(), Face::of(resource)));
            }
        }
        for resource in resources {
            let mut kind = Kind::new(resource, None);
            let directory = kind.resource.storage.as_ref();
            let place = directory.map(|it| [kind.resource.group.clone(), it.clone()]);
            let versions = place.and_then(|place| shown.get(&place));
            let others = versions.into_iter().flatten();
            let others = others.filter(|(api_version, _)| *api_version != kind.api_version);
            kind.others = others.cloned().collect();
            let kind = Arc::new(kind);
            kinds.all.push(Arc::clone(&kind));
            kinds.insert(kind);
        }
        kinds
    }

    /// These and custom ones, which come in groups. A built-in kind is never hidden.
    pub(crate) fn with(
        &self,
        custom: Vec<Arc<Kind>>,
        definitions: BTreeMap<String, DefinitionState>,
    ) -> Self {
        let mut kinds = Self {
            definitions,
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
        // The best version of a group comes first.
        listed.sort_by_cached_key(|kind| {
            let resource = &kind.resource;
            let version = Reverse(version_order(&resource.version));
            (resource.group.clone(), version, resource.plural.clone())
        });
        kinds.all.extend(listed);
        kinds
    }

    fn insert(&mut self, kind: Arc<Kind>) {
        let resource = &kind.resource;
        let names = [&resource.group, &resource.version, &resource.plural].map(Text::clone);
        let [group, version, plural] = names;
        let versions = self.by_name.entry(group).or_default();
        versions.entry(version).or_default().insert(plural, kind);
    }

    /// What these kinds know of a definition.
    pub(crate) fn definition(&self, name: &str) -> Option<DefinitionState> {
        self.definitions.get(name).copied()
    }

    /// Whether these are the definitions that are known.
    pub(crate) fn knows_definitions(&self, states: &BTreeMap<String, DefinitionState>) -> bool {
        self.definitions == *states
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_name.get(group)?.get(version)?.get(plural)
    }

    /// Other kinds that show the same objects.
    pub(crate) fn equivalents(&self, kind: &Kind) -> Vec<Arc<Kind>> {
        let Resource { group, plural, .. } = &kind.resource;
        let same = |other: &&Arc<Kind>| {
            other.resource.storage == kind.resource.storage
                && other.is_kept()
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

    /// The kind of that name in a version.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let mut all = self.all.iter().filter(|known| known.is_kept());
        all.find(|known| known.api_version == api_version && known.resource.kind == kind)
    }

    /// Whether there is such a kind, or a list of it.
    pub(crate) fn knows(&self, group: &str, version: &str, kind: &str) -> bool {
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

    /// Whether it is known which versions and resources a group has.
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

/// Nothing in the record of managers is given defaults.
fn cost_of_metadata(metadata: &Map) -> usize {
    let members = metadata.iter();
    let costs = members.map(|(name, value)| match name.as_str() {
        "managedFields" => optik_object::cost_as_it_is(value),
        _ => optik_object::cost(value),
    });
    costs.sum()
}

impl Kind {
    /// A kind that a definition made.
    pub(crate) fn custom(resource: Resource, custom: Custom) -> Self {
        Self::new(resource, Some(custom))
    }

    pub(crate) fn new(resource: Resource, custom: Option<Custom>) -> Self {
        let directory = resource.storage.as_ref();
        Self {
            api_version: resource.api_version(),
            directory: directory.map(|directory| format!("/registry/{directory}/")),
            face: match custom {
                Some(_) => Face::AsStored,
                None => Face::of(&resource),
            },
            printer: OnceLock::new(),
            types: OnceLock::new(),
            blank: OnceLock::new(),
            settler: OnceLock::new(),
            rules: match custom {
                Some(_) => Rules::default(),
                None => Rules::of(&resource.group, &resource.plural),
            },
            others: Vec::new(),
            resource,
            custom,
        }
    }

    /// Whether objects of it are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.directory.is_some()
    }

    /// How its objects become rows of a table.
    pub(crate) fn printer(&self) -> &dyn Printer {
        self.printer
            .get_or_init(|| match self.custom {
                Some(_) => Box::new(optik_table::custom(declared(&self.resource))),
                None => {
                    let Resource {
                        group,
                        version,
                        plural,
                        ..
                    } = &self.resource;
                    Box::new(optik_table::builtin(group, version, plural))
                }
            })
            .as_ref()
    }

    /// What upstream calls the type in its own code, as it does in some errors:
    /// `core.ConfigMap`.
    pub(crate) fn internal_name(&self) -> String {
        let group = &*self.resource.group;
        let package = match group {
            "" | "events.k8s.io" => "core",
            "internal.apiserver.k8s.io" => "apiserverinternal",
            group => group.split('.').next().unwrap_or(group),
        };
        format!("{package}.{}", self.resource.kind)
    }

    /// The types of its fields, if they are known.
    pub(crate) fn schema(&self) -> Option<Type<'_>> {
        match &self.custom {
            Some(custom) => Some(custom.own().types().root()),
            None => *self
                .types
                .get_or_init(|| schema_of(&self.api_version, &self.resource.kind)),
        }
    }

    /// What Go writes for an object of it that nobody filled in.
    pub(crate) fn blank(&self) -> Option<&Object> {
        let schema = self.schema()?;
        let blank = || match self.settler() {
            Some(settler) => Object::from(settler.blank()),
            None => Object::try_from(optik_schema::zero(schema)).unwrap_or_default(),
        };
        Some(self.blank.get_or_init(blank))
    }

    /// Refuses an object that is too large to be worked on. Few bytes can be many values, by
    /// defaults and by the record of who owns them.
    pub(crate) fn weigh(&self, object: &Object) -> Result<(), Status> {
        self.weigh_members(object.members())
    }

    /// The same of a part of an object.
    pub(crate) fn weigh_members(&self, members: &Map) -> Result<(), Status> {
        let cost: usize = members
            .iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("metadata", Value::Object(metadata)) => cost_of_metadata(metadata),
                _ => optik_object::cost(value),
            })
            .sum();
        match cost > self.resource.behaviour.cost_max {
            true => Err(Status::too_large("object has too many values")),
            false => Ok(()),
        }
    }

    /// What is invalid, as errors name it: in the group of what is stored.
    pub(crate) fn blamed(&self) -> ResourceName<'_> {
        let name = self.resource.name();
        match self.face {
            Face::GroupEvent => ResourceName { group: "", ..name },
            Face::AsStored | Face::ScalerV1 => name,
        }
    }

    /// Gives an object of a built-in kind its defaults, in the version of this kind.
    pub(crate) fn settle(&self, object: &mut Object) -> Result<(), SettleError> {
        match self.settler() {
            Some(settler) => settler.settle(object.members_mut()),
            None => Ok(()),
        }
    }

    /// The same for what others made of its status.
    pub(crate) fn settle_status(&self, object: &mut Object) {
        if let Some(settler) = self.settler() {
            settler.settle_status(object.members_mut());
        }
    }

    fn settler(&self) -> Option<Settler> {
        *self.settler.get_or_init(|| match self.custom {
            Some(_) => None,
            None => Settler::of(&self.api_version, &self.resource.kind),
        })
    }

    /// The apiVersion and kind its objects are kept in.
    pub(crate) fn stored_type(&self) -> (&str, &str) {
        let kind = &*self.resource.kind;
        let own = match &self.custom {
            Some(custom) => (custom.versions.stored().api_version.as_str(), kind),
            None => (&*self.api_version, kind),
        };
        self.face.stored_type().unwrap_or(own)
    }

    /// Who converts its objects, if that is somebody else.
    pub(crate) fn converter(&self) -> Option<(&Custom, &Converter)> {
        let custom = self.custom.as_ref()?;
        Some((custom, custom.versions.converter.as_ref()?))
    }

    /// Whether its objects can be had in this version.
    pub(crate) fn is_shown_in(&self, api_version: &str) -> bool {
        match &self.custom {
            Some(custom) => custom.versions.find(api_version).is_some(),
            None => self.face_in(api_version).is_some(),
        }
    }

    /// How its objects look in a version; `None` if they are not shown in it.
    fn face_in(&self, api_version: &str) -> Option<Face> {
        if api_version == self.api_version {
            return Some(self.face);
        }
        let mut others = self.others.iter();
        let other = others.find(|(other, _)| other == api_version);
        other.map(|(_, face)| *face)
    }

    /// The types of the fields in one of its versions.
    pub(crate) fn schema_in(&self, api_version: &str) -> Option<Type<'_>> {
        if let Some(custom) = &self.custom {
            return Some(custom.versions.find(api_version)?.types().root());
        }
        self.face_in(api_version)?;
        schema_of(api_version, &self.resource.kind)
    }

    /// An object of one version in another. Those of custom kinds differ in their type only.
    pub(crate) fn convert(&self, object: &mut Object, from: &str, to: &str) {
        if self.custom.is_some() {
            object.set_type(&self.resource.kind, to);
        } else if let (Some(from), Some(face)) = (self.face_in(from), self.face_in(to)) {
            from.to_stored(object);
            face.to_client(object);
            object.set_type(&self.resource.kind, to);
        }
    }

    /// An object as clients of this version see it.
    pub(crate) fn to_client<'o>(&self, stored: &'o Object) -> Cow<'o, Object> {
        if self.face == Face::AsStored {
            return Cow::Borrowed(stored);
        }
        let mut object = stored.clone();
        self.face.to_client(&mut object);
        object.set_type(&self.resource.kind, &self.api_version);
        Cow::Owned(object)
    }

    /// A stored object as a tree: what the kind makes of it today.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Object, Damaged> {
        let mut object = parse_stored(bytes)?;
        if let Some(custom) = &self.custom {
            custom.refresh(&mut object, &self.resource.kind);
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

    /// The key of an object.
    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> String {
        let directory = self.directory.as_deref().unwrap_or_default();
        match namespace {
            Some(namespace) => format!("{directory}{namespace}/{name}"),
            None => format!("{directory}{name}"),
        }
    }

    /// Where the objects of a collection are: all of a kind, or those of a namespace.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let directory = self.directory.as_deref().unwrap_or_default();
        match namespace {
            Some(namespace) => format!("{directory}{namespace}/"),
            None => directory.to_owned(),
        }
    }

    pub(crate) fn range(&self, namespace: Option<&str>) -> KeyRange {
        KeyRange::prefix(self.collection(namespace))
    }

    /// Namespace and name, as the key of one of our objects tells them.
    pub(crate) fn parts_of_key<'k>(&self, key: &'k [u8]) -> (&'k str, &'k str) {
        let directory = self.directory.as_deref().unwrap_or_default();
        let rest = key.get(directory.len()..).unwrap_or_default();
        let rest = std::str::from_utf8(rest).unwrap_or_default();
        if self.is_namespaced() {
            rest.split_once('/').unwrap_or(("", rest))
        } else {
            ("", rest)
        }
    }

    /// Appends an object as clients of this kind see it.
    pub(crate) fn write(&self, stored: Shown<'_>, out: &mut Vec<u8>) -> Result<(), Damaged> {
        if self.custom.is_some() {
            let mut object = self.open(stored.bytes)?;
            object.set_resource_version(stored.revision);
            self.write_custom(object, out);
            return Ok(());
        }
        match self.spliced(stored) {
            Some(spliced) => spliced.write_to(out),
            None => self.write_slowly(stored, out)?,
        }
        Ok(())
    }

    /// Whether clients see what is stored, but for its revision.
    pub(crate) fn shows_as_stored(&self) -> bool {
        self.custom.is_none() && self.face == Face::AsStored
    }

    /// What is stored, as clients see it; `None` if that is something else.
    pub(crate) fn spliced<'a>(&self, stored: Shown<'a>) -> Option<Spliced<'a>> {
        if !self.shows_as_stored() {
            return None;
        }
        stored.splice(stored.bytes).ok()
    }

    /// Objects of custom kinds have their members in the order of the alphabet, and say
    /// what they are in lists, too.
    pub(crate) fn write_custom(&self, mut object: Object, out: &mut Vec<u8>) {
        object.set_type(&self.resource.kind, &self.api_version);
        out.extend_from_slice(&optik_object::to_bytes(&Value::from(object)));
    }

    /// By way of a tree: another face, or bytes that somebody else wrote.
    fn write_slowly(&self, stored: Shown<'_>, out: &mut Vec<u8>) -> Result<(), Damaged> {
        let mut object = parse_stored(stored.bytes)?;
        self.face.to_client(&mut object);
        object.set_type(&self.resource.kind, &self.api_version);
        self.settle_status(&mut object);
        let bytes = object.encode().map_err(|_| Damaged { at: 0 })?;
        stored.splice(&bytes)?.write_to(out);
        Ok(())
    }
}

/// The columns of a custom kind, and the paths that fill them.
fn declared(resource: &Resource) -> impl Iterator<Item = (optik_table::Column, &str)> {
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

fn schema_of(api_version: &str, kind: &str) -> Option<Type<'static>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    optik_schema::builtin(group, version, kind)
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.api_version, self.resource.kind)
    }
}

/// Stored bytes on their way out.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) revision: u64,
    /// With kind and apiVersion.
    pub(crate) typed: bool,
}

impl<'a> Shown<'a> {
    /// A live version at its own revision.
    pub(crate) fn whole(version: &'a Version) -> Self {
        Self {
            bytes: version.value(),
            revision: version.mod_revision().get(),
            typed: true,
        }
    }

    /// These bytes, on the same way.
    fn splice(self, bytes: &[u8]) -> Result<Spliced<'_>, Damaged> {
        let spliced = splice(bytes, self.revision)?;
        Ok(if self.typed {
            spliced
        } else {
            spliced.without_type()
        })
    }
}

/// A stored object as a tree.
pub(crate) fn parse_stored(bytes: &[u8]) -> Result<Object, Damaged> {
    let parsed = optik_object::parse_kept(bytes).map_err(|_| Damaged { at: 0 })?;
    Object::try_from(parsed.value).map_err(|_| Damaged { at: 0 })
}
