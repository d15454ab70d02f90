//! Tests of a control plane embedded in another program, with a real client.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use optik::{Optik, StartError};
use std::net::SocketAddr;
use std::time::Duration;

async fn client(optik: &Optik) -> Client {
    let yaml = optik.kubeconfig().expect("it listens");
    let kubeconfig = Kubeconfig::from_yaml(&yaml).expect("it is a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.expect("it is complete")).expect("a client")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn kube_client_works_with_the_kubeconfig_of_the_handle() {
    let optik = Optik::builder().ephemeral().start().await.expect("starts");
    let namespaces: Api<Namespace> = Api::all(client(&optik).await);
    let default = namespaces.get("default").await.expect("it exists");
    assert_eq!(default.metadata.name.as_deref(), Some("default"));
    optik.shutdown().await;
}

#[tokio::test]
async fn data_directory_keeps_objects_and_certificates_across_restarts() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let start = || Optik::builder().data_directory(&path).start();
    let optik = start().await.expect("starts");
    let maps: Api<ConfigMap> = Api::namespaced(client(&optik).await, "default");
    let created = maps
        .create(&PostParams::default(), &config_map("kept"))
        .await;
    let created = created.expect("created");
    let before = authority_line(&optik);
    optik.shutdown().await;

    let optik = start().await.expect("starts again");
    let maps: Api<ConfigMap> = Api::namespaced(client(&optik).await, "default");
    let kept = maps.get("kept").await.expect("kept");
    assert_eq!(
        kept.metadata.resource_version,
        created.metadata.resource_version
    );
    assert_eq!(before, authority_line(&optik));
    optik.shutdown().await;
}

/// The line of the kubeconfig that has the certificate authority.
fn authority_line(optik: &Optik) -> String {
    let yaml = optik.kubeconfig().expect("it listens");
    let line = yaml
        .lines()
        .find(|line| line.contains("certificate-authority-data"));
    line.expect("it has an authority").to_owned()
}

#[tokio::test]
async fn data_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let first = Optik::builder().data_directory(&path).start().await;
    let first = first.expect("starts");
    let second = Optik::builder().data_directory(&path).start().await;
    assert!(matches!(second, Err(StartError::Open(_))), "{second:?}");
    first.shutdown().await;
}

#[tokio::test]
async fn failed_start_releases_the_data_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let missing = directory.path().join("missing.pem");
    let builder = Optik::builder().data_directory(&path);
    let refused = builder.configure(|config| {
        let tls = config.tls.as_mut().expect("the default has TLS");
        tls.key_pair = Some((missing.clone(), missing));
    });
    let refused = refused.start().await;
    assert!(
        matches!(refused, Err(StartError::Read { .. })),
        "{refused:?}"
    );
    let optik = Optik::builder().data_directory(&path).start().await;
    optik.expect("it is free again").abort().await;
}

#[tokio::test]
async fn impossible_configurations_are_refused() {
    let changes: [fn(&mut optik::Config); 4] = [
        |config| config.tls = None,
        |config| config.api = false,
        |config| config.compaction_interval = Some(Duration::ZERO),
        |config| config.connections_max = 0,
    ];
    for change in changes {
        let refused = Optik::builder().configure(change).start().await;
        assert!(matches!(refused, Err(StartError::Config(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn insecure_and_etcd_ports_must_be_loopback() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let builders = [
        Optik::builder().insecure_listen(everywhere),
        Optik::builder().etcd_listen(everywhere),
    ];
    for builder in builders {
        let refused = builder.start().await;
        assert!(
            matches!(refused, Err(StartError::NotLoopback { .. })),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn dropped_handle_closes_its_ports() {
    let optik = Optik::builder().ephemeral().start().await.expect("starts");
    let url = optik.url().expect("it listens").to_owned();
    drop(optik);
    let address = url.trim_start_matches("https://");
    // The runtime drops aborted tasks, and the listener with them, when it next polls them.
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn etcd_only_serves_no_api() {
    let free: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let builder = Optik::builder().etcd_listen(free);
    let builder = builder.configure(|config| config.api = false);
    let optik = builder.start().await.expect("starts");
    assert!(optik.url().is_none() && optik.etcd_address().is_some());
    optik.shutdown().await;
}
