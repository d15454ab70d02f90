//! The file that tells kubectl and its kin where we are and whom to be.

use crate::pki::{CertKeyPair, to_sec1};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Everything is called this in it.
const ENTRY_NAME: &str = "optik";

/// A kubeconfig with one cluster, one user and one context, all in one file.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// Such as `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// Whom to trust, as PEM.
    pub authority: &'a str,
    pub user: &'a CertKeyPair,
}

impl Kubeconfig<'_> {
    /// As YAML.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let Self {
            server,
            authority,
            user,
        } = self;
        let authority = STANDARD.encode(authority);
        let certificate = STANDARD.encode(&user.certificate);
        let key = STANDARD.encode(to_sec1(&user.key).as_ref().unwrap_or(&user.key));
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: {ENTRY_NAME}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {ENTRY_NAME}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {ENTRY_NAME}
  context:
    cluster: {ENTRY_NAME}
    user: {ENTRY_NAME}
current-context: {ENTRY_NAME}
"
        )
    }
}
