//! Admission plugins for certificate signers: CertificateApproval, CertificateSigning,
//! CertificateSubjectRestriction and ClusterTrustBundleAttest.

use crate::admission::plugins::{SyncPlugin, forbidden, is_create_of};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use crate::auth::{RbacAuthorizer, is_only_mutating_gc_fields};
use optik_auth::{AuthorizationAttributes as Asked, MASTERS, ResourceAttributes};
use optik_builtin::csr::organizations;
use optik_object::{Object, Status, Value, quote};
use std::sync::Arc;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";
/// The signer whose certificates the server accepts as client certificates.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Whether a user has a verb on a signer, or on all signers of its domain.
fn is_allowed_on_signer(
    gate: &RbacAuthorizer,
    attributes: &AdmissionAttributes<'_>,
    verb: &str,
    signer: &str,
) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    let all_of_domain = format!("{domain}/*");
    [signer, &all_of_domain].into_iter().any(|name| {
        let signers = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: "signers",
            name,
            ..ResourceAttributes::default()
        };
        gate.allows(attributes.user, &Asked::for_resource(verb, signers))
    })
}

fn member<'o>(object: &'o Object, part: &str, name: &str) -> &'o Value {
    object.get(part).map_or(&Value::Null, |part| &part[name])
}

/// Whether two lists are equal; an empty list equals a missing one.
fn equal_or_both_empty(left: &Value, right: &Value) -> bool {
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

/// Whether a write updates a subresource of a CertificateSigningRequest.
fn is_update_of(attributes: &AdmissionAttributes<'_>, subresource: &str) -> bool {
    attributes.operation == AdmissionOperation::Update
        && attributes.subresource == subresource
        && attributes.is_resource(GROUP, REQUESTS)
}

/// CertificateApproval: approving or denying a request needs the verb `approve` on its signer.
pub(super) struct CertificateApproval(pub(super) Arc<RbacAuthorizer>);

impl SyncPlugin for CertificateApproval {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_update_of(attributes, "approval")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, _: &Object) -> Result<(), Status> {
        // The signer of the stored request, regardless of the update.
        let signer = attributes.old.map(signer_of).unwrap_or_default();
        if is_allowed_on_signer(&self.0, attributes, "approve", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to approve requests with signerName {signer}");
        Err(forbidden(attributes, &why))
    }
}

/// CertificateSigning: issuing a certificate needs the verb `sign` on the signer.
pub(super) struct CertificateSigning(pub(super) Arc<RbacAuthorizer>);

impl SyncPlugin for CertificateSigning {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_update_of(attributes, "status")
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        request: &Object,
    ) -> Result<(), Status> {
        let unchanged = attributes.old.is_some_and(|old| {
            ["certificate", "conditions"].iter().all(|name| {
                equal_or_both_empty(member(old, "status", name), member(request, "status", name))
            })
        });
        let signer = attributes.old.map(signer_of).unwrap_or_default();
        if unchanged || is_allowed_on_signer(&self.0, attributes, "sign", signer) {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to sign requests with signerName {signer}");
        Err(forbidden(attributes, &why))
    }
}

/// CertificateSubjectRestriction: refuses requests for client certificates of an administrators'
/// group.
pub(super) struct CertificateSubjectRestriction;

impl SyncPlugin for CertificateSubjectRestriction {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        is_create_of(attributes, GROUP, REQUESTS)
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        request: &Object,
    ) -> Result<(), Status> {
        if signer_of(request) != CLIENT_SIGNER {
            return Ok(());
        }
        let encoded = member(request, "spec", "request").as_str();
        let groups = organizations(encoded.unwrap_or_default());
        let groups = groups
            .map_err(|error| forbidden(attributes, &format!("failed to parse CSR: {error}")))?;
        if groups.iter().any(|group| group == MASTERS) {
            let why =
                format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return Err(forbidden(attributes, &why));
        }
        Ok(())
    }
}

/// ClusterTrustBundleAttest: publishing the trust anchors of a signer needs the verb `attest` on
/// it.
pub(super) struct ClusterTrustBundleAttest(pub(super) Arc<RbacAuthorizer>);

impl SyncPlugin for ClusterTrustBundleAttest {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation != AdmissionOperation::Delete
            && attributes.is_resource(GROUP, "clustertrustbundles")
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        bundle: &Object,
    ) -> Result<(), Status> {
        let signer = signer_of(bundle);
        let unchanged = attributes
            .old
            .is_some_and(|old| is_only_mutating_gc_fields(bundle, old));
        if signer.is_empty()
            || unchanged
            || is_allowed_on_signer(&self.0, attributes, "attest", signer)
        {
            return Ok(());
        }
        let signer = quote(signer);
        let why = format!("user not permitted to attest for signerName {signer}");
        Err(forbidden(attributes, &why))
    }
}
