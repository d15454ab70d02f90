use super::messages;
use super::sample::Sampler;
use optik_object::protobuf::{DEPTH_MAX, Envelope, MAGIC, ProtobufError, watch_frame};
use optik_object::{Value, parse, to_bytes};
use proptest::prelude::*;

/// `*` is no apiVersion of a request.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    messages()
        .kinds()
        .map(|(api_version, kind)| match api_version {
            "*" => ("apps/v1", kind),
            _ => (api_version, kind),
        })
}

fn round_trip(value: &Value, api_version: &str, kind: &str) {
    let bytes = messages().encode(value, api_version, kind).unwrap();
    let decoded = messages().decode(&bytes).unwrap();
    assert_eq!((&*decoded.api_version, &*decoded.kind), (api_version, kind));
    assert_eq!(&decoded.value, value, "{api_version} {kind}");
}

fn full(api_version: &str, kind: &str) -> Value {
    let mut sampler = Sampler {
        table: messages(),
        dice: 0,
        full: true,
    };
    sampler.document(api_version, kind)
}

fn json(text: &str) -> Value {
    parse(text.as_bytes()).unwrap().value
}

#[test]
fn protobuf_round_trip_with_all_fields_set() {
    for (api_version, kind) in kinds() {
        round_trip(&full(api_version, kind), api_version, kind);
    }
}

#[test]
fn protobuf_round_trip_with_no_fields_set() {
    for (api_version, kind) in kinds() {
        let nothing = Value::Object(Default::default());
        let bytes = messages().encode(&nothing, api_version, kind).unwrap();
        let value = messages().decode(&bytes).unwrap().value;
        round_trip(&value, api_version, kind);
        // Go writes the same members whether or not their fields are present in the message.
        let mut bare = MAGIC.to_vec();
        bare.extend([0x12, 0]);
        let decoded = messages()
            .decode_with_default_type(&bare, api_version, kind)
            .unwrap();
        assert_eq!(decoded.value, value);
    }
}

#[test]
fn protobuf_messages_cover_every_served_kind_and_list() {
    for resource in crate::builtin() {
        let api_version = match &*resource.group {
            "" => resource.version.to_string(),
            group => format!("{group}/{}", resource.version),
        };
        let known = |kind: &str| messages().for_kind(&api_version, kind).is_some();
        assert!(known(&resource.kind), "{api_version} {}", resource.kind);
        if resource.verbs.contains(crate::Verb::List) {
            assert!(known(&format!("{}List", resource.kind)), "{api_version}");
        }
    }
}

#[test]
fn protobuf_options_kinds_decode_under_any_version() {
    let options = json(
        r#"{"kind":"DeleteOptions","apiVersion":"apps/v1","gracePeriodSeconds":0,
            "preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}"#,
    );
    round_trip(&options, "apps/v1", "DeleteOptions");
    assert_eq!(
        messages().encode(&options, "apps/v1", "Options"),
        Err(ProtobufError::UnknownKind {
            api_version: "apps/v1".into(),
            kind: "Options".into()
        })
    );
}

/// Documents captured from kube-apiserver v1.36.4 or sent by kubectl: apiVersion, kind, the
/// document in hexadecimal, and the expected JSON.
#[test]
fn protobuf_documents_from_kube_apiserver_decode() {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/protobuf/captured.txt"
    ));
    assert!(text.lines().count() >= 8);
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [api_version, kind, hexadecimal, expected] = words[..] else {
            panic!("{line}");
        };
        let (bytes, expected) = (unhex(hexadecimal), json(expected));
        let decoded = messages().decode(&bytes).unwrap();
        assert_eq!((&*decoded.api_version, &*decoded.kind), (api_version, kind));
        assert_eq!(decoded.value, expected, "{api_version} {kind}");
        let encoded = messages().encode(&expected, api_version, kind).unwrap();
        assert_eq!(hex(&encoded), hexadecimal, "{api_version} {kind}");
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn truncated_protobuf_documents_are_rejected() {
    let bytes = messages().encode(&full("v1", "Pod"), "v1", "Pod").unwrap();
    // A document without its last two fields, which are empty, is complete.
    let whole = bytes.len() - 4;
    for length in (0..whole).step_by(7).chain(whole - 50..whole) {
        assert!(messages().decode(&bytes[..length]).is_err(), "{length}");
    }
    let object = Envelope::open(&bytes).unwrap().object;
    for length in (0..object.len()).step_by(11) {
        let cut = document("v1", "Pod", &object[..length]);
        let _ = messages().decode(&cut);
    }
}

