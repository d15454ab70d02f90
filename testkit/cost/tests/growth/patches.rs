//! Cost cases of the four patch types, on objects with long lists.

use crate::case::{CostCase, patch, post, string_items};
use serde_json::{Map, Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = "/api/v1/namespaces/default/pods/a";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SERVICE: &str = "/api/v1/namespaces/default/services/a";

fn pod(container: Value, spec: Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec});
    let mut container = container;
    container["name"] = "c".into();
    container["image"] = "i".into();
    object["spec"]["containers"] = json!([container]);
    object
}

fn env(from: usize, count: usize) -> Value {
    (from..from + count)
        .map(|at| json!({"name": format!("E{at}"), "value": "v"}))
        .collect()
}

fn ports(from: usize, count: usize) -> Value {
    (from..from + count)
        .map(|at| json!({"name": format!("p{at}"), "port": at + 1, "protocol": "TCP"}))
        .collect()
}

fn service(ports: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
           "spec": {"clusterIP": "None", "ports": ports}})
}

fn tolerations(from: usize, count: usize) -> Value {
    (from..from + count)
        .map(|at| json!({"key": format!("k{at}"), "operator": "Exists", "effect": "NoExecute"}))
        .collect()
}

fn data(count: usize, value: &str) -> Value {
    let members = string_items("k", count)
        .into_iter()
        .map(|key| (key, value.into()));
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
           "data": members.collect::<Map<_, _>>()})
}

fn args(count: usize) -> Value {
    pod(json!({"args": string_items("a", count)}), json!({}))
}

/// A number of operations on a list of this length.
fn operations(name: &str, of: impl Fn(usize, usize) -> Value + 'static) -> CostCase {
    CostCase::new(format!("json: {name}"), 2_000, move |n| {
        let operations: Value = (0..n).map(|at| of(at, n)).collect();
        patch("json", POD, &operations)
    })
    .with_setup(|n| vec![post(PODS, &args(4 * n))])
}

pub(crate) fn cases() -> Vec<CostCase> {
    let list = "/spec/containers/0/args";
    let mut cases = vec![
        operations(
            "put in at the front",
            move |_, _| json!({"op": "add", "path": format!("{list}/0"), "value": "x"}),
        ),
        operations(
            "taken out at the front",
            move |_, _| json!({"op": "remove", "path": format!("{list}/0")}),
        ),
        operations(
            "put in in the middle",
            move |at, n| json!({"op": "add", "path": format!("{list}/{}", (at * 7919) % n), "value": "x"}),
        ),
        operations(
            "moved from the end to the front",
            move |_, _| json!({"op": "move", "from": format!("{list}/-1"), "path": format!("{list}/0")}),
        ),
        operations(
            "moved to and fro",
            move |_, _| json!({"op": "move", "from": list, "path": list}),
        ),
        operations(
            "copied",
            move |_, _| json!({"op": "copy", "from": format!("{list}/0"), "path": format!("{list}/-")}),
        ),
        operations(
            "replaced",
            move |at, _| json!({"op": "replace", "path": format!("{list}/{at}"), "value": "y"}),
        ),
        operations(
            "tested",
            move |at, _| json!({"op": "test", "path": format!("{list}/{at}"), "value": format!("a{at}")}),
        ),
        operations(
            "nobody knows",
            |at, _| json!({"op": "test", "path": "/kind", "value": "Pod", format!("x{at}"): 1}),
        ),
        operations(
            "labels",
            |at, _| json!({"op": "add", "path": format!("/metadata/annotations/k{at}"), "value": "v"}),
        ),
        CostCase::new("json: one long path", 50_000, |n| {
            patch(
                "json",
                MAP,
                &json!([{"op": "test", "path": "/a".repeat(n), "value": 1}]),
            )
        })
        .with_setup(|_| vec![post(MAPS, &data(1, "v"))]),
        CostCase::new("json: one large value", 20_000, |n| {
            patch(
                "json",
                MAP,
                &json!([{"op": "add", "path": "/data", "value": data(n, "v")["data"]}]),
            )
        })
        .with_setup(|_| vec![post(MAPS, &data(1, "v"))]),
    ];
    for how in ["merge", "strategic-merge", "apply"] {
        cases.extend(merges(how));
    }
    cases.extend(directives());
    cases
}

