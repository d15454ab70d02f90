//! A Kubernetes control plane as a library.
//!
//! [`Optik::builder`] opens the store, makes certificates, starts the API, the controllers and,
//! if asked, etcd's gRPC, and returns one handle. `optik serve` is this crate behind flags.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use optik::{ApiRequest, Method, Optik};
//!
//! // In memory, on a free port of the loopback interface, over TLS.
//! let optik = Optik::builder().ephemeral().start().await?;
//! println!("the API is at {}", optik.url().expect("it listens"));
//!
//! // Any client: kubectl, client-go, kube-rs. This is the kubeconfig of an administrator.
//! let kubeconfig = optik.kubeconfig().expect("it has certificates");
//! assert!(kubeconfig.contains("kind: Config"));
//!
//! // Without a client: the API in process, without credentials.
//! let get = ApiRequest::new(&Method::GET, "/api/v1/namespaces/default");
//! assert_eq!(optik.api().handle(get).await.status, 200);
//!
//! // Requests in flight finish, the store is closed. Dropping the handle stops at once.
//! optik.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! | what | how |
//! |---|---|
//! | keep data in a directory | [`Builder::data_directory`] |
//! | keep data in an etcd cluster | [`Builder::etcd`] |
//! | another address | [`Builder::listen`] |
//! | let etcdctl and kube-apiserver use the store | [`Builder::etcd_listen`] |
//! | run other controllers | [`Builder::controllers`] |
//! | everything that `optik serve` has a flag for | [`Config`] |
//!
//! # What runs
//!
//! Listeners, and background tasks under a [`Supervisor`]: a
//! task that panics is started again, and `/readyz` names it. [`Optik::supervisor`] lists
//! them.

mod builder;
mod certificates;
mod cluster_keys;
mod compute;
mod config;
mod control_plane;
mod error;
mod health;
mod listeners;

pub use builder::Builder;
pub use config::{
    AuditConfig, CertificateSource, Config, KeySource, ServiceAccountConfig, Storage, TlsConfig,
};
pub use control_plane::{OpenedStore, Optik};
pub use error::StartError;

// Types of the settings and of the handle.
pub use http::Method;
pub use optik_apiserver::{ApiRequest, ApiResponse, ApiServer, AuthorizationMode, ServiceRanges};
pub use optik_controllers::{CaBundles, EnabledControllers};
pub use optik_serve::{Limits, TokenFile};
pub use optik_store::{Durability, EtcdOptions, Retention, Store};
pub use optik_supervisor::Supervisor;
