//! The part of a kubeconfig that names the server and the credentials of the client.

use super::access::{ClientKeyPair, ServerAccess, address};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use saphyr::{LoadableYamlNode, Yaml};
use std::io;
use std::path::Path;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum KubeconfigError {
    #[error("it is not YAML")]
    Yaml(#[source] saphyr::ScanError),
    #[error("it has no current-context, and --context was not given")]
    NoContext,
    #[error("it has no {kind} named {name:?}")]
    Unknown { kind: &'static str, name: String },
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0}")]
    Address(String),
    #[error("{field} is not base64")]
    Base64 {
        field: String,
        #[source]
        cause: base64::DecodeError,
    },
    #[error("cannot read {path}")]
    File {
        path: String,
        #[source]
        cause: io::Error,
    },
    #[error("its user logs in by {0:?}, which is not supported; use a token or a certificate")]
    Login(&'static str),
}

/// Reads a file that the kubeconfig names.
type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

pub(crate) fn parse(
    text: &str,
    context: Option<&str>,
    read: Read<'_>,
) -> Result<ServerAccess, KubeconfigError> {
    let documents = Yaml::load_from_str(text).map_err(KubeconfigError::Yaml)?;
    let config = documents.first().ok_or(KubeconfigError::NoContext)?;
    let current = field(config, "current-context");
    let wanted = context.or(current).ok_or(KubeconfigError::NoContext)?;
    let context = entry(config, "contexts", "context", wanted)?;
    let cluster = field(context, "cluster").ok_or(KubeconfigError::Missing("the cluster"))?;
    let cluster = entry(config, "clusters", "cluster", cluster)?;
    let user = match field(context, "user") {
        Some(name) => Some(entry(config, "users", "user", name)?),
        None => None,
    };
    let server = field(cluster, "server").ok_or(KubeconfigError::Missing("server"))?;
    Ok(ServerAccess {
        server: address(server).map_err(KubeconfigError::Address)?,
        authority: content(cluster, "certificate-authority", read)?,
        identity: user.map_or(Ok(None), |user| identity(user, read))?,
        token: user.map_or(Ok(None), |user| token(user, read))?,
        certificate_name: field(cluster, "tls-server-name").map(str::to_owned),
        insecure: flag(cluster, "insecure-skip-tls-verify"),
    })
}

/// The member `kind` of the element of the list `list` that has this name.
fn entry<'a, 'b>(
    config: &'a Yaml<'b>,
    list: &str,
    kind: &'static str,
    name: &str,
) -> Result<&'a Yaml<'b>, KubeconfigError> {
    let entries = config.as_mapping_get(list).and_then(Yaml::as_vec);
    let mut entries = entries.into_iter().flatten();
    let found = entries.find(|entry| field(entry, "name") == Some(name));
    let found = found.and_then(|entry| entry.as_mapping_get(kind));
    found.ok_or_else(|| KubeconfigError::Unknown {
        kind,
        name: name.to_owned(),
    })
}

fn identity(user: &Yaml<'_>, read: Read<'_>) -> Result<Option<ClientKeyPair>, KubeconfigError> {
    let certificate = content(user, "client-certificate", read)?;
    let key = content(user, "client-key", read)?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(ClientKeyPair { certificate, key })),
        (Some(_), None) => Err(KubeconfigError::Missing("client-key")),
        (None, Some(_)) => Err(KubeconfigError::Missing("client-certificate")),
        (None, None) => Ok(None),
    }
}

fn token(user: &Yaml<'_>, read: Read<'_>) -> Result<Option<String>, KubeconfigError> {
    for login in ["exec", "auth-provider", "username"] {
        if user.contains_mapping_key(login) {
            return Err(KubeconfigError::Login(login));
        }
    }
    if let Some(token) = field(user, "token") {
        return Ok(Some(token.to_owned()));
    }
    let token = field(user, "tokenFile").map(|path| file(path, read));
    let token = token.transpose()?;
    Ok(token.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// The value of `name-data`, or the content of the file that `name` names. The first wins, as for
/// kubectl.
fn content(of: &Yaml<'_>, name: &str, read: Read<'_>) -> Result<Option<Vec<u8>>, KubeconfigError> {
    let data = format!("{name}-data");
    if let Some(text) = field(of, &data) {
        let bare: String = text.split_whitespace().collect();
        let bytes = STANDARD.decode(bare);
        return bytes
            .map(Some)
            .map_err(|cause| KubeconfigError::Base64 { field: data, cause });
    }
    field(of, name).map(|path| file(path, read)).transpose()
}

fn file(path: &str, read: Read<'_>) -> Result<Vec<u8>, KubeconfigError> {
    read(Path::new(path)).map_err(|cause| KubeconfigError::File {
        path: path.to_owned(),
        cause,
    })
}

fn field<'a>(of: &'a Yaml<'_>, name: &str) -> Option<&'a str> {
    let text = of.as_mapping_get(name).and_then(Yaml::as_str);
    text.filter(|text| !text.is_empty())
}

fn flag(of: &Yaml<'_>, name: &str) -> bool {
    let flag = of.as_mapping_get(name).and_then(Yaml::as_bool);
    flag.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clusters: one as tools write it, one by hand in flow style.
    const CONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: admin@one
clusters:
- cluster:
    certificate-authority-data: Y2VydA==
    server: https://127.0.0.1:6443
  name: one
- name: two
  cluster: {server: \"http://localhost:8080\", insecure-skip-tls-verify: true, tls-server-name: api}
contexts:
- context:
    cluster: one
    user: admin
  name: admin@one
- {name: two, context: {cluster: two, user: robot}}
- {name: plain, context: {cluster: two}}
- {name: shell, context: {cluster: two, user: shell}}
- {name: lost, context: {cluster: three, user: admin}}
users:
- name: admin
  user:
    client-certificate-data: Y2VydA==
    client-key: pki/admin.key
- {name: robot, user: {token: \"123\"}}
- {name: shell, user: {exec: {command: login}}}
preferences: {}
";

    fn check(context: Option<&str>) -> Result<ServerAccess, String> {
        let read = |path: &Path| match path.to_str() {
            Some("pki/admin.key") => Ok(b"key".to_vec()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        parse(CONFIG, context, &read).map_err(|error| error.to_string())
    }

    #[test]
    fn the_current_context_is_used_unless_another_is_named() {
        let access = check(None).expect("valid");
        assert_eq!(access.server, "https://127.0.0.1:6443/");
        assert_eq!(access.authority.as_deref(), Some(b"cert".as_slice()));
        let identity = access.identity.expect("a certificate");
        assert_eq!(identity.certificate, b"cert");
        assert_eq!(identity.key, b"key");
        assert_eq!((access.token, access.insecure), (None, false));

        let access = check(Some("two")).expect("valid");
        assert_eq!(access.server, "http://localhost:8080/");
        assert_eq!(access.token.as_deref(), Some("123"));
        assert_eq!(access.certificate_name.as_deref(), Some("api"));
        assert!(access.insecure && access.identity.is_none());

        assert_eq!(check(Some("plain")).expect("valid").token, None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |context| check(Some(context)).expect_err("must not be accepted");
        assert!(error("nobody").contains("no context named \"nobody\""));
        assert!(error("lost").contains("no cluster named \"three\""));
        assert!(error("shell").contains("logs in by \"exec\""));
        let none = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        assert!(matches!(
            parse(CONFIG, None, &none),
            Err(KubeconfigError::File { path, .. }) if path == "pki/admin.key"
        ));
        assert!(parse("a: [", None, &none).is_err());
        assert!(parse("", None, &none).is_err());
    }
}
