use super::*;
use crate::json::{Value, parse};

const TABLE: &str = "\
= v1 Thing thing
: thing
1? text string
2*? pointer int32
3 always int32
4[? numbers int64
5[ texts string
6{? labels string
7{? blobs bytes
8? blob bytes
9^ - inner
10 child child
11*? number double
12? flag bool
13? time time
14*? micro micro
15*? port port
16*? raw raw
17*? amount amount
18*? big int64
: inner
1*? inlined bool
2 plain string
: child
1 name string
2*? child child
: time time
: micro micro-time
: port int-or-string
: raw raw
: amount quantity";

fn table() -> MessageTable {
    MessageTable::parse(TABLE).unwrap()
}

/// An envelope around the fields, which must be short.
fn document(fields: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(b"\x0a\x0b\x0a\x02v1\x12\x05Thing\x12");
    out.push(
        u8::try_from(fields.len())
            .ok()
            .filter(u8::is_ascii)
            .unwrap(),
    );
    out.extend(fields);
    out
}

/// Decodes the fields, without the members that are always present.
fn read(fields: &[u8]) -> Result<Value, ProtobufError> {
    let mut value = table().decode(&document(fields))?.value;
    let members = value.as_object_mut().unwrap();
    for (name, empty) in [
        ("kind", "\"Thing\""),
        ("apiVersion", "\"v1\""),
        ("always", "0"),
        ("texts", "null"),
        ("plain", "\"\""),
        ("child", r#"{"name":""}"#),
    ] {
        let empty = parse(empty.as_bytes()).unwrap().value;
        if members[name] == empty {
            members.remove(name);
        }
    }
    Ok(value)
}

#[track_caller]
fn check(fields: &[u8], expected: &str) {
    let expected = parse(expected.as_bytes()).unwrap().value;
    assert_eq!(read(fields), Ok(expected));
}

#[test]
fn protobuf_keeps_empty_values_behind_pointers_only() {
    check(b"", "{}");
    check(b"\x0a\x00\x10\x00\x60\x00\x42\x00", r#"{"pointer":0}"#);
    check(b"\x0a\x01x\x0a\x00", "{}");
    check(b"\x4a\x02\x08\x00", r#"{"inlined":false}"#);
    check(b"\x32\x00", r#"{"labels":{"":""}}"#);
    check(b"\x3a\x03\x0a\x01k", r#"{"blobs":{"k":""}}"#);
    check(b"\x2a\x00", r#"{"texts":[""]}"#);
}

#[test]
fn protobuf_numbers_are_decoded() {
    let minus_one = b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    check(minus_one, r#"{"always":-1}"#);
    check(b"\x20\x01\x22\x02\x02\x03", r#"{"numbers":[1,2,3]}"#);
    check(
        b"\x59\x00\x00\x00\x00\x00\x00\x04\xc0",
        r#"{"number":-2.5}"#,
    );
    check(b"\x59\x00\x00\x00\x00\x00\x00\x14\x40", r#"{"number":5}"#);
    let infinite = b"\x59\x00\x00\x00\x00\x00\x00\xf0\x7f";
    assert_eq!(
        read(infinite),
        Err(ProtobufError::NotRepresentable("number"))
    );
    assert_eq!(read(&[0x80; 20]), Err(ProtobufError::Overflow));
}

#[test]
fn protobuf_message_in_parts_is_merged() {
    check(
        b"\x52\x03\x0a\x01a\x52\x05\x12\x03\x0a\x01b",
        r#"{"child":{"name":"a","child":{"name":"b"}}}"#,
    );
    check(b"\x2a\x01a\x2a\x01b", r#"{"texts":["a","b"]}"#);
}

#[test]
fn protobuf_special_types_are_decoded() {
    check(b"\x6a\x00", "{}");
    check(
        b"\x6a\x04\x08\x01\x10\x05",
        r#"{"time":"1970-01-01T00:00:01Z"}"#,
    );
    check(
        b"\x72\x05\x08\x01\x10\xd0\x0f",
        r#"{"micro":"1970-01-01T00:00:01.000002Z"}"#,
    );
    check(b"\x72\x00", r#"{"micro":null}"#);
    check(b"\x7a\x02\x10\x50", r#"{"port":80}"#);
    check(b"\x7a\x05\x08\x01\x1a\x01h", r#"{"port":"h"}"#);
    check(b"\x82\x01\x09\x0a\x07{\"a\":1}", r#"{"raw":{"a":1}}"#);
    check(b"\x82\x01\x00", r#"{"raw":null}"#);
    check(b"\x8a\x01\x04\x0a\x021k", r#"{"amount":"1k"}"#);
    check(b"\x8a\x01\x00", r#"{"amount":"0"}"#);
    check(b"\x42\x02\x00\xff", r#"{"blob":"AP8="}"#);
}

#[test]
fn protobuf_unknown_fields_are_skipped() {
    check(
        b"\x98\x06\x01\x99\x06abcdefgh\x9a\x06\x02hi\x9d\x06abcd",
        "{}",
    );
    // A group that contains a group and a text.
    check(
        b"\x9b\x06\xa3\x06\x0a\x01x\xa4\x06\x9c\x06\x10\x01",
        r#"{"pointer":1}"#,
    );
}

#[test]
fn malformed_protobuf_is_refused() {
    for (fields, error) in [
        (&b"\x0a\x05abc"[..], ProtobufError::Truncated),
        (
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            ProtobufError::Truncated,
        ),
        (b"\x0a\xff\xff\xff\xff\x0f", ProtobufError::Truncated),
        (b"\x0a", ProtobufError::Truncated),
        (b"\x59abc", ProtobufError::Truncated),
        (b"\x9b\x06", ProtobufError::Truncated),
        (b"\x0a\x01\xff", ProtobufError::NotUtf8("text")),
        (b"\x08\x01", ProtobufError::WrongWireType("text")),
        (b"\x12\x01x", ProtobufError::WrongWireType("pointer")),
        (b"\x50\x01", ProtobufError::WrongWireType("child")),
        (b"\x0c", ProtobufError::EndOfGroup),
        (b"\x0e", ProtobufError::IllegalWireType(6)),
        (b"\x00", ProtobufError::IllegalTag),
        (b"\x7a\x02\x08\x02", ProtobufError::NotRepresentable("port")),
        (
            b"\x6a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            ProtobufError::NotRepresentable("time"),
        ),
    ] {
        assert_eq!(read(fields), Err(error), "{fields:x?}");
    }
    assert!(matches!(
        read(b"\x82\x01\x03\x0a\x01{"),
        Err(ProtobufError::NotJson { field: "raw", .. })
    ));
}

#[test]
fn protobuf_envelopes_are_read() {
    for (bytes, text) in [
        (&b""[..], "empty data"),
        (
            b"{}",
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x0a\xff", "unexpected EOF"),
        (b"k8s\0\x12\x00", "Object 'Kind' is missing in the envelope"),
        (
            b"k8s\0\x0a\x07\x12\x05Thing\x12\x00",
            "Object 'apiVersion' is missing in the envelope",
        ),
        (
            b"k8s\0\x0a\x07\x0a\x02v1\x12\x01T",
            "no kind \"T\" is registered for version \"v1\"",
        ),
    ] {
        assert_eq!(table().decode(bytes).unwrap_err().to_string(), text);
    }
    let defaulted = table()
        .decode_with_default_type(b"k8s\0\x12\x00", "v1", "Thing")
        .unwrap();
    assert_eq!((&*defaulted.api_version, &*defaulted.kind), ("v1", "Thing"));
}

#[test]
fn protobuf_depth_is_bounded() {
    let nested = |levels: usize| {
        let mut value = Value::from_iter([("name", "")]);
        for _ in 1..levels {
            value = Value::from_iter([("name", "".into()), ("child", value)]);
        }
        Value::from_iter([("child", value)])
    };
    let table = table();
    let deepest = table.encode(&nested(DEPTH_MAX - 1), "v1", "Thing").unwrap();
    let decoded = table.decode(&deepest).unwrap();
    assert_eq!(decoded.value["child"], nested(DEPTH_MAX - 1)["child"]);
    let outcome = table.encode(&nested(DEPTH_MAX), "v1", "Thing");
    assert_eq!(outcome, Err(ProtobufError::TooDeep));
    // One more level, written by hand.
    let object = Envelope::open(&deepest).unwrap().object;
    let mut reader = wire::WireReader::new(object);
    let mut child: &[u8] = b"";
    while let Ok(Some((number, payload))) = reader.next() {
        if let (10, wire::Payload::Bytes(bytes)) = (number, payload) {
            child = bytes;
        }
    }
    let deeper = Envelope::write("v1", "Thing", |out| {
        out.nested(10, |out| {
            out.bytes_field(2, child);
            Ok(())
        })
    });
    assert_eq!(table.decode(&deeper.unwrap()), Err(ProtobufError::TooDeep));
}

#[test]
fn protobuf_embedded_json_depth_is_bounded() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let document = |levels: usize| {
        Envelope::write("v1", "Thing", |out| {
            out.nested(16, |out| {
                out.bytes_field(1, nested(levels).as_bytes());
                Ok(())
            })
        })
        .unwrap()
    };
    let deepest = crate::json::DEPTH_MAX - 2 * DEPTH_MAX;
    assert!(table().decode(&document(deepest)).is_ok());
    assert!(table().decode(&document(deepest + 1)).is_err());
}

#[test]
fn protobuf_encode_names_the_mistyped_field() {
    for (json, text) in [
        (r#"{"text":1}"#, "field text: expected a string"),
        (
            r#"{"pointer":2147483648}"#,
            "field pointer: expected 32 bits",
        ),
        (r#"{"pointer":1.5}"#, "field pointer: expected an integer"),
        (
            r#"{"big":9223372036854775808}"#,
            "field big: expected an integer",
        ),
        (r#"{"texts":{}}"#, "field texts: expected a list"),
        (r#"{"labels":[]}"#, "field labels: expected an object"),
        (r#"{"child":[]}"#, "field child: expected an object"),
        (r#"{"blob":"?"}"#, "field blob: expected base64"),
        (r#"{"flag":"yes"}"#, "field flag: expected true or false"),
        (r#"{"number":"1"}"#, "field number: expected a number"),
        (
            r#"{"time":"today"}"#,
            "field time: expected an RFC 3339 time",
        ),
        (r#"{"port":true}"#, "field port: expected an integer"),
        (r#"{"amount":[]}"#, "field amount: expected a quantity"),
        ("[]", "field object: expected an object"),
    ] {
        let value = parse(json.as_bytes()).unwrap().value;
        let error = table().encode(&value, "v1", "Thing").unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn protobuf_bytes_base64_is_read_as_go_reads_it() {
    assert_eq!(bytes::from_text("AP8="), Some(vec![0, 255]));
    assert_eq!(bytes::from_text("AP\r\n9="), Some(vec![0, 255]));
    assert_eq!(bytes::from_text("AP8"), None);
    assert_eq!(bytes::from_text("A-8="), None);
}
