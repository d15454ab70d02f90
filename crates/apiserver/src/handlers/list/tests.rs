use crate::encoding::representation::{Encoding, Representation};
use crate::handlers::list::*;
use crate::registry::served_resource::ResourceRegistry;
use crate::request::list_options::ListAt;
use crate::request::query::Query;
use crate::server::webhook_client::NoTransport;
use optik_platform::{SystemClock, SystemEntropy};
use optik_store::{Options, Origin, Put, Store, Txn};
use serde_json::{Value, json};

/// Enough objects for several batches in every encoding.
const OBJECTS: usize = 400;

async fn filled() -> (Store, Arc<ServedResource>) {
    let kinds = ResourceRegistry::from_resources(optik_catalog::builtin());
    let kind = Arc::clone(kinds.find("", "v1", "configmaps").unwrap());
    let store = Store::open(Options::ephemeral()).unwrap();
    for number in 0..OBJECTS {
        let name = format!("{number:04}");
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "n", "labels": {"third": (number % 3).to_string()}},
            "data": {"text": "x".repeat(if number % 4 == 0 { 10 } else { 4096 })}});
        let bytes = match number % 50 {
            // An object in a different JSON form, as another writer of the store might produce it.
            49 => serde_json::to_vec(&object).unwrap(),
            _ => optik_object::encode_canonical(&object).unwrap(),
        };
        let put = Put::new(kind.key(Some("n"), &name), bytes);
        store
            .commit(Txn::put(put), Origin::default())
            .await
            .unwrap();
    }
    (store, kind)
}

async fn pieces(
    store: &Store,
    press: EncodePool,
    (kind, form, selector): (&Arc<ServedResource>, Representation, &str),
) -> Vec<ByteRope> {
    let query = format!("labelSelector={selector}");
    let listing = ListRequest {
        kind: Arc::clone(kind),
        namespace: Some("n".into()),
        selection: SelectionPredicate::read(&Query::parse(&query).unwrap(), kind).unwrap(),
        plan: ListPlan {
            at: ListAt::Latest,
            limit: None,
        },
        encoder: ListEncoder::for_representation(form, &SystemClock::default()),
        buffer_quota: BufferQuota::Unbounded,
    };
    let outside = WebhookClient {
        transport: Arc::new(NoTransport),
        store: store.clone(),
        entropy: Arc::new(SystemEntropy),
    };
    match list(&outside, &Arc::new(press), listing).await.unwrap() {
        ListBody::Whole(body) => vec![body.into()],
        ListBody::Stream(pieces) => pieces.collect().await,
    }
}

async fn listed(
    store: &Store,
    press: EncodePool,
    asked: (&Arc<ServedResource>, Representation, &str),
) -> Vec<u8> {
    let pieces = pieces(store, press, asked).await.into_iter();
    pieces
        .map(ByteRope::into_bytes)
        .collect::<Vec<_>>()
        .concat()
}

fn form(encoding: Encoding) -> Representation {
    Representation {
        encoding,
        ..Representation::default()
    }
}

fn names(list: &Value) -> Vec<usize> {
    let items = list["items"].as_array().unwrap();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().parse().unwrap();
    items.iter().map(name).collect()
}

#[tokio::test]
async fn list_batches_form_one_document_in_every_encoding() {
    let (store, kind) = filled().await;
    for (selector, wanted) in [
        ("", (0..OBJECTS).collect()),
        ("third%3D1", (1..OBJECTS).step_by(3).collect()),
        ("third%3D9", vec![]),
    ] {
        for cores in [1, 4] {
            let of = |encoding| (&kind, form(encoding), selector);
            let json = listed(
                &store,
                EncodePool::with_limits(cores, 0),
                of(Encoding::Json),
            )
            .await;
            let json: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(names(&json), wanted, "{selector}");
            let yaml = listed(
                &store,
                EncodePool::with_limits(cores, 0),
                of(Encoding::Yaml),
            )
            .await;
            let yaml = optik_object::yaml::parse(&yaml).unwrap();
            assert_eq!(names(&yaml.value), wanted, "{selector}");
        }
    }
    store.close().await;
}

/// Batches that do not fit into the buffer are encoded twice and sent once.
#[tokio::test]
async fn list_is_identical_when_it_is_encoded_twice_to_find_its_length() {
    let (store, kind) = filled().await;
    let asked = (&kind, form(Encoding::Protobuf), "");
    let whole = listed(&store, EncodePool::with_limits(1, 1 << 30), asked).await;
    assert!(whole.len() > OBJECTS * 3000);
    for (cores, room) in [(1, 0), (4, 0), (4, 600 << 10), (4, 1 << 30)] {
        let list = listed(&store, EncodePool::with_limits(cores, room), asked).await;
        assert!(list == whole, "{cores} {room}");
    }
    store.close().await;
}

/// Long objects are sent by reference to the stored bytes.
#[tokio::test]
async fn list_sends_long_objects_without_copying() {
    let (store, kind) = filled().await;
    let pieces = pieces(
        &store,
        EncodePool::with_limits(1, 0),
        (&kind, form(Encoding::Json), ""),
    )
    .await;
    let parts = pieces.iter().skip(1).flat_map(ByteRope::chunks);
    let sent: Vec<_> = parts.map(|part| part.as_ptr_range()).collect();
    let snapshot = store.snapshot();
    let from_where_it_is = |number: usize| {
        let key = kind.key(Some("n"), &format!("{number:04}"));
        let stored = snapshot.get(key.as_bytes()).unwrap().value().as_ptr_range();
        sent.iter().any(|part| stored.contains(&part.start))
    };
    // The first of them are part of the first chunk.
    for number in 100..OBJECTS {
        let long = number % 4 != 0 && number % 50 != 49;
        assert_eq!(from_where_it_is(number), long, "{number}");
    }
    store.close().await;
}
