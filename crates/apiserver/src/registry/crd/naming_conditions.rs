//! Accepted names of CRDs (`NamesAccepted`, `Established`): per group, the first CRD gets a name.

use crate::registry::crd::condition_helpers::{self, CrdCondition, ESTABLISHED, NAMES_ACCEPTED};
use crate::registry::crd::custom_resource_definition::{CrdNames, CustomResourceDefinition};
use crate::server::webhook_client::is_valid_ca_bundle;
use optik_object::{Object, Timestamp, quote};
use std::collections::BTreeSet;

/// Names used by other CRDs of the group.
pub(crate) struct NamesInUse<'a> {
    /// Plurals, singulars and short names.
    resources: BTreeSet<&'a str>,
    /// Kinds and list kinds.
    kinds: BTreeSet<&'a str>,
}

impl<'a> NamesInUse<'a> {
    /// Collects the names of all CRDs of a group, including the CRD in question: it keeps the names
    /// it has.
    pub(crate) fn from_definitions(
        definitions: impl Iterator<Item = &'a CustomResourceDefinition>,
    ) -> Self {
        let mut taken = Self {
            resources: BTreeSet::new(),
            kinds: BTreeSet::new(),
        };
        for definition in definitions {
            let names = &definition.accepted_names;
            taken.resources.insert(names.plural.as_str());
            taken.resources.insert(names.singular.as_str());
            let short = names.short_names.iter().map(String::as_str);
            taken.resources.extend(short);
            taken.kinds.insert(names.kind.as_str());
            taken.kinds.insert(names.list_kind.as_str());
        }
        taken
    }
}

/// The names accepted for a CRD.
struct NameAcceptance {
    names: CrdNames,
    /// Reason and message of the last conflict.
    conflict: Option<(&'static str, String)>,
}

fn accept_names(definition: &CustomResourceDefinition, taken: &NamesInUse<'_>) -> NameAcceptance {
    let (wanted, has) = (&definition.spec_names, &definition.accepted_names);
    let mut names = has.clone();
    let mut conflict = None;
    let free =
        |wanted: &str, has: &str, taken: &BTreeSet<&str>| wanted == has || !taken.contains(wanted);
    let in_use = |name: &str| format!("{} is already in use", quote(name));
    if free(&wanted.plural, &has.plural, &taken.resources) {
        names.plural.clone_from(&wanted.plural);
    } else {
        conflict = Some(("PluralConflict", in_use(&wanted.plural)));
    }
    if free(&wanted.singular, &has.singular, &taken.resources) {
        names.singular.clone_from(&wanted.singular);
    } else {
        conflict = Some(("SingularConflict", in_use(&wanted.singular)));
    }
    if wanted.short_names != has.short_names {
        let lost = wanted.short_names.iter().filter(|name| {
            !has.short_names.contains(name) && taken.resources.contains(name.as_str())
        });
        let lost: Vec<String> = lost.map(|name| in_use(name)).collect();
        match &lost[..] {
            [] => names.short_names.clone_from(&wanted.short_names),
            [one] => conflict = Some(("ShortNamesConflict", one.clone())),
            many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
        }
    }
    if free(&wanted.kind, &has.kind, &taken.kinds) {
        names.kind.clone_from(&wanted.kind);
    } else {
        conflict = Some(("KindConflict", in_use(&wanted.kind)));
    }
    if free(&wanted.list_kind, &has.list_kind, &taken.kinds) {
        names.list_kind.clone_from(&wanted.list_kind);
    } else {
        conflict = Some(("ListKindConflict", in_use(&wanted.list_kind)));
    }
    names.categories.clone_from(&wanted.categories);
    NameAcceptance { names, conflict }
}

/// The CRD with its desired status; `None` if the status is current.
pub(crate) fn with_naming_conditions(
    object: &Object,
    definition: &CustomResourceDefinition,
    taken: &NamesInUse<'_>,
    now: Timestamp,
) -> Option<Object> {
    let mut settled = object.clone();
    let approval = crate::registry::crd::crd_validation::approval_condition(object);
    if let Some((holds, reason, message)) = &approval {
        let condition = CrdCondition {
            condition_type: condition_helpers::APPROVED,
            is_true: *holds,
            reason,
            message,
        };
        if !condition_helpers::is_current(object, &condition) {
            condition_helpers::set(&mut settled, &condition, now);
        }
    }
    let named = definition.spec_names == definition.accepted_names && definition.names_accepted;
    if !named || !definition.established {
        let granted = accept_names(definition, taken);
        let accepted = granted.conflict.is_none();
        let (reason, message) = granted
            .conflict
            .unwrap_or(("NoConflicts", "no conflicts found".into()));
        if granted.names != definition.accepted_names
            && let Some(status) = settled.members_mut().get_mut("status")
        {
            status["acceptedNames"] = granted.names.to_value();
        }
        let condition = CrdCondition {
            condition_type: NAMES_ACCEPTED,
            is_true: accepted,
            reason,
            message: &message,
        };
        if !condition_helpers::is_current(object, &condition) {
            condition_helpers::set(&mut settled, &condition, now);
        }
        if !definition.established {
            let trusts = has_ca_bundle(object);
            let (reason, message) = if accepted && !trusts {
                (
                    "InvalidCABundle",
                    "The conversion webhook CABundle is invalid",
                )
            } else if accepted {
                (
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                )
            } else {
                ("NotAccepted", "not all names are accepted")
            };
            let condition = CrdCondition {
                condition_type: ESTABLISHED,
                is_true: accepted && trusts,
                reason,
                message,
            };
            if !condition_helpers::is_current(object, &condition) {
                condition_helpers::set(&mut settled, &condition, now);
            }
        }
    }
    (settled != *object).then_some(settled)
}

/// Whether the conversion webhook has a CA bundle.
pub(super) fn has_ca_bundle(object: &Object) -> bool {
    let conversion = object.get("spec").and_then(|spec| spec.get("conversion"));
    let bundle = conversion.and_then(|it| it.pointer("/webhook/clientConfig/caBundle"));
    bundle.is_none_or(is_valid_ca_bundle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn definition(plural: &str, short: &str) -> Object {
        let value = json!({
            "metadata": {"name": format!("{plural}.g.io")},
            "spec": {"group": "g.io", "names": {
                "plural": plural, "singular": plural, "kind": plural.to_uppercase(),
                "listKind": format!("{plural}List"), "shortNames": [short]}},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}},
        });
        value.try_into().unwrap()
    }

