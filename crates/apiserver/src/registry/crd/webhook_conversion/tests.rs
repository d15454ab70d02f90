use crate::encoding::byte_rope::ByteRope;
use crate::encoding::encode_pool::{BufferQuota, EncodePool};
use crate::handlers::list::{ListBody, ListRequest, list};
use crate::handlers::watch::{WatchDeps, WatchRequest, watch};
use crate::registry::crd::webhook_conversion::*;
use crate::registry::crd::{CRD_DIRECTORY, CrdRegistry};
use crate::request::list_options::{Freshness, ListAt, ListPlan, WatchAt, WatchPlan};
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::webhook_client::{
    WebhookCallError, WebhookRequest, WebhookResponse, WebhookTransport,
};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, ready};
use http::StatusCode;
use optik_platform::{SystemClock, SystemEntropy};
use optik_store::{Options, Origin, Put, Store, Txn};
use serde_json::json;
use std::sync::Mutex;

const MIB: usize = 1 << 20;

/// Sets the desired version on objects and records the number of objects per call.
#[derive(Default)]
struct FakeConverter(Mutex<Vec<usize>>);

impl FakeConverter {
    fn asked(&self) -> Vec<usize> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

struct FakeConverterHandle(Arc<FakeConverter>);

impl WebhookTransport for FakeConverterHandle {
    fn call(
        &self,
        call: WebhookRequest,
    ) -> BoxFuture<'static, Result<WebhookResponse, WebhookCallError>> {
        let asked: Value = serde_json::from_slice(&call.body).unwrap();
        let mut objects = asked["request"]["objects"].as_array().unwrap().clone();
        self.0.0.lock().unwrap().push(objects.len());
        for object in &mut objects {
            object["apiVersion"] = asked["request"]["desiredAPIVersion"].clone();
        }
        let answer = json!({"kind": "ConversionReview", "apiVersion": asked["apiVersion"],
            "response": {"uid": asked["request"]["uid"], "result": {"status": "Success"},
                "convertedObjects": objects}});
        let reply = WebhookResponse {
            status: StatusCode::OK,
            content_type: "application/json".into(),
            body: answer.to_string().into(),
        };
        ready(Ok(reply)).boxed()
    }
}

/// A CRD with storage version `v1`, and `v2` that is converted.
struct ConversionFixture {
    outside: WebhookClient,
    webhook: Arc<FakeConverter>,
    kind: Arc<ServedResource>,
}

impl ConversionFixture {
    /// With stored objects of these lengths.
    async fn with(lengths: &[usize]) -> Self {
        let store = Store::open(Options::ephemeral()).unwrap();
        let put = async |key: String, object: &Value| {
            let put = Put::new(key, optik_object::encode_canonical(object).unwrap());
            let put = store.commit(Txn::put(put), Origin::default());
            put.await.unwrap();
        };
        put(format!("{CRD_DIRECTORY}things.example.com"), &definition()).await;
        let mut book = CrdRegistry::default();
        book.load(&store.snapshot());
        let kinds = book.kinds();
        let kind = kinds.iter().find(|kind| kind.api_version.ends_with("/v2"));
        let kind = Arc::clone(kind.unwrap());
        for (at, length) in lengths.iter().enumerate() {
            let name = format!("{at:04}");
            let object = json!({"apiVersion": "example.com/v1", "kind": "Thing",
                "metadata": {"name": name, "namespace": "n"}, "text": "x".repeat(*length)});
            put(kind.key(Some("n"), &name), &object).await;
        }
        let webhook = Arc::new(FakeConverter::default());
        let outside = WebhookClient {
            transport: Arc::new(FakeConverterHandle(Arc::clone(&webhook))),
            store,
            entropy: Arc::new(SystemEntropy),
        };
        Self {
            outside,
            webhook,
            kind,
        }
    }

    async fn list(&self, press: &Arc<EncodePool>) -> Result<ListBody, Status> {
        let listing = ListRequest {
            kind: Arc::clone(&self.kind),
            namespace: Some("n".into()),
            selection: SelectionPredicate::default(),
            plan: ListPlan {
                at: ListAt::Latest,
                limit: None,
            },
            encoder: None,
            buffer_quota: BufferQuota::Unbounded,
        };
        list(&self.outside, press, listing).await
    }

