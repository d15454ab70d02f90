//! Tests of admission and conversion webhooks over TLS.

use crate::backup::Backup;
use crate::fixture::{RuntimeFixture, eventually, start};
use kube::{Client, Config};
use optik_controller::{AdmissionDenial, AdmissionReview, WebhookServer};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Calls webhooks as an API server does.
struct WebhookCaller(Client);

impl WebhookCaller {
    fn of(address: SocketAddr) -> Self {
        let mut config = Config::new(format!("https://{address}").parse().expect("an address"));
        config.accept_invalid_certs = true;
        config.default_retry = false;
        Self(Client::try_from(config).expect("a client can be made"))
    }

    async fn ask(&self, path: &str, review: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(review).expect("it is JSON"));
        self.0.request(request.expect("a request")).await
    }

    async fn admit(&self, path: &str, retention_days: u32) -> Value {
        let object = json!({
            "apiVersion": "example.com/v1alpha1", "kind": "Backup",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"retentionDays": retention_days},
        });
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u-1", "operation": "CREATE", "userInfo": {"username": "kim"},
                "object": object, "oldObject": null,
            },
        });
        let answer = self.ask(path, &review).await.expect("an answer");
        assert_eq!(answer["response"]["uid"], "u-1");
        answer["response"].clone()
    }
}

fn pem(what: &str, bytes: &[u8]) -> String {
    let text = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec())).expect("base64");
    let text = text.as_str().expect("a text");
    format!("-----BEGIN {what}-----\n{text}\n-----END {what}-----\n")
}

fn webhooks(address: SocketAddr) -> WebhookServer {
    let names = vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate can be made");
    let certificate = pem("CERTIFICATE", made.cert.der());
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    WebhookServer::new(address, certificate.as_bytes(), key.as_bytes())
        .expect("they can be used")
        .validating("/validate", |review: &AdmissionReview<Backup>| {
            let days = review
                .object
                .as_ref()
                .map(|backup| backup.spec.retention_days);
            match days {
                Some(0) => Err(AdmissionDenial::new("backups are kept for a day at least")),
                _ => Ok(()),
            }
        })
        .mutating(
            "/mutate",
            |_: &AdmissionReview<Backup>, backup: &mut Backup| {
                backup.spec.retention_days = backup.spec.retention_days.max(1);
                Ok(())
            },
        )
        .converting("/convert", |mut object, version| {
            object["apiVersion"] = version.into();
            Ok(object)
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_server_answers_admission_and_conversion_reviews() {
    let scene = RuntimeFixture::start().await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let mut manager = scene.manager();
    manager.webhooks(webhooks(address));
    let running = start(manager);
    let caller = WebhookCaller::of(address);
    let up = async || tokio::net::TcpStream::connect(address).await.is_ok();
    eventually("the webhooks", up).await;
    assert_eq!(caller.admit("/validate", 7).await["allowed"], true);
    let denied = caller.admit("/validate", 0).await;
    assert_eq!(denied["allowed"], false);
    assert_eq!(
        denied["status"]["message"],
        "backups are kept for a day at least"
    );
    assert!(
        caller.admit("/mutate", 7).await["patch"].is_null(),
        "nothing to change"
    );
    let changed = caller.admit("/mutate", 0).await;
    assert_eq!(changed["patchType"], "JSONPatch");
    let patch: k8s_openapi::ByteString =
        serde_json::from_value(changed["patch"].clone()).expect("base64");
    let patch: Value = serde_json::from_slice(&patch.0).expect("JSON");
    let expected = json!([{"op": "replace", "path": "/spec/retentionDays", "value": 1}]);
    assert_eq!(patch, expected);
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {
            "uid": "u-2", "desiredAPIVersion": "example.com/v1",
            "objects": [{"apiVersion": "example.com/v1alpha1", "kind": "Backup"}],
        },
    });
    let converted = caller.ask("/convert", &review).await.expect("an answer");
    assert_eq!(converted["response"]["result"]["status"], "Success");
    let objects = &converted["response"]["convertedObjects"];
    assert_eq!(objects[0]["apiVersion"], "example.com/v1");
    assert!(caller.ask("/elsewhere", &review).await.is_err());
    assert!(caller.ask("/validate", &json!({})).await.is_err());
    scene.stop_all(running).await;
}