    fn conditions_of(object: &Object) -> Vec<String> {
        let list = &object.get("status").unwrap()["conditions"];
        let list = list.as_array().unwrap().iter();
        let brief = |c: &Value| format!("{} {} {}", c["type"], c["status"], c["reason"]);
        list.map(|c| brief(c).replace('"', "")).collect()
    }

    /// EXT-14, EXT-15.
    #[test]
    fn conflicting_crd_names_are_not_accepted_until_the_first_crd_is_gone() {
        let now = Timestamp::from_seconds(0);
        let first = definition("as", "x");
        let read = CustomResourceDefinition::read(&first);
        let first = with_naming_conditions(
            &first,
            &read,
            &NamesInUse::from_definitions([&read].into_iter()),
            now,
        )
        .unwrap();
        let accepted = [
            "NamesAccepted True NoConflicts",
            "Established True InitialNamesAccepted",
        ];
        assert_eq!(conditions_of(&first), accepted);
        let first = CustomResourceDefinition::read(&first);

        let second = definition("bs", "x");
        let read = CustomResourceDefinition::read(&second);
        let taken = NamesInUse::from_definitions([&first, &read].into_iter());
        let refused = with_naming_conditions(&second, &read, &taken, now).unwrap();
        let expected = [
            "NamesAccepted False ShortNamesConflict",
            "Established False NotAccepted",
        ];
        assert_eq!(conditions_of(&refused), expected);
        assert_eq!(
            refused.get("status").unwrap()["acceptedNames"]["plural"],
            "bs"
        );
        let read = CustomResourceDefinition::read(&refused);
        let taken = NamesInUse::from_definitions([&first, &read].into_iter());
        assert_eq!(
            with_naming_conditions(&refused, &read, &taken, now),
            None,
            "nothing new"
        );

        let taken = NamesInUse::from_definitions([&read].into_iter());
        let granted = with_naming_conditions(&refused, &read, &taken, now).unwrap();
        assert_eq!(conditions_of(&granted), accepted);
    }
}
