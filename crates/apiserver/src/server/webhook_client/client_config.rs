//! The client configuration of a webhook: URL or service, CA bundle.

use crate::server::webhook_client::service_resolver::{ServiceReference, resolve};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use optik_object::Value;
use optik_store::Store;
use std::time::Duration;

/// A parsed `clientConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookClientConfig {
    target: WebhookTarget,
    /// PEM; empty for the system's trust store.
    pub(super) ca_bundle: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WebhookTarget {
    Url(String),
    Service {
        service: ServiceReference,
        path: String,
    },
    /// A configuration that validation would have rejected.
    Invalid,
}

impl WebhookClientConfig {
    pub(crate) fn read(config: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let service = &config["service"];
        let place = match (config["url"].as_str(), service.as_object()) {
            (Some(url), _) if !url.is_empty() => WebhookTarget::Url(url.to_owned()),
            (_, Some(_)) => WebhookTarget::Service {
                service: ServiceReference {
                    namespace: text(&service["namespace"]),
                    name: text(&service["name"]),
                    port: service["port"].as_i64().unwrap_or(443),
                },
                path: text(&service["path"]),
            },
            _ => WebhookTarget::Invalid,
        };
        let bundle = config["caBundle"].as_str().unwrap_or_default();
        Self {
            target: place,
            ca_bundle: STANDARD.decode(bundle).unwrap_or_default().into(),
        }
    }

    /// The URL of a call, with its timeout as a parameter.
    pub(super) fn url(&self, timeout: Duration) -> Result<String, String> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let (origin, path) = match &self.target {
            WebhookTarget::Url(url) => {
                let rest = url.strip_prefix("https://").unwrap_or(url);
                let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
                (format!("https://{host}"), path)
            }
            WebhookTarget::Service { service, path } => {
                let ServiceReference {
                    name,
                    namespace,
                    port,
                } = service;
                (
                    format!("https://{name}.{namespace}.svc:{port}"),
                    path.as_str(),
                )
            }
            WebhookTarget::Invalid => {
                return Err("webhook configuration must have either service or URL".into());
            }
        };
        let steps = path.split('/').filter(|step| !step.is_empty());
        let path: Vec<&str> = steps.collect();
        Ok(format!("{origin}/{}?timeout={seconds}s", path.join("/")))
    }

    /// The address to connect to, if it is not the host of the URL.
    pub(super) fn connect_address(&self, store: &Store) -> Result<Option<String>, String> {
        match &self.target {
            WebhookTarget::Service { service, .. } => resolve(service, store).map(Some),
            WebhookTarget::Url(_) | WebhookTarget::Invalid => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn webhook_url_is_built_from_url_or_service() {
        let ten = Duration::from_secs(10);
        for (config, url) in [
            (json!({"url": "https://h"}), "https://h/?timeout=10s"),
            (
                json!({"url": "https://h:1//a//b/"}),
                "https://h:1/a/b?timeout=10s",
            ),
            (
                json!({"service": {"name": "n", "namespace": "m", "path": "/p"}}),
                "https://n.m.svc:443/p?timeout=10s",
            ),
        ] {
            let destination = WebhookClientConfig::read(&config);
            assert_eq!(destination.url(ten).unwrap(), url);
        }
        let nowhere = WebhookClientConfig::read(&json!({}));
        assert!(nowhere.url(Duration::from_millis(1500)).is_err());
    }
}
