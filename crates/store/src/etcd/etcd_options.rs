use crate::error::ConnectError;
use crate::key::KeyRange;
use crate::options::Retention;
use crate::txn_validation::TxnLimits;
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_supervisor::Supervisor;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Options for a store backed by an etcd cluster.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The members of one cluster: `host:port`, `http://…` or `https://…`.
    pub endpoints: Vec<String>,
    /// The keys that this store mirrors and may write. The cluster may hold others.
    pub range: KeyRange,
    /// TLS settings. If set, endpoints without a scheme use `https`.
    pub tls: Option<EtcdTls>,
    pub user: Option<EtcdUser>,
    /// How much history is kept in this process, starting when it connected.
    pub retention: Retention,
    /// The limits of the cluster (`--max-txn-ops`, `--max-request-bytes`).
    pub limits: TxnLimits,
    /// The timeout of a write, from the call to its answer.
    pub request_timeout: Duration,
    /// The timeout of a linearizable read.
    pub read_timeout: Duration,
    /// The timeout of one attempt to connect to a member.
    pub connect_timeout: Duration,
    /// Supervises the tasks of the store.
    pub supervisor: Supervisor,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

impl EtcdOptions {
    #[must_use]
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            range: KeyRange::all(),
            tls: None,
            user: None,
            retention: Retention::default(),
            limits: TxnLimits::default(),
            request_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            supervisor: Supervisor::default(),
            clock: Arc::new(SystemClock::default()),
            entropy: Arc::new(SystemEntropy),
        }
    }
}

/// Certificates, as PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// The certificate authority that signs the certificates of the members.
    pub ca: Vec<u8>,
    /// The client certificate and its key, if the members require one.
    pub client: Option<EtcdIdentity>,
    /// The name in the members' certificates, if it differs from their host.
    pub domain: Option<String>,
}

#[derive(Clone)]
pub struct EtcdIdentity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

#[derive(Clone)]
pub struct EtcdUser {
    pub name: String,
    pub password: String,
}

// Secrets must not reach a log through debug output of the options.
impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls")
            .field("client", &self.client.is_some())
            .field("domain", &self.domain)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdIdentity").finish_non_exhaustive()
    }
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The message size limit. Only etcd bounds the size of its answers.
pub(crate) const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;
/// The flow control window of one stream, smaller than that of the connection: otherwise one stream
/// could starve the other calls.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// etcd disconnects clients that send pings more often than every five seconds.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(6);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);

impl EtcdOptions {
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>, ConnectError> {
        if self.endpoints.is_empty() {
            return Err(ConnectError::Options("there is no endpoint".into()));
        }
        let endpoints = self.endpoints.iter();
        endpoints
            .map(|address| {
                self.endpoint(address)
                    .map_err(|reason| ConnectError::Options(format!("{address}: {reason}")))
            })
            .collect()
    }

    fn endpoint(&self, address: &str) -> Result<Endpoint, String> {
        let address = match (address.contains("://"), &self.tls) {
            (true, _) => address.to_owned(),
            (false, Some(_)) => format!("https://{address}"),
            (false, None) => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(address).map_err(|error| error.to_string())?;
        let endpoint = endpoint
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            // etcd treats pings without an active call as an attack.
            .keep_alive_while_idle(false);
        match (endpoint.uri().scheme_str(), &self.tls) {
            (Some("http"), _) => Ok(endpoint),
            (Some("https"), Some(tls)) => endpoint
                .tls_config(tls.config())
                .map_err(|error| error.to_string()),
            (Some("https"), None) => Err("https needs the certificate of an authority".into()),
            _ => Err("the scheme is neither http nor https".into()),
        }
    }
}

impl EtcdTls {
    fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some(client) = &self.client {
            config = config.identity(Identity::from_pem(&client.certificate, &client.key));
        }
        if let Some(domain) = &self.domain {
            config = config.domain_name(domain);
        }
        config
    }
}
