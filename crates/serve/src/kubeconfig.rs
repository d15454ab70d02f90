//! Kubeconfig files for clients of this server.

use crate::pki::{CertKeyPair, to_sec1};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The name of the cluster, the user and the context.
const ENTRY_NAME: &str = "optik";

/// A kubeconfig with one cluster, one user and one context, with embedded certificates.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// The URL of the server, such as `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The certificate authority of the server, as PEM.
    pub authority: &'a str,
    pub user: &'a CertKeyPair,
}

impl Kubeconfig<'_> {
    /// Renders the kubeconfig as YAML.
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
