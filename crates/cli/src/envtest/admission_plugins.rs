//! Checks of the admission plugin names in kube-apiserver's flags.

/// Enabled by default, in kube-apiserver and in Optik.
const DEFAULT_PLUGINS: &[&str] = &[
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "JobValidation",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "PersistentVolumeClaimResize",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodResizeValidator",
    "PodSecurity",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Plugins of kube-apiserver that Optik does not have.
const MISSING_PLUGINS: &[&str] = &[
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
];

/// envtest disables it, because no controller creates default service accounts there. Without a
/// service account it does nothing in Optik.
const MAY_BE_DISABLED: &str = "ServiceAccount";

/// Checks `--enable-admission-plugins`: only plugins that are always enabled are accepted.
pub(super) fn check_enabled(names: &str) -> Result<(), String> {
    each(names, |name| match DEFAULT_PLUGINS.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "Optik does not have the admission plugin {name}, so what it would refuse would pass"
        )),
    })
}

/// Checks `--disable-admission-plugins`: only plugins that do not run are accepted.
pub(super) fn check_disabled(names: &str) -> Result<(), String> {
    each(names, |name| {
        match MISSING_PLUGINS.contains(&name) || name == MAY_BE_DISABLED {
            true => Ok(()),
            false => Err(format!("Optik cannot turn the admission plugin {name} off")),
        }
    })
}

fn each(names: &str, check: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    let names = names.split(',').filter(|name| !name.is_empty());
    let mut names = names.map(|name| {
        match DEFAULT_PLUGINS.contains(&name) || MISSING_PLUGINS.contains(&name) {
            true => check(name),
            false => Err(format!("admission plugin {name:?} is unknown")),
        }
    });
    names.try_for_each(|checked| checked)
}
