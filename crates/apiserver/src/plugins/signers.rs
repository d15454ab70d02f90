//! What it takes to speak for a signer of certificates: the plugins CertificateApproval,
//! CertificateSigning, CertificateSubjectRestriction and ClusterTrustBundleAttest.

use super::{Plugin, makes, refuse};
use crate::access::{Gate, only_for_collectors};
use crate::admission::{Attributes, Operation};
use optik_access::{Attributes as Asked, MASTERS, Resource};
use optik_builtin::certificates::organizations;
use optik_object::{Object, Status, Value, quote};
use std::sync::Arc;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// Whose certificates the server takes for users.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Whether a user has a right on a signer, or on all signers of its domain.
fn may(gate: &Gate, attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let all_of_domain = format!("{domain}/*");
    [signer, &all_of_domain].into_iter().any(|name| {
        let signers = Resource {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..Resource::default()
        };
        gate.allows(attributes.user, &Asked::on(verb, signers))
    })
}

fn member<'o>(object: &'o Object, part: &str, name: &str) -> &'o Value {
    object.get(part).map_or(&Value::Null, |part| &part[name])
}

/// An empty list and none are the same.
fn same(left: &Value, right: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    left == right || (is_empty(left) && is_empty(right))
}

fn signer_of(object: &Object) -> &str {
    member(object, "spec", "signerName")
        .as_str()
        .unwrap_or_default()
}

/// Whether requests for certificates are changed through an endpoint.
fn updates(attributes: &Attributes<'_>, subresource: &str) -> bool {
    attributes.operation == Operation::Update
        && attributes.subresource == subresource
        && attributes.is(GROUP, REQUESTS)
}

/// Who approves or denies requests needs `approve` on their signer.
pub(super) struct CertificateApproval(pub(super) Arc<Gate>);

impl Plugin for CertificateApproval {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        updates(attributes, "approval")
    }

    fn check(&self, attributes: &Attributes<'_>, _: &Object) -> Result<(), Status> {
        // The signer that was asked for, whatever the write makes of it.
        let signer = attributes.old.map(signer_of).unwrap_or_default();
        if may(&self.0, attributes, "approve", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to approve requests with signerName {signer}");
        Err(refuse(attributes, &why))
    }
}

/// Who answers requests needs `sign` on their signer.
pub(super) struct CertificateSigning(pub(super) Arc<Gate>);

impl Plugin for CertificateSigning {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        updates(attributes, "status")
    }

    fn check(&self, attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
        let unchanged = attributes.old.is_some_and(|old| {
            ["certificate", "conditions"]
                .iter()
                .all(|name| same(member(old, "status", name), member(request, "status", name)))
        });
        let signer = attributes.old.map(signer_of).unwrap_or_default();
        if unchanged || may(&self.0, attributes, "sign", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to sign requests with signerName {signer}");
        Err(refuse(attributes, &why))
    }
}

/// Nobody asks for a certificate that the server takes for an administrator's.
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        makes(attributes, GROUP, REQUESTS)
    }

    fn check(&self, attributes: &Attributes<'_>, request: &Object) -> Result<(), Status> {
        if signer_of(request) != CLIENT_SIGNER {
            return Ok(());
        }
        let encoded = member(request, "spec", "request").as_str();
        let groups = organizations(encoded.unwrap_or_default());
        let groups =
            groups.map_err(|error| refuse(attributes, &format!("failed to parse CSR: {error}")))?;
        if groups.iter().any(|group| group == MASTERS) {
            let why =
                format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(refuse(attributes, &why));
        }
        Ok(())
    }
}

/// Who says whom a signer trusts needs `attest` on it.
pub(super) struct ClusterTrustBundleAttest(pub(super) Arc<Gate>);

impl Plugin for ClusterTrustBundleAttest {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation != Operation::Delete && attributes.is(GROUP, "clustertrustbundles")
    }

    fn check(&self, attributes: &Attributes<'_>, bundle: &Object) -> Result<(), Status> {
        let signer = signer_of(bundle);
        let unchanged = attributes
            .old
            .is_some_and(|old| only_for_collectors(bundle, old));
        if signer.is_empty() || unchanged || may(&self.0, attributes, "attest", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to attest for signerName {signer}");
        Err(refuse(attributes, &why))
    }
}
