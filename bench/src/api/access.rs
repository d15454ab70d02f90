//! The address of a server and the credentials for it.

use super::kubeconfig;
use crate::error::BenchError;
use http::Uri;
use std::path::{Path, PathBuf};

/// Everything needed to open a connection.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerAccess {
    pub(crate) server: Uri,
    /// The authorities that may have signed the server's certificate, as PEM.
    pub(crate) authority: Option<Vec<u8>>,
    pub(crate) identity: Option<ClientKeyPair>,
    pub(crate) token: Option<String>,
    /// The name in the server's certificate, if not the one in its address.
    pub(crate) certificate_name: Option<String>,
    pub(crate) insecure: bool,
}

/// A client certificate and its key, as PEM.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClientKeyPair {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// The command line options that name a kubeconfig or a server.
#[derive(Clone, Debug)]
pub(crate) struct AccessSource {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) context: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) insecure: bool,
}

impl AccessSource {
    pub(crate) fn read(&self) -> Result<ServerAccess, BenchError> {
        let mut access = match (&self.kubeconfig, &self.server) {
            (Some(file), _) => self.by_kubeconfig(file)?,
            (None, Some(server)) => self.by_flags(server)?,
            (None, None) => return Err(BenchError::usage("say which server to measure")),
        };
        access.insecure |= self.insecure;
        Ok(access)
    }

    fn by_kubeconfig(&self, file: &Path) -> Result<ServerAccess, BenchError> {
        let complain = |cause| BenchError::new(format!("cannot use {}", file.display()), cause);
        let text = std::fs::read_to_string(file).map_err(|cause| complain(cause.into()))?;
        let directory = file.parent().unwrap_or(Path::new("."));
        let read = |path: &Path| std::fs::read(directory.join(path));
        kubeconfig::parse(&text, self.context.as_deref(), &read)
            .map_err(|cause| complain(Box::<dyn std::error::Error + Send + Sync>::from(cause)))
    }

    fn by_flags(&self, server: &str) -> Result<ServerAccess, BenchError> {
        let authority = self.ca.as_deref().map(|file| {
            std::fs::read(file)
                .map_err(|cause| BenchError::new(format!("cannot read {}", file.display()), cause))
        });
        Ok(ServerAccess {
            server: address(server).map_err(BenchError::usage)?,
            authority: authority.transpose()?,
            token: self.token.clone(),
            ..ServerAccess::default()
        })
    }
}

/// A server's address: a scheme we speak, a host, perhaps a port.
pub(crate) fn address(text: &str) -> Result<Uri, String> {
    let uri: Uri = text
        .parse()
        .map_err(|cause| format!("{text:?} is no address: {cause}"))?;
    match uri.scheme_str() {
        Some("https" | "http") if !matches!(uri.path(), "" | "/") => Err(format!(
            "{text:?} has a path; servers below a path are not supported"
        )),
        Some("https" | "http") => Ok(uri),
        _ => Err(format!("{text:?} must begin with https:// or http://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        assert!(address("https://127.0.0.1:6443").is_ok());
        assert!(address("http://[::1]:8080/").is_ok());
        for wrong in ["127.0.0.1:6443", "ftp://a", "https://", "https://a/k8s/c1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
