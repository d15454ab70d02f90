use super::*;
use crate::calling::Nobody;
use crate::form::{Encoding, Form};
use crate::kinds::Kinds;
use crate::options::ListAt;
use crate::query::Query;
use optik_platform::{SystemClock, SystemEntropy};
use optik_store::{Options, Origin, Put, Store, Txn};
use serde_json::{Value, json};

/// Several batches in every form.
const OBJECTS: usize = 400;

async fn filled() -> (Store, Arc<Kind>) {
    let kinds = Kinds::of(optik_catalog::builtin());
    let kind = Arc::clone(kinds.find("", "v1", "configmaps").unwrap());
    let store = Store::open(Options::ephemeral()).unwrap();
    for number in 0..OBJECTS {
        let name = format!("{number:04}");
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "n", "labels": {"third": (number % 3).to_string()}},
            "data": {"text": "x".repeat(4096)}});
        let bytes = optik_object::encode(&object).unwrap();
        let put = Put::new(kind.key(Some("n"), &name), bytes);
        store
            .commit(Txn::put(put), Origin::default())
            .await
            .unwrap();
    }
    (store, kind)
}

async fn listed(
    store: &Store,
    press: Press,
    (kind, form, selector): (&Arc<Kind>, Form, &str),
) -> Vec<u8> {
    let query = format!("labelSelector={selector}");
    let listing = Listing {
        kind: Arc::clone(kind),
        namespace: Some("n".into()),
        selection: Selection::read(&Query::parse(&query).unwrap(), kind).unwrap(),
        plan: ListPlan {
            at: ListAt::Latest,
            limit: None,
        },
        ink: Ink::of(form, &SystemClock::default()),
    };
    let outside = Outside {
        caller: Arc::new(Nobody),
        store: store.clone(),
        entropy: Arc::new(SystemEntropy),
    };
    match list(&outside, &Arc::new(press), listing).await.unwrap() {
        Listed::Whole(body) => body.to_vec(),
        Listed::Pieces(pieces) => pieces.collect::<Vec<_>>().await.concat(),
    }
}

fn form(encoding: Encoding) -> Form {
    Form {
        encoding,
        ..Form::default()
    }
}

fn names(list: &Value) -> Vec<usize> {
    let items = list["items"].as_array().unwrap();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().parse().unwrap();
    items.iter().map(name).collect()
}

#[tokio::test]
async fn batches_make_one_document() {
    let (store, kind) = filled().await;
    for (selector, wanted) in [
        ("", (0..OBJECTS).collect()),
        ("third%3D1", (1..OBJECTS).step_by(3).collect()),
        ("third%3D9", vec![]),
    ] {
        for cores in [1, 4] {
            let of = |encoding| (&kind, form(encoding), selector);
            let json = listed(&store, Press::with(cores, 0), of(Encoding::Json)).await;
            let json: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(names(&json), wanted, "{selector}");
            let yaml = listed(&store, Press::with(cores, 0), of(Encoding::Yaml)).await;
            let yaml = optik_object::yaml::parse(&yaml).unwrap();
            assert_eq!(names(&yaml.value), wanted, "{selector}");
        }
    }
    store.close().await;
}

/// What there is no room to hold is made twice, and comes out once.
#[tokio::test]
async fn room_makes_no_difference() {
    let (store, kind) = filled().await;
    let asked = (&kind, form(Encoding::Protobuf), "");
    let whole = listed(&store, Press::with(1, 1 << 30), asked).await;
    assert!(whole.len() > OBJECTS * 4096);
    for (cores, room) in [(1, 0), (4, 0), (4, 600 << 10), (4, 1 << 30)] {
        let list = listed(&store, Press::with(cores, room), asked).await;
        assert!(list == whole, "{cores} {room}");
    }
    store.close().await;
}
