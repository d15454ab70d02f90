//! Cost cases of metadata, and of the encodings of bodies.

use crate::case::{CostCase, patch, post, put, request, string_items, typed};
use http::Method;
use optik_apiserver::ApiRequest;
use serde_json::{Map, Value, json};

const HERE: &str = "/api/v1/namespaces/default/configmaps";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn configmap(metadata: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object["metadata"]["name"] = "a".into();
    object
}

fn dry(object: &Value) -> ApiRequest {
    post(&format!("{HERE}?dryRun=All"), object)
}

fn map(of: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(of.collect::<Map<_, _>>())
}

fn owners(count: usize, uid: impl Fn(usize) -> usize) -> Value {
    let owner = |at| {
        json!({"apiVersion": "v1", "kind": "Pod", "name": format!("o{at}"),
               "uid": format!("u{}", uid(at))})
    };
    (0..count).map(owner).collect()
}

fn finalizers(from: usize, count: usize) -> Vec<String> {
    (from..from + count)
        .map(|at| format!("example.com/f{at}"))
        .collect()
}

/// A terminating object with this number of finalizers.
fn leaving(count: usize) -> Vec<ApiRequest> {
    vec![
        post(
            HERE,
            &configmap(json!({"finalizers": finalizers(0, count)})),
        ),
        request(&Method::DELETE, &format!("{HERE}/a"), ""),
    ]
}

fn data(count: usize) -> Value {
    let mut object = configmap(json!({}));
    object["data"] = map(string_items("k", count)
        .into_iter()
        .map(|key| (key, "v".into())));
    object
}

fn managers(count: usize, fields: usize) -> Value {
    let owned = map(string_items("f:k", fields)
        .into_iter()
        .map(|key| (key, json!({}))));
    let entry = |at: usize| {
        json!({"manager": format!("m{at}"), "operation": "Apply", "apiVersion": "v1",
               "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:data": owned}})
    };
    (0..count).map(entry).collect()
}

/// As many managers as fields, each of a field of its own.
fn owners_of_fields(operation: &str, count: usize) -> Value {
    let entry = |at: usize| {
        json!({"manager": format!("m{at}"), "operation": operation, "apiVersion": "v1",
               "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
               "fieldsV1": {"f:data": {format!("f:k{at}"): {}}}})
    };
    (0..count).map(entry).collect()
}

/// An object of so many fields, and of managers.
fn managed_by(fields: usize, managers: Value) -> Vec<ApiRequest> {
    let mut object = data(fields);
    let create = post(HERE, &object);
    object["metadata"]["managedFields"] = managers;
    vec![create, put(&format!("{HERE}/a"), &object)]
}

/// The managers are told by the request, which changes the first fields.
fn managed(
    name: &str,
    items: usize,
    operation: &'static str,
    changes: fn(usize) -> usize,
) -> CostCase {
    CostCase::new(name, items, move |n| {
        let mut object = data(n);
        for key in string_items("k", changes(n)) {
            object["data"][key] = "other".into();
        }
        object["metadata"]["managedFields"] = owners_of_fields(operation, n);
        put(&format!("{HERE}/a?dryRun=All"), &object)
    })
    .with_setup(|n| vec![post(HERE, &data(n))])
}

