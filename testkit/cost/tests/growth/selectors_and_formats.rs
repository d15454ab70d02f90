//! Cost cases of selectors, and of other representations of a response.

use crate::case::{CostCase, get, post, string_items, typed};
use serde_json::{Map, Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn data(count: usize) -> Value {
    let members = string_items("k", count)
        .into_iter()
        .map(|key| (key, "v".into()));
    json!({"metadata": {"name": "a", "labels": {"l": "v1"}}, "data": members.collect::<Map<_, _>>()})
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

pub(crate) fn cases() -> Vec<CostCase> {
    let few = |n: usize| {
        (0..n.min(100))
            .map(|at| {
                let mut object = data(1);
                object["metadata"]["name"] = format!("a{at}").into();
                post(MAPS, &object)
            })
            .collect::<Vec<_>>()
    };
    let mut cases = vec![
        CostCase::new("labels: one of many values", 2_000, |n| {
            get(&format!(
                "{MAPS}?labelSelector=l%20in%20({})",
                string_items("v", n).join(",")
            ))
        })
        .with_setup(few),
        CostCase::new("labels: many requirements", 2_000, |n| {
            get(&format!(
                "{MAPS}?labelSelector={}",
                string_items("!k", n).join(",")
            ))
        })
        .with_setup(few),
        CostCase::new("labels: the same requirement", 2_000, |n| {
            get(&format!(
                "{MAPS}?labelSelector={}",
                vec!["l=v1"; n].join(",")
            ))
        })
        .with_setup(few),
        CostCase::new("labels: an error at the end", 2_000, |n| {
            get(&format!(
                "{MAPS}?labelSelector={},(",
                string_items("k", n).join(",")
            ))
        }),
        CostCase::new("labels: bad values", 2_000, |n| {
            get(&format!(
                "{MAPS}?labelSelector=l%20in%20({})",
                string_items("-", n).join(",")
            ))
        }),
        CostCase::new("fields: many", 2_000, |n| {
            get(&format!(
                "{MAPS}?fieldSelector={}",
                string_items("metadata.name!=x", n).join(",")
            ))
        })
        .with_setup(few),
        CostCase::new("fields: escapes", 20_000, |n| {
            get(&format!(
                "{MAPS}?fieldSelector=metadata.name={}",
                "%5C%5C".repeat(n)
            ))
        }),
        CostCase::new("many parameters", 5_000, |n| {
            get(&format!(
                "{MAPS}?{}",
                string_items("limit=1&x", n).join("&")
            ))
        }),
        CostCase::new("a long continue", 20_000, |n| {
            get(&format!("{MAPS}?continue={}", "YQ".repeat(n)))
        }),
        CostCase::new("a long path", 20_000, |n| get(&"/a".repeat(n))),
    ];
    for (name, accept) in [
        ("table", TABLE),
        ("metadata", PARTIAL),
        ("protobuf", "application/vnd.kubernetes.protobuf"),
        ("yaml", "application/yaml"),
        ("json", "application/json"),
    ] {
        let place = format!("{MAPS}/a");
        cases.push(
            CostCase::new(format!("one as {name}"), 3_000, move |_| {
                typed(get(&place), "accept", accept)
            })
            .with_setup(|n| vec![post(MAPS, &data(n))]),
        );
        cases.push(
            CostCase::new(format!("all as {name}"), 3_000, move |_| {
                typed(get(MAPS), "accept", accept)
            })
            .with_setup(|n| vec![post(MAPS, &data(n))]),
        );
    }
    cases.push(CostCase::new("many forms", 2_000, |n| {
        let forms: Vec<String> = string_items("application/x", n);
        typed(get(&format!("{MAPS}/a")), "accept", &forms.join(", "))
    }));
    cases
}
