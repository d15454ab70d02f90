//! Admission plugins, as command lines name them.

/// On unless somebody turns them off, in kube-apiserver and here.
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

/// Those that kube-apiserver has besides, and Optik has not.
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

/// envtest turns it off, because nobody makes default accounts there. Without an account
/// it does nothing here.
const MAY_BE_DISABLED: &str = "ServiceAccount";

/// Whether these may be asked for: those that run anyway.
pub(super) fn check_enabled(names: &str) -> Result<(), String> {
    each(names, |name| match DEFAULT_PLUGINS.contains(&name) {
        true => Ok(()),
        false => Err(format!(
            "Optik does not have the admission plugin {name}, so what it would refuse would pass"
        )),
    })
}

/// Whether these may be turned off: those that do not run.
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
