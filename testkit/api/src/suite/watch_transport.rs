//! Transport of watches (CONC §4.4).

use crate::check::checks;
use crate::client::query;
use crate::failure::{ensure, same, same_json};
use crate::object::with;
use crate::protobuf;
use crate::websocket::{self, Socket};
use crate::{Failure, Outcome, Request, Scope};
use bytes::BytesMut;
use serde_json::{Value, json};

checks! { watch_transport:
    ["CONC-100", "WIRE-41"] json_watch_is_newline_delimited [],
    ["CONC-100", "WIRE-40"] protobuf_watch_is_length_prefixed [Protobuf],
    ["CONC-100"] watch_as_yaml_is_rejected [],
    ["CONC-100", "WIRE-39"] yaml_watch_error_is_encoded_as_yaml [Yaml],
    ["CONC-101", "WIRE-44"] table_watch_sends_column_definitions_once [Table],
    [] partial_object_metadata_can_be_watched [Metadata],
    ["CONC-102"] websocket_watch_without_origin_gets_403 [WebSocket],
    ["CONC-102", "WIRE-42"] websocket_watch_sends_one_event_per_frame [WebSocket],
}

async fn json_watch_is_newline_delimited(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    for accept in ["application/json", "application/json;stream=watch", "*/*"] {
        let path = format!("{}?watch=true", scope.collection_path("configmaps"));
        let request = Request::get(path).accept(accept);
        let mut watch = scope.client.watch_as(request).await?;
        same("type", "application/json", watch.header("content-type"))?;
        same("encoding", "chunked", watch.header("transfer-encoding"))?;
        same("cache", "no-cache, private", watch.header("cache-control"))?;
        ensure!(!watch.header("audit-id").is_empty(), "no Audit-Id");
        let mut bytes = BytesMut::new();
        while bytes.iter().filter(|byte| **byte == b'\n').count() < 2 {
            let chunk = watch.chunk().await.map_err(Failure::new)?;
            bytes.extend_from_slice(&chunk.ok_or_else(|| Failure::new("ended"))?);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut lines = text.lines();
        for name in ["a", "b"] {
            let line = lines.next().unwrap_or_default();
            let start = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","#;
            ensure!(line.starts_with(start), "not compact or ordered: {line}");
            let event: Value = serde_json::from_str(line).unwrap_or_default();
            same_json("name", &json!(name), &event["object"]["metadata"]["name"])?;
        }
    }
    Ok(())
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn protobuf_watch_is_length_prefixed(scope: Scope) -> Outcome {
    scope.make_several(&["a", "b"]).await?;
    let path = format!("{}?watch=true", scope.collection_path("configmaps"));
    let request = Request::get(path).accept(PROTOBUF);
    let mut watch = scope.client.watch_as(request).await?;
    let expected = format!("{PROTOBUF};stream=watch");
    same("type", expected.as_str(), watch.header("content-type"))?;
    let mut bytes = BytesMut::new();
    for name in ["a", "b"] {
        let frame = loop {
            if let Some(frame) = split_frame(&mut bytes) {
                break frame;
            }
            let chunk = watch.chunk().await.map_err(Failure::new)?;
            bytes.extend_from_slice(&chunk.ok_or_else(|| Failure::new("ended"))?);
        };
        is_added(&frame, name)?;
    }
    Ok(())
}

/// Four bytes of length, most significant first, and as many bytes.
fn split_frame(bytes: &mut BytesMut) -> Option<BytesMut> {
    let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    let end = 4 + usize::try_from(length).ok()?;
    if bytes.len() < end {
        return None;
    }
    let mut frame = bytes.split_to(end);
    Some(frame.split_off(4))
}

/// The event has no prefix, the object in it has one.
fn is_added(event: &[u8], name: &str) -> Outcome {
    same("type", b"ADDED".as_slice(), protobuf::field(event, 1)?)?;
    let raw = protobuf::field(protobuf::field(event, 2)?, 1)?;
    let unknown = raw.strip_prefix(protobuf::MAGIC);
    let unknown = unknown.ok_or_else(|| Failure::new(format!("no prefix: {raw:02x?}")))?;
    let type_meta = protobuf::field(unknown, 1)?;
    same(
        "apiVersion",
        b"v1".as_slice(),
        protobuf::field(type_meta, 1)?,
    )?;
    same(
        "kind",
        b"ConfigMap".as_slice(),
        protobuf::field(type_meta, 2)?,
    )?;
    let object = protobuf::field(unknown, 2)?;
    let metadata = protobuf::field(object, 1)?;
    same("name", name.as_bytes(), protobuf::field(metadata, 1)?)
}

async fn watch_as_yaml_is_rejected(scope: Scope) -> Outcome {
    let path = format!(
        "{}?watch=true&timeoutSeconds=1",
        scope.collection_path("configmaps")
    );
    for accept in ["application/yaml", "application/cbor-seq", "text/plain"] {
        let answer = scope
            .client
            .execute(Request::get(&path).accept(accept))
            .await?;
        answer.has_status(406)?;
    }
    Ok(())
}

async fn yaml_watch_error_is_encoded_as_yaml(scope: Scope) -> Outcome {
    let path = format!(
        "{}?watch=true&timeoutSeconds=1",
        scope.collection_path("configmaps")
    );
    let request = Request::get(path).accept("application/yaml");
    let answer = scope.client.execute(request).await?;
    answer.has_status(406)?;
    same("type", "application/yaml", answer.header("content-type"))?;
    let text = "apiVersion: v1\ncode: 406\nkind: Status\nmessage: 'only the following media \
                types are accepted: application/json;stream=watch,\n  \
                application/vnd.kubernetes.protobuf;stream=watch'\nmetadata: {}\n\
                reason: NotAcceptable\nstatus: Failure\n";
    same("body", text, answer.text().as_str())
}

async fn table_watch_sends_column_definitions_once(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let parameters = [("watch", "true"), ("allowWatchBookmarks", "true")];
    let path = query(&scope.collection_path("configmaps"), &parameters);
    let request = Request::get(path).accept("application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut watch = scope.client.watch_as(request).await?;
    for (at, object) in made.iter().enumerate() {
        let table = watch.expect("ADDED").await?.object;
        let columns = table["columnDefinitions"].as_array();
        same("headers", &(at == 0), &columns.is_some())?;
        same_json("type", &json!("Table"), &table["kind"])?;
        same_json("version", &json!("meta.k8s.io/v1"), &table["apiVersion"])?;
        let revision = &table["metadata"]["resourceVersion"];
        same_json("revision", &object["metadata"]["resourceVersion"], revision)?;
        let row = &table["rows"][0];
        same_json("cells", &object["metadata"]["name"], &row["cells"][0])?;
        same_json("object", &partial(object), &row["object"])?;
    }
    let bookmark = watch.expect("BOOKMARK").await?.object;
    ensure!(
        bookmark["columnDefinitions"].is_null() && bookmark["rows"].as_array().is_some(),
        "no table: {bookmark}"
    );
    let mark = &bookmark["rows"][0]["object"]["metadata"]["annotations"];
    same_json("mark", &json!({"k8s.io/initial-events-end": "true"}), mark)
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

async fn partial_object_metadata_can_be_watched(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let parameters = [("watch", "true"), ("allowWatchBookmarks", "true")];
    let path = query(&scope.collection_path("configmaps"), &parameters);
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut watch = scope
        .client
        .watch_as(Request::get(path).accept(accept))
        .await?;
    let event = watch.expect("ADDED").await?;
    same_json("object", &partial(&made), &event.object)?;
    let bookmark = watch.expect_end_of_initial().await?.object;
    same_json("kind", &json!("PartialObjectMetadata"), &bookmark["kind"])?;
    let changed = scope
        .replace("configmaps", &with(&made, "/data/k", "new"))
        .await?;
    let event = watch.expect("MODIFIED").await?;
    same_json("object", &partial(&changed), &event.object)
}

async fn websocket_watch_without_origin_gets_403(scope: Scope) -> Outcome {
    let path = format!("{}?watch=true", scope.collection_path("configmaps"));
    let answer = scope.client.execute(websocket::request(&path)).await?;
    answer.has_status(403)?;
    same("body", "", answer.text().as_str())
}

async fn websocket_watch_sends_one_event_per_frame(scope: Scope) -> Outcome {
    let made = scope.make_several(&["a", "b"]).await?;
    let parameters = [("watch", "true"), ("timeoutSeconds", "2")];
    let path = query(&scope.collection_path("configmaps"), &parameters);
    let mut socket = Socket::open(&scope.client, &path).await?;
    for object in &made {
        let frame = socket.frame().await?;
        same("opcode", &websocket::TEXT, &frame.opcode)?;
        ensure!(frame.payload.ends_with(b"}\n"), "no newline: {frame:?}");
        let event: Value = serde_json::from_slice(&frame.payload).unwrap_or_default();
        let expected = json!({"type": "ADDED", "object": object});
        same_json("event", &expected, &event)?;
    }
    let frame = socket.frame().await?;
    same("opcode", &websocket::CLOSE, &frame.opcode)?;
    same(
        "close code",
        &1000_u16.to_be_bytes()[..],
        &frame.payload[..2],
    )
}