pub(crate) fn cases() -> Vec<CostCase> {
    let mut cases = vec![
        CostCase::new("owners that differ", 2_000, |n| {
            dry(&configmap(json!({"ownerReferences": owners(n, |at| at)})))
        }),
        CostCase::new("owners of one uid", 2_000, |n| {
            dry(&configmap(json!({"ownerReferences": owners(n, |_| 0)})))
        }),
        CostCase::new("owners that are controllers", 2_000, |n| {
            let mut all = owners(n, |at| at);
            all.as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|it| it["controller"] = true.into());
            dry(&configmap(json!({"ownerReferences": all})))
        }),
        CostCase::new("owners that are incomplete", 2_000, |n| {
            dry(&configmap(json!({"ownerReferences": vec![json!({}); n]})))
        }),
        CostCase::new("bad labels", 5_000, |n| {
            dry(&configmap(
                json!({"labels": map(string_items("-", n).into_iter().map(|k| (k, "-".into())))}),
            ))
        }),
        CostCase::new("good labels", 5_000, |n| {
            dry(&configmap(
                json!({"labels": map(string_items("k", n).into_iter().map(|k| (k, "v".into())))}),
            ))
        }),
        CostCase::new("bad annotations", 5_000, |n| {
            dry(&configmap(
                json!({"annotations": map(string_items("-", n).into_iter().map(|k| (k, "v".into())))}),
            ))
        }),
        CostCase::new("bad finalizers", 5_000, |n| {
            dry(&configmap(json!({"finalizers": string_items("-", n)})))
        }),
        CostCase::new("good finalizers", 5_000, |n| {
            dry(&configmap(json!({"finalizers": finalizers(0, n)})))
        }),
        CostCase::new("one long name", 100_000, |n| {
            dry(&configmap(json!({"name": "x".repeat(n)})))
        }),
        CostCase::new("one long label", 100_000, |n| {
            dry(&configmap(
                json!({"labels": {"x".repeat(n): "-".repeat(n)}}),
            ))
        }),
        CostCase::new("finalizers added to what goes away", 1_000, |n| {
            let sent = configmap(json!({"finalizers": finalizers(0, 2 * n)}));
            put(&format!("{HERE}/a?dryRun=All"), &sent)
        })
        .with_setup(leaving),
        CostCase::new("finalizers kept by what goes away", 2_000, |n| {
            put(
                &format!("{HERE}/a?dryRun=All"),
                &configmap(json!({"finalizers": finalizers(0, n)})),
            )
        })
        .with_setup(leaving),
        CostCase::new("managers, each of one field", 500, |n| {
            let mut object = data(1);
            object["metadata"]["managedFields"] = managers(n, 1);
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|_| vec![post(HERE, &data(1))]),
        CostCase::new("one manager of many fields", 2_000, |n| {
            let mut object = data(n);
            object["metadata"]["managedFields"] = managers(1, n);
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|n| vec![post(HERE, &data(n))]),
        managed("updaters that differ", 1_500, "Update", |_| 1),
        managed("updaters whose fields change", 1_500, "Update", |n| n),
        managed("appliers that differ", 1_500, "Apply", |_| 1),
        managed("appliers whose fields change", 1_500, "Apply", |n| n),
        CostCase::new("one manager, again and again", 1_500, |n| {
            let mut object = data(1);
            let entry = owners_of_fields("Update", 1)[0].clone();
            object["metadata"]["managedFields"] = vec![entry; n].into();
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|_| vec![post(HERE, &data(1))]),
        CostCase::new("an apply against appliers", 1_500, |n| {
            patch("apply", &format!("{HERE}/a"), &data(n))
        })
        .with_setup(|n| managed_by(n, owners_of_fields("Apply", n))),
        CostCase::new("an apply that takes what others own", 1_500, |n| {
            let mut object = data(n);
            for value in object["data"].as_object_mut().unwrap().values_mut() {
                *value = "other".into();
            }
            patch("apply", &format!("{HERE}/a"), &object)
        })
        .with_setup(|n| managed_by(n, owners_of_fields("Apply", n))),
        CostCase::new("an apply that leaves all to others", 1_500, |n| {
            let mut object = data(0);
            object["data"] = json!({format!("k{n}"): "v"});
            patch("apply", &format!("{HERE}/a"), &object)
        })
        .with_setup(|n| {
            let mut all = owners_of_fields("Apply", n);
            let mut last = managers(1, n)[0].clone();
            last["manager"] = "applier".into();
            all.as_array_mut().unwrap().push(last);
            managed_by(n, all)
        }),
        CostCase::new("a scaling of what appliers own", 1_500, |_| {
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": "a", "namespace": "default"}, "spec": {"replicas": 2}});
            put(&format!("{SETS}/a/scale?dryRun=All"), &scale)
        })
        .with_setup(|n| {
            let mut owners = owners_of_fields("Apply", n);
            for owner in owners.as_array_mut().unwrap() {
                owner["apiVersion"] = "apps/v1".into();
                owner["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
            }
            let labels = json!({"app": "a"});
            let mut set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {"name": "a"},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
            let create = post(SETS, &set);
            set["metadata"]["managedFields"] = owners;
            vec![create, put(&format!("{SETS}/a"), &set)]
        }),
        CostCase::new("one element, spelled in many ways", 1_500, |n| {
            let spaces = |at: usize| -> String {
                let bits = (0..13).map(|bit| if at >> bit & 1 == 0 { ' ' } else { '\t' });
                bits.collect()
            };
            let spelled = (0..n).map(|at| {
                (
                    format!("v:{}1", spaces(at)),
                    json!({format!("f:k{at}"): {}}),
                )
            });
            let mut entry = owners_of_fields("Update", 1);
            entry[0]["fieldsV1"] = json!({"f:data": map(spelled)});
            let mut object = data(1);
            object["metadata"]["managedFields"] = entry;
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|_| vec![post(HERE, &data(1))]),
        CostCase::new("managers that make no sense", 2_000, |n| {
            let mut object = data(1);
            object["metadata"]["managedFields"] =
                vec![json!({"manager": "x", "fieldsV1": {"f:a": 1}}); n].into();
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|_| vec![post(HERE, &data(1))]),
        CostCase::new("an update of many members", 2_000, |n| {
            let mut object = data(n);
            object["data"]["k0"] = "other".into();
            put(&format!("{HERE}/a?dryRun=All"), &object)
        })
        .with_setup(|n| vec![post(HERE, &data(n))]),
        CostCase::new("members given twice", 5_000, |n| {
            let twice: Vec<String> = (0..n)
                .map(|at| format!("\"k{at}\":\"v\",\"k{at}\":\"v\""))
                .collect();
            let body = format!(
                "{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{{}}}}}",
                twice.join(",")
            );
            request(
                &Method::POST,
                &format!("{HERE}?dryRun=All&fieldValidation=Strict"),
                body,
            )
        }),
        CostCase::new("members nobody knows", 5_000, |n| {
            let mut object = configmap(json!({}));
            string_items("unknown", n)
                .into_iter()
                .for_each(|key| object[key] = 1.into());
            post(
                &format!("{HERE}?dryRun=All&fieldValidation=Strict"),
                &object,
            )
        }),
        CostCase::new("members nobody knows, warned of", 5_000, |n| {
            let mut object = configmap(json!({}));
            string_items("unknown", n)
                .into_iter()
                .for_each(|key| object[key] = json!({"a": [1]}));
            dry(&object)
        }),
        CostCase::new("a deletion with many members", 5_000, |n| {
            let mut object =
                json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]});
            string_items("unknown", n)
                .into_iter()
                .for_each(|key| object[key] = 1.into());
            request(&Method::DELETE, &format!("{HERE}/a"), object.to_string())
        })
        .with_setup(|_| vec![post(HERE, &data(1))]),
        CostCase::new("dryRun, many times", 2_000, |n| {
            let values: Vec<String> = string_items("x", n)
                .iter()
                .map(|it| format!("dryRun={it}"))
                .collect();
            post(&format!("{HERE}?{}", values.join("&")), &data(1))
        }),
    ];
    cases.extend(written());
    for how in ["merge", "strategic-merge", "apply"] {
        cases.push(
            CostCase::new(format!("finalizers replaced by {how}"), 2_000, move |n| {
                let sent = configmap(json!({"finalizers": finalizers(n / 2, n)}));
                patch(how, &format!("{HERE}/a"), &sent)
            })
            .with_setup(|n| {
                vec![post(
                    HERE,
                    &configmap(json!({"finalizers": finalizers(0, n)})),
                )]
            }),
        );
        cases.push(
            CostCase::new(format!("owners merged by {how}"), 1_000, move |n| {
                patch(
                    how,
                    &format!("{HERE}/a"),
                    &configmap(json!({"ownerReferences": owners(n, |at| at + 7)})),
                )
            })
            .with_setup(|n| {
                vec![post(
                    HERE,
                    &configmap(json!({"ownerReferences": owners(n, |at| at)})),
                )]
            }),
        );
    }
    cases
}

/// The bodies in YAML and protobuf, and invalid ones.
fn written() -> Vec<CostCase> {
    let yaml = |body: String| {
        typed(
            request(&Method::POST, &format!("{HERE}?dryRun=All"), body),
            "content-type",
            "application/yaml",
        )
    };
    let proto = |body: Vec<u8>| {
        let request = request(&Method::POST, &format!("{HERE}?dryRun=All"), body);
        typed(
            request,
            "content-type",
            "application/vnd.kubernetes.protobuf",
        )
    };
    vec![
        CostCase::new("yaml: members", 3_000, move |n| {
            let lines: Vec<String> = string_items("k", n)
                .iter()
                .map(|key| format!("  {key}: v\n"))
                .collect();
            yaml(format!("metadata:\n  name: a\ndata:\n{}", lines.concat()))
        }),
        CostCase::new("yaml: a member given again and again", 3_000, move |n| {
            yaml(format!(
                "metadata:\n  name: a\ndata:\n{}",
                "  k: v\n".repeat(n)
            ))
        }),
        CostCase::new("yaml: one long text", 20_000, move |n| {
            yaml(format!(
                "metadata:\n  name: a\ndata:\n  k: |\n{}",
                "    text\n".repeat(n)
            ))
        }),
        CostCase::new("yaml: one folded text", 20_000, move |n| {
            yaml(format!(
                "metadata:\n  name: a\ndata:\n  k: >\n{}",
                "    text\n\n".repeat(n)
            ))
        }),
        CostCase::new("yaml: escapes", 20_000, move |n| {
            yaml(format!(
                "metadata:\n  name: a\ndata:\n  k: \"{}\"\n",
                "\\u00e4\\n".repeat(n)
            ))
        }),
        CostCase::new("yaml: anchors and aliases", 2_000, move |n| {
            let lines: Vec<String> = string_items("k", n)
                .iter()
                .map(|key| format!("  {key}: &{key} v\n  {key}x: *{key}\n"))
                .collect();
            yaml(format!("metadata:\n  name: a\ndata:\n{}", lines.concat()))
        }),
        CostCase::new("yaml: comments", 20_000, move |n| {
            yaml(format!("{}metadata: {{name: a}}\n", "# text\n".repeat(n)))
        }),
        CostCase::new("yaml: documents", 5_000, move |n| {
            yaml("---\na: b\n".repeat(n))
        }),
        CostCase::new("yaml: flow lists", 5_000, move |n| {
            yaml(format!(
                "metadata: {{name: a, finalizers: [{}]}}\n",
                "x/y, ".repeat(n)
            ))
        }),
        CostCase::new("yaml: open brackets", 2_000, move |n| yaml("[".repeat(n))),
        CostCase::new("yaml: indentation", 300, move |n| {
            yaml(
                (0..n)
                    .map(|at| format!("{}a:\n", " ".repeat(at % 400)))
                    .collect(),
            )
        }),
        CostCase::new("yaml: merge keys", 1_000, move |n| {
            yaml(format!(
                "a: &a {{x: y}}\nmetadata: {{name: a}}\ndata:\n{}",
                "  <<: *a\n".repeat(n)
            ))
        }),
        CostCase::new("json: open brackets", 50_000, |n| {
            request(&Method::POST, HERE, "[".repeat(n))
        }),
        CostCase::new("json: escapes", 20_000, |n| {
            request(
                &Method::POST,
                &format!("{HERE}?dryRun=All"),
                format!(
                    "{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"k\":\"{}\"}}}}",
                    "\\u00e4\\ud83d\\ude00".repeat(n)
                ),
            )
        }),
        CostCase::new("json: digits", 50_000, |n| {
            request(
                &Method::POST,
                HERE,
                format!("{{\"metadata\":{{\"generation\":{}}}}}", "9".repeat(n)),
            )
        }),
        CostCase::new("json: an error at the end", 20_000, |n| {
            request(&Method::POST, HERE, format!("{{\"a\":[{}", "1,".repeat(n)))
        }),
        CostCase::new("protobuf: repeated fields", 20_000, move |n| {
            proto([b"k8s\0".to_vec(), [0x0a, 0x00].repeat(n)].concat())
        }),
        CostCase::new("protobuf: unknown fields", 20_000, move |n| {
            proto([b"k8s\0".to_vec(), [0x78, 0x01].repeat(n)].concat())
        }),
        CostCase::new("protobuf: nested groups", 20_000, move |n| {
            proto([b"k8s\0".to_vec(), [0x0b].repeat(n)].concat())
        }),
        CostCase::new("protobuf: members", 3_000, move |n| {
            proto(protobuf_configmap(n))
        }),
        CostCase::new("neither", 50_000, |n| {
            request(&Method::POST, HERE, "\u{7f}".repeat(n))
        }),
    ]
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

fn protobuf_configmap(members: usize) -> Vec<u8> {
    let mut raw = field(1, &field(1, b"a"));
    for key in string_items("k", members) {
        raw.extend(field(
            2,
            &[field(1, key.as_bytes()), field(2, b"v")].concat(),
        ));
    }
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, &raw)].concat()
}