fn merges(how: &'static str) -> Vec<CostCase> {
    let case = |name: &str, items| (format!("{how}: {name}"), items);
    let new = |(name, items): (String, usize), make: fn(usize) -> Value, place: &'static str| {
        CostCase::new(name, items, move |n| patch(how, place, &make(n)))
    };
    vec![
        new(case("members", 2_000), |n| data(n, "other"), MAP)
            .with_setup(|n| vec![post(MAPS, &data(n, "v"))]),
        new(
            case("members of somebody else", 2_000),
            |n| data(n, "v"),
            MAP,
        )
        .with_setup(|n| vec![post(MAPS, &data(n, "v"))]),
        new(
            case("env", 1_000),
            |n| pod(json!({"env": env(n / 2, n)}), json!({})),
            POD,
        )
        .with_setup(|n| vec![post(PODS, &pod(json!({"env": env(0, n)}), json!({})))]),
        new(
            case("env of one name", 1_000),
            |n| pod(json!({"env": vec![json!({"name": "E0"}); n]}), json!({})),
            POD,
        )
        .with_setup(|n| vec![post(PODS, &pod(json!({"env": env(0, n)}), json!({})))]),
        new(
            case("tolerations", 1_000),
            |n| pod(json!({}), json!({"tolerations": tolerations(0, 2 * n)})),
            POD,
        )
        .with_setup(|n| {
            vec![post(
                PODS,
                &pod(json!({}), json!({"tolerations": tolerations(0, n)})),
            )]
        }),
        new(case("ports", 1_000), |n| service(ports(n / 2, n)), SERVICE)
            .with_setup(|n| vec![post(SERVICES, &service(ports(0, n)))]),
        new(
            case("args", 2_000),
            |n| pod(json!({"args": string_items("b", n)}), json!({})),
            POD,
        )
        .with_setup(|n| vec![post(PODS, &args(n))]),
        new(
            case("volumes", 1_000),
            |n| {
                let volumes: Value = string_items("v", n)
                    .iter()
                    .map(|name| json!({"name": name, "emptyDir": {}}))
                    .collect();
                pod(json!({}), json!({"volumes": volumes}))
            },
            POD,
        )
        .with_setup(|n| {
            let volumes: Value = string_items("v", n)
                .iter()
                .map(|name| json!({"name": name, "emptyDir": {}}))
                .collect();
            vec![post(PODS, &pod(json!({}), json!({"volumes": volumes})))]
        }),
        new(
            case("nobody knows", 2_000),
            |n| {
                let mut object = data(1, "v");
                string_items("unknown", n)
                    .into_iter()
                    .for_each(|key| object[key] = 1.into());
                object
            },
            MAP,
        )
        .with_setup(|_| vec![post(MAPS, &data(1, "v"))]),
        new(
            case("nulls", 2_000),
            |n| {
                let mut object = data(n, "v");
                object["data"]
                    .as_object_mut()
                    .unwrap()
                    .values_mut()
                    .for_each(|it| *it = Value::Null);
                object
            },
            MAP,
        )
        .with_setup(|n| vec![post(MAPS, &data(n, "v"))]),
    ]
}

/// Directives of strategic merge patches.
fn directives() -> Vec<CostCase> {
    let how = "strategic-merge";
    let on_env = |name: &str, items: usize, make: fn(usize) -> Value| {
        CostCase::new(format!("strategic: {name}"), items, move |n| {
            let body = json!({"spec": {"containers": [make(n)]}});
            patch(how, POD, &body)
        })
        .with_setup(|n| vec![post(PODS, &pod(json!({"env": env(0, n)}), json!({})))])
    };
    vec![
        on_env("items deleted", 1_000, |n| {
            let gone: Value = (0..n).map(|at| json!({"name": format!("E{at}"), "$patch": "delete"})).collect();
            json!({"name": "c", "env": gone})
        }),
        on_env("items that are not there deleted", 1_000, |n| {
            let gone: Value = (0..n).map(|at| json!({"name": format!("X{at}"), "$patch": "delete"})).collect();
            json!({"name": "c", "env": gone})
        }),
        on_env("items ordered", 1_000, |n| {
            let order: Value = (0..n).rev().map(|at| json!({"name": format!("E{at}")})).collect();
            json!({"name": "c", "$setElementOrder/env": order})
        }),
        on_env("items merged and ordered", 1_000, |n| {
            let order: Value = (0..2 * n).rev().map(|at| json!({"name": format!("E{at}")})).collect();
            json!({"name": "c", "$setElementOrder/env": order, "env": env(n, n)})
        }),
        on_env("items replaced", 1_000, |n| {
            let mut all = env(0, n);
            all.as_array_mut().unwrap().push(json!({"$patch": "replace"}));
            json!({"name": "c", "env": all})
        }),
        on_env("keys kept", 1_000, |n| json!({"name": "c", "$retainKeys": string_items("k", n)})),
        CostCase::new("strategic: values deleted", 2_000, move |n| {
            let gone: Vec<String> = string_items("example.com/f", n);
            patch(how, MAP, &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": gone}}))
        })
        .with_setup(|n| {
            let mut object = data(1, "v");
            object["metadata"]["finalizers"] = string_items("example.com/f", n).into();
            vec![post(MAPS, &object)]
        }),
        CostCase::new("strategic: values ordered", 2_000, move |n| {
            let mut order = string_items("example.com/f", n);
            order.reverse();
            patch(how, MAP, &json!({"metadata": {"$setElementOrder/finalizers": order, "finalizers": string_items("example.com/g", n)}}))
        })
        .with_setup(|n| {
            let mut object = data(1, "v");
            object["metadata"]["finalizers"] = string_items("example.com/f", n).into();
            vec![post(MAPS, &object)]
        }),
    ]
}
