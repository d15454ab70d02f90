//! A connection to one member, verified to lead to our cluster.

use super::cluster_identity::{ClusterIdentity, ClusterMismatch};
use super::error_class::{ErrorClass, classify};
use super::etcd_options::{EtcdOptions, EtcdUser, MESSAGE_BYTES_MAX};
use super::wire::probe_request;
use crate::key::KeyRange;
use crate::revision::Revision;
use crate::sync::{AtomicU64, Ordering};
use http::Uri;
use hyper_util::rt::TokioIo;
use optik_etcd_api::etcdserverpb::auth_client::AuthClient;
use optik_etcd_api::etcdserverpb::kv_client::KvClient;
use optik_etcd_api::etcdserverpb::lease_client::LeaseClient;
use optik_etcd_api::etcdserverpb::maintenance_client::MaintenanceClient;
use optik_etcd_api::etcdserverpb::watch_client::WatchClient;
use optik_etcd_api::etcdserverpb::{AuthenticateRequest, StatusRequest};
use std::io;
use tokio::net::TcpStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const ETCD_PORT: u16 = 2379;

#[derive(Clone, Debug)]
pub(crate) struct EtcdConnection {
    /// The index of the member in the options.
    pub(crate) member: usize,
    channel: Channel,
    metadata: CallMetadata,
}

/// The metadata sent with every call.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallMetadata {
    token: Option<MetadataValue<Ascii>>,
}

impl Interceptor for CallMetadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        // A member that lost its leader must report that immediately and end its watches.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        Ok(request)
    }
}

pub(crate) type EtcdChannel = InterceptedService<Channel, CallMetadata>;

#[derive(Clone, Debug)]
pub(crate) enum DialError {
    Unreachable(String),
    /// The member answers, but the store cannot work with it.
    Unsupported(String),
    Mismatch(ClusterMismatch),
}

impl From<Status> for DialError {
    fn from(status: Status) -> Self {
        match classify(&status) {
            ErrorClass::Refused => Self::Unsupported(status.message().to_owned()),
            _ => Self::Unreachable(describe(&status)),
        }
    }
}

impl From<ClusterMismatch> for DialError {
    fn from(betrayal: ClusterMismatch) -> Self {
        Self::Mismatch(betrayal)
    }
}

impl EtcdConnection {
    pub(crate) async fn open(
        member: usize,
        endpoint: &Endpoint,
        options: &EtcdOptions,
        witness: &ClusterIdentity,
    ) -> Result<Self, DialError> {
        let channel = connect_once(endpoint).await?;
        let mut stamp = CallMetadata::default();
        if let Some(user) = &options.user {
            stamp.token = Some(authenticate(&channel, user).await?);
        }
        let link = Self {
            member,
            channel,
            metadata: stamp,
        };
        link.check_version(witness).await?;
        link.probe(&options.range, witness).await?;
        Ok(link)
    }

    /// Reads the current revision of the cluster; fails if it is not the known cluster.
    pub(crate) async fn probe(
        &self,
        range: &KeyRange,
        witness: &ClusterIdentity,
    ) -> Result<Revision, DialError> {
        let before = witness.position();
        let answer = self.kv().range(probe_request(range)).await?.into_inner();
        Ok(witness.check_linearizable(answer.header.as_ref(), before)?)
    }

    async fn check_version(&self, witness: &ClusterIdentity) -> Result<(), DialError> {
        let status = match self.maintenance().status(StatusRequest {}).await {
            // Some etcd versions answer this to administrators only. The check is then skipped.
            Err(status) if status.code() == Code::PermissionDenied => return Ok(()),
            status => status?.into_inner(),
        };
        witness.check_cluster(status.header.as_ref())?;
        if has_correct_progress_notify(&status.version) {
            return Ok(());
        }
        Err(DialError::Unsupported(format!(
            "etcd {} has incorrect watch progress notifications (etcd issue 15220); \
             3.4.31, 3.5.13 and 3.6 do not",
            status.version
        )))
    }

    pub(crate) fn kv(&self) -> KvClient<EtcdChannel> {
        KvClient::with_interceptor(self.channel.clone(), self.metadata.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn watch(&self) -> WatchClient<EtcdChannel> {
        WatchClient::with_interceptor(self.channel.clone(), self.metadata.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn lease(&self) -> LeaseClient<EtcdChannel> {
        LeaseClient::with_interceptor(self.channel.clone(), self.metadata.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    pub(crate) fn maintenance(&self) -> MaintenanceClient<EtcdChannel> {
        MaintenanceClient::with_interceptor(self.channel.clone(), self.metadata.clone())
    }
}

/// Connects with a channel that does not reconnect by itself. What was verified for one connection
/// would not hold for the next, and a write could reach an unverified cluster.
async fn connect_once(endpoint: &Endpoint) -> Result<Channel, DialError> {
    let connections = AtomicU64::new(0);
    let connector = tower::service_fn(move |uri: Uri| {
        let first = connections.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                connect(&uri).await.map(TokioIo::new)
            } else {
                Err(io::Error::from(io::ErrorKind::NotConnected))
            }
        }
    });
    let channel = endpoint.connect_with_connector(connector).await;
    channel.map_err(|error| DialError::Unreachable(describe(&error)))
}

async fn connect(uri: &Uri) -> io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default();
    // Only a URI has brackets around an IPv6 address.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(ETCD_PORT);
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn authenticate(
    channel: &Channel,
    user: &EtcdUser,
) -> Result<MetadataValue<Ascii>, DialError> {
    let request = AuthenticateRequest {
        name: user.name.clone(),
        password: user.password.clone(),
    };
    let answer = AuthClient::new(channel.clone())
        .authenticate(request)
        .await?;
    let token = answer.into_inner().token;
    MetadataValue::try_from(token)
        .map_err(|_| DialError::Unsupported("etcd's token is no header value".into()))
}

/// Whether progress notifications can be relied on. Older versions answer a progress request with
/// revisions whose events are still in transit (etcd issue 15220).
fn has_correct_progress_notify(version: &str) -> bool {
    let number = |part: Option<&str>| {
        let digits = part?.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok()
    };
    let mut parts = version.splitn(3, '.');
    let [major, minor, patch] = [(); 3].map(|()| number(parts.next()));
    match (major, minor, patch) {
        (Some(3), Some(minor), _) if minor < 4 => false,
        (Some(3), Some(4), Some(patch)) => patch >= 31,
        (Some(3), Some(5), Some(patch)) => patch >= 13,
        // A newer version, or not a number.
        _ => true,
    }
}

/// Formats an error with its causes: the message of a transport error alone has no details.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let next = inner.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_versions_with_correct_progress_notify_are_accepted() {
        for version in ["3.4.31", "3.5.13", "3.6.0", "3.6.8-rc.1", "4.0.0", "main"] {
            assert!(has_correct_progress_notify(version), "{version}");
        }
        for version in ["3.3.99", "3.4.30", "3.5.0", "3.5.12"] {
            assert!(!has_correct_progress_notify(version), "{version}");
        }
    }
}