    /// The initial state sent by a watch.
    async fn watched(&self, objects: usize) -> Vec<Value> {
        let around = WatchDeps {
            store: self.outside.store.clone(),
            webhook_client: self.outside.clone(),
            encoded: Arc::default(),
            entropy: Arc::new(SystemEntropy),
            clock: Arc::new(SystemClock::default()),
        };
        let watching = WatchRequest {
            kind: Arc::clone(&self.kind),
            namespace: Some("n".into()),
            selection: SelectionPredicate::default(),
            plan: WatchPlan {
                at: WatchAt::Initial(Freshness::Latest),
                bookmarks: false,
                mark_initial_end: false,
                timeout_seconds: None,
            },
            representation: crate::encoding::representation::Representation::default(),
        };
        let mut pieces = watch(&around, watching).await;
        let mut events: Vec<Value> = Vec::new();
        while events.len() < objects {
            let piece = pieces.next().await.unwrap().into_bytes();
            let lines = piece.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.is_empty());
            events.extend(lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()));
        }
        events
    }
}

fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"text": {"type": "string"}}}}})
    };
    let names =
        json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    let holds = |kind: &str| json!({"type": kind, "status": "True"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com", "uid": "u", "generation": 1},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://example.com/"},
                "conversionReviewVersions": ["v1"]}}},
        "status": {"acceptedNames": names, "storedVersions": ["v1"],
            "conditions": [holds("NamesAccepted"), holds("Established")]},
    })
}

async fn items_of(listed: ListBody) -> Vec<Value> {
    let bytes = match listed {
        ListBody::Whole(bytes) => bytes.to_vec(),
        ListBody::Stream(pieces) => {
            let pieces: Vec<ByteRope> = pieces.collect().await;
            let pieces = pieces.into_iter().map(ByteRope::into_bytes);
            pieces.collect::<Vec<_>>().concat()
        }
    };
    let mut list: Value = serde_json::from_slice(&bytes).unwrap();
    list["items"].as_array_mut().map(std::mem::take).unwrap()
}

/// Many objects, or long ones, are not all sent in one review, nor held parsed at once.
#[tokio::test]
async fn conversion_webhook_is_called_in_bounded_batches() {
    let many = vec![10; 1_200];
    let long = vec![MIB; 10];
    for (lengths, expected) in [(&many, vec![500, 500, 200]), (&long, vec![3, 3, 3, 1])] {
        let world = ConversionFixture::with(lengths).await;
        let listed = world.list(&Arc::new(EncodePool::new())).await.unwrap();
        let items = items_of(listed).await;
        assert!(
            items
                .iter()
                .all(|item| item["apiVersion"] == "example.com/v2")
        );
        assert_eq!(items.len(), lengths.len());
        assert_eq!(world.webhook.asked(), expected, "a list");
        let events = world.watched(lengths.len()).await;
        let names = events
            .iter()
            .map(|event| &event["object"]["metadata"]["name"]);
        let names: Vec<&str> = names.map(|name| name.as_str().unwrap()).collect();
        assert!(names.is_sorted() && names.len() == lengths.len());
        assert_eq!(world.webhook.asked(), expected, "a watch");
        world.outside.store.close().await;
    }
}

/// Lists that are held until all of their objects are converted share the conversion memory.
#[tokio::test]
async fn list_with_conversion_gets_429_when_conversion_memory_is_used() {
    let world = ConversionFixture::with(&[MIB / 4; 8]).await;
    let press = Arc::new(EncodePool::with_limits(1, 3 * MIB));
    let first = world.list(&press).await.unwrap();
    assert_eq!(world.webhook.asked().len(), 1);
    let refused = world.list(&press).await.err().unwrap();
    assert_eq!(refused.code(), 429);
    assert!(world.webhook.asked().is_empty(), "it is not even asked");
    assert_eq!(items_of(first).await.len(), 8);
    let again = world.list(&press).await.unwrap();
    drop(again);
    // A list larger than the limit is held alone.
    let narrow = Arc::new(EncodePool::with_limits(1, MIB));
    let whole = world.list(&narrow).await.unwrap();
    assert_eq!(world.list(&narrow).await.err().unwrap().code(), 429);
    assert_eq!(items_of(whole).await.len(), 8);
    world.outside.store.close().await;
}
