//! Serves an empty in-memory store on 127.0.0.1, to try it with `etcdctl`.
//!
//! `cargo run -p optik-etcd-facade --example serve -- 2379 [CERTIFICATE KEY]`

use optik_etcd_facade::{Facade, FacadeOptions};
use optik_store::Store;
use std::error::Error;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().unwrap_or_else(|| "2379".into());
    let tls = match (arguments.next(), arguments.next()) {
        (Some(certificate), Some(key)) => Some(tls(&certificate, &key)?),
        _ => None,
    };
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let options = FacadeOptions {
        client_urls: vec![format!("{scheme}://{}", listener.local_addr()?)],
        tls,
        ..FacadeOptions::default()
    };
    let store = Store::open(optik_store::Options::ephemeral())?;
    let interrupted = async {
        // Without a signal handler there is nothing to wait for.
        let _ = tokio::signal::ctrl_c().await;
    };
    Facade::new(store.clone(), options)
        .serve(listener, interrupted)
        .await;
    store.close().await;
    Ok(())
}

fn tls(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