/// Wraps bytes in a protobuf document.
fn document(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| {
        let mut out = vec![tag];
        let mut length = bytes.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend(bytes);
        out
    };
    let names = [
        field(0x0a, api_version.as_bytes()),
        field(0x12, kind.as_bytes()),
    ];
    [
        MAGIC.to_vec(),
        field(0x0a, &names.concat()),
        field(0x12, object),
    ]
    .concat()
}

#[test]
fn deeply_nested_protobuf_schemas_are_rejected() {
    let nested = |levels: usize| {
        let mut schema = json(r#"{"type":"object"}"#);
        for _ in 0..levels {
            schema = Value::from_iter([("not", schema)]);
        }
        let mut value = json(
            r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
                "metadata":{"name":"n"},"spec":{"group":"g","scope":"Cluster",
                "names":{"plural":"p","kind":"K"},
                "versions":[{"name":"v1","served":true,"storage":true,
                "schema":{"openAPIV3Schema":{}}}]},
                "status":{"conditions":null,"storedVersions":null,
                "acceptedNames":{"plural":"p","kind":"K"}}}"#,
        );
        value["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        value
    };
    let (version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    // The nesting counts the document, its spec, a version and its schema before the first schema.
    round_trip(&nested(DEPTH_MAX - 5), version, kind);
    let outcome = messages().encode(&nested(DEPTH_MAX - 4), version, kind);
    assert_eq!(outcome, Err(ProtobufError::TooDeep));
}

/// Every two bytes decode to an object with members.
#[test]
fn decoded_protobuf_document_size_is_bounded() {
    let mut containers = Vec::new();
    while containers.len() < 2_000_000 {
        containers.extend([0x12, 0]);
    }
    let spec_length = [0x80, 0x89, 0x7a];
    let spec = [&[0x12][..], &spec_length, &containers].concat();
    let outcome = messages().decode(&document("v1", "Pod", &spec));
    assert_eq!(outcome, Err(ProtobufError::TooManyValues));
}

#[test]
fn protobuf_watch_events_hold_documents() {
    let value = json(
        r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"},"spec":{},"status":{}}"#,
    );
    let inner = messages().encode(&value, "v1", "Namespace").unwrap();
    let frame = watch_frame("ADDED", &inner).unwrap();
    let (length, event) = frame.split_at(4);
    assert_eq!(length, u32::try_from(event.len()).unwrap().to_be_bytes());
    let decoded = messages()
        .decode(&document("v1", "WatchEvent", event))
        .unwrap();
    assert_eq!(decoded.value["type"], "ADDED");
    assert_eq!(decoded.value["object"], value);
}

fn any_kind() -> impl Strategy<Value = (&'static str, &'static str)> {
    let all: Vec<_> = kinds().collect();
    proptest::sample::select(all)
}

proptest! {
    #[test]
    fn protobuf_round_trip_of_random_values((api_version, kind) in any_kind(), dice: u64) {
        let mut sampler = Sampler { table: messages(), dice, full: false };
        let value = sampler.document(api_version, kind);
        round_trip(&value, api_version, kind);
        // The value also round-trips through JSON.
        prop_assert_eq!(parse(&to_bytes(&value)).unwrap().value, value);
    }

    #[test]
    fn protobuf_decoding_of_random_bytes_never_panics(
        (api_version, kind) in any_kind(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = messages().decode(&bytes);
        let _ = messages().decode(&document(api_version, kind, &bytes));
    }

    /// Damaged documents are nearly valid, so that they reach deeper code paths.
    #[test]
    fn protobuf_decoding_of_damaged_documents_never_panics(
        (api_version, kind) in any_kind(),
        dice: u64,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut sampler = Sampler { table: messages(), dice, full: false };
        let value = sampler.document(api_version, kind);
        let mut bytes = messages().encode(&value, api_version, kind).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(decoded) = messages().decode(&bytes) {
            let again = messages().encode(&decoded.value, &decoded.api_version, &decoded.kind);
            prop_assert!(again.is_ok(), "{:?}", again);
        }
    }
}
