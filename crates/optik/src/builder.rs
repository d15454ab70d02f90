//! The builder of a control plane: one method for each common setting.

use crate::{Config, Optik, StartError, Storage, TlsConfig};
use optik_controllers::EnabledControllers;
use optik_store::EtcdOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Builds an [`Optik`]; see [`Optik::builder`].
#[derive(Debug, Default)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    config: Config,
}

impl Builder {
    /// Keeps everything in memory. This is the default.
    pub fn ephemeral(mut self) -> Self {
        self.config.storage = Storage::Ephemeral;
        self
    }

    /// Keeps data and certificates in this directory, which is created if missing.
    pub fn data_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.storage = Storage::Directory(path.into());
        self
    }

    /// Keeps data, and the keys that all servers on it share, in an etcd cluster. Its retention is
    /// that of `options`.
    pub fn etcd(mut self, options: EtcdOptions) -> Self {
        self.config.storage = Storage::Etcd(Box::new(options));
        self
    }

    /// Serves the API over TLS on this address; port 0 takes a free one.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        match &mut self.config.tls {
            Some(tls) => tls.listen = address,
            none => *none = Some(TlsConfig::new(address)),
        }
        self
    }

    /// Serves the API without TLS on a loopback address; every client of it is an administrator.
    pub fn insecure_listen(mut self, address: SocketAddr) -> Self {
        self.config.insecure_listen = Some(address);
        self
    }

    /// Serves no port over TLS. For tests: without one there are no published CA bundles, no Service
    /// `kubernetes` and no other bootstrap objects that depend on the address.
    pub fn without_tls(mut self) -> Self {
        self.config.tls = None;
        self
    }

    /// Serves etcd's v3 gRPC on a loopback address.
    pub fn etcd_listen(mut self, address: SocketAddr) -> Self {
        self.config.etcd_listen = Some(address);
        self
    }

    /// Runs these controllers instead of all.
    pub fn controllers(mut self, controllers: EnabledControllers) -> Self {
        self.config.controllers = controllers;
        self
    }

    /// Changes any setting.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts the control plane; see [`Optik::start`].
    ///
    /// # Errors
    /// If the store, an address or a certificate cannot be used; see [`StartError`].
    pub async fn start(self) -> Result<Optik, StartError> {
        Optik::start(self.config).await
    }
}
