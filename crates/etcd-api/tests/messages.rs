//! Encoding tests: messages written byte by byte from the field numbers of WIRE §7.7.

use std::fmt::Debug;

use bytes::Bytes;
use optik_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use optik_etcd_api::etcdserverpb::request_op::Request;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, Member, PutRequest, RequestOp, ResponseHeader, StatusResponse,
    TxnRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use optik_etcd_api::mvccpb::event::EventType;
use optik_etcd_api::mvccpb::{Event, KeyValue};
use prost::Message;

/// A number or flag field; every value in these tests fits into one byte.
fn varint(field: u8, value: u8) -> Vec<u8> {
    assert!(field < 16 && value < 128);
    vec![field << 3, value]
}

/// A bytes, string or message field.
fn block(field: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(field < 16 && length < 128);
    let mut wire = vec![field << 3 | 2, length];
    wire.extend_from_slice(content);
    wire
}

/// Asserts that the hand-written bytes decode to `message`, and that `message` encodes to them.
#[track_caller]
fn assert_wire<M: Message + PartialEq + Default + Debug>(wire: &[u8], message: &M) {
    assert_eq!(&M::decode(wire).unwrap(), message);
    assert_eq!(message.encode_to_vec(), wire);
}

fn header() -> (Vec<u8>, ResponseHeader) {
    let wire = [varint(1, 11), varint(2, 12), varint(3, 13), varint(4, 14)].concat();
    let message = ResponseHeader {
        cluster_id: 11,
        member_id: 12,
        revision: 13,
        raft_term: 14,
    };
    (wire, message)
}

#[test]
fn key_value_wire_encoding() {
    let wire = [
        block(1, b"key"),
        varint(2, 2),
        varint(3, 5),
        varint(4, 3),
        block(5, b"value"),
        varint(6, 7),
    ]
    .concat();
    let message = KeyValue {
        key: "key".into(),
        create_revision: 2,
        mod_revision: 5,
        version: 3,
        value: "value".into(),
        lease: 7,
    };
    assert_wire(&wire, &message);
}

#[test]
fn kubernetes_delete_txn_wire_encoding() {
    let compare = [varint(2, 2), block(3, b"a"), varint(6, 9)].concat();
    let delete = block(3, &block(1, b"a"));
    let range_end_is_field_64 = [vec![0x82, 0x04, 1], b"b".to_vec()].concat();
    let wire = [
        block(1, &[compare, range_end_is_field_64].concat()),
        block(2, &delete),
        block(3, &block(2, &[block(1, b"c"), varint(6, 1)].concat())),
    ]
    .concat();
    let message = TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: "a".into(),
            target_union: Some(TargetUnion::ModRevision(9)),
            range_end: "b".into(),
        }],
        success: vec![RequestOp {
            request: Some(Request::RequestDeleteRange(DeleteRangeRequest {
                key: "a".into(),
                ..Default::default()
            })),
        }],
        failure: vec![RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: "c".into(),
                ignore_lease: true,
                ..Default::default()
            })),
        }],
    };
    assert_wire(&wire, &message);
}

#[test]
fn watch_create_request_wire_encoding() {
    let create = [
        block(1, b"/registry/pods/"),
        block(2, b"/registry/pods0"),
        varint(3, 42),
        varint(4, 1),
        varint(6, 1),
    ]
    .concat();
    let message = WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(WatchCreateRequest {
            key: "/registry/pods/".into(),
            range_end: "/registry/pods0".into(),
            start_revision: 42,
            progress_notify: true,
            prev_kv: true,
            ..Default::default()
        })),
    };
    assert_wire(&block(1, &create), &message);
}

#[test]
fn watch_response_wire_encoding() {
    let (header_wire, header) = header();
    let deleted = [
        varint(1, 1),
        block(2, &block(1, b"a")),
        block(3, &block(1, b"b")),
    ]
    .concat();
    let wire = [
        block(1, &header_wire),
        varint(2, 1),
        varint(4, 1),
        varint(5, 6),
        block(6, b"why"),
        block(11, &deleted),
    ]
    .concat();
    let kv = |key: &'static str| KeyValue {
        key: key.into(),
        ..Default::default()
    };
    let message = WatchResponse {
        header: Some(header),
        watch_id: 1,
        canceled: true,
        compact_revision: 6,
        cancel_reason: "why".into(),
        events: vec![Event {
            r#type: EventType::Delete.into(),
            kv: Some(kv("a")),
            prev_kv: Some(kv("b")),
        }],
        ..Default::default()
    };
    assert_wire(&wire, &message);
}

#[test]
fn status_response_wire_encoding() {
    let (header_wire, header) = header();
    let wire = [
        block(1, &header_wire),
        block(2, b"3.6.8"),
        varint(3, 3),
        varint(4, 4),
        varint(5, 5),
        varint(6, 6),
        varint(7, 7),
        block(8, b"broken"),
        varint(9, 9),
        varint(10, 1),
        block(11, b"3.6.0"),
        varint(12, 12),
    ]
    .concat();
    let message = StatusResponse {
        header: Some(header),
        version: "3.6.8".into(),
        db_size: 3,
        leader: 4,
        raft_index: 5,
        raft_term: 6,
        raft_applied_index: 7,
        errors: vec!["broken".into()],
        db_size_in_use: 9,
        is_learner: true,
        storage_version: "3.6.0".into(),
        db_size_quota: 12,
        downgrade_info: None,
    };
    assert_wire(&wire, &message);
}

#[test]
fn member_wire_encoding() {
    let wire = [
        varint(1, 1),
        block(2, b"name"),
        block(3, b"peer"),
        block(4, b"client"),
        varint(5, 1),
    ]
    .concat();
    let message = Member {
        id: 1,
        name: "name".into(),
        peer_urls: vec!["peer".into()],
        client_urls: vec!["client".into()],
        is_learner: true,
    };
    assert_wire(&wire, &message);
}

#[test]
fn decoded_values_are_not_copied() {
    let wire = Bytes::from(block(5, b"value"));
    let message = KeyValue::decode(wire.clone()).unwrap();
    assert_eq!(message.value.as_ptr(), wire[2..].as_ptr());
}
