//! Cost cases of CRDs, custom resources and CEL expressions.

use crate::case::{CostCase, LAST_REVISION, get, patch, post, put, string_items};
use optik_apiserver::ApiRequest;
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

fn defined(spec: &Value) -> Vec<ApiRequest> {
    vec![post(DEFINITIONS, &definition(spec.clone()))]
}

fn thing(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

fn properties(count: usize, of: &Value) -> Value {
    let members = string_items("p", count)
        .into_iter()
        .map(|name| (name, of.clone()));
    json!({"type": "object", "properties": members.collect::<Map<_, _>>()})
}

pub(crate) fn cases() -> Vec<CostCase> {
    let mut cases = definitions();
    cases.extend(objects());
    cases.extend(updates());
    cases.extend(policies());
    cases
}

fn versions(count: usize, change: impl Fn(usize, &mut Value)) -> Value {
    let mut of = definition(json!({"type": "object"}));
    let one = of["spec"]["versions"][0].clone();
    let version = |at: usize| {
        let mut version = one.clone();
        version["name"] = format!("v{}", at + 1).into();
        version["storage"] = (at == 0).into();
        change(at, &mut version);
        version
    };
    of["spec"]["versions"] = (0..count).map(version).collect();
    of
}

/// Alike up to the last member.
fn versions_that_differ(count: usize) -> Value {
    versions(count, |at, version| {
        let mut spec = properties(30, &json!({"type": "string"}));
        spec["properties"][format!("z{at}")] = json!({"type": "string"});
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
    })
}

fn deprecated_versions(count: usize) -> Value {
    versions(count, |at, version| {
        version["deprecated"] = (at % 2 == 0).into();
    })
}

/// The schema of the CRD is compiled during the request for its objects.
fn made(name: &str, items: usize, make: fn(usize) -> Value) -> CostCase {
    CostCase::new(format!("definition, made: {name}"), items, |_| get(THINGS))
        .with_setup(move |n| vec![post(DEFINITIONS, &make(n))])
        .during_setup()
}

fn definitions() -> Vec<CostCase> {
    let define = |name: &str, items, make: fn(usize) -> Value| {
        CostCase::new(format!("definition: {name}"), items, move |n| {
            post(&format!("{DEFINITIONS}?dryRun=All"), &make(n))
        })
    };
    vec![
        define("properties", 500, |n| {
            definition(properties(n, &json!({"type": "string"})))
        }),
        define("properties with defaults", 500, |n| {
            definition(properties(n, &json!({"type": "string", "default": "x"})))
        }),
        define("properties of wrong types", 500, |n| {
            definition(properties(n, &json!({"type": "nonsense"})))
        }),
        define("lists", 500, |n| {
            definition(properties(
                n,
                &json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            ))
        }),
        define("required members", 1_000, |n| {
            let mut of = properties(n, &json!({"type": "string"}));
            of["required"] = string_items("p", n).into();
            definition(of)
        }),
        define("an enumeration", 2_000, |n| {
            definition(json!({"type": "string", "enum": string_items("e", n)}))
        }),
        define("an enumeration of one value", 2_000, |n| {
            definition(json!({"type": "string", "enum": vec!["e"; n]}))
        }),
        define("a default", 2_000, |n| {
            definition(
                json!({"type": "array", "items": {"type": "string"}, "default": string_items("d", n)}),
            )
        }),
        define("an example", 2_000, |n| {
            definition(
                json!({"type": "array", "items": {"type": "string"}, "example": string_items("d", n)}),
            )
        }),
        define("a pattern", 200, |n| {
            definition(json!({"type": "string", "pattern": "(a|b)?".repeat(n)}))
        }),
        define("patterns", 100, |n| {
            definition(properties(
                n,
                &json!({"type": "string", "pattern": "^[a-z]{1,50}$"}),
            ))
        }),
        define("alternatives", 300, |n| {
            let mut of = properties(n, &json!({"type": "string"}));
            of["anyOf"] = string_items("p", n)
                .iter()
                .map(|name| json!({"required": [name]}))
                .collect();
            definition(of)
        }),
        define("keys of a list", 300, |n| {
            let mut items = properties(n, &json!({"type": "string"}));
            items["required"] = string_items("p", n).into();
            definition(
                json!({"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": string_items("p", n)}),
            )
        }),
        define("rules", 100, |n| {
            let rules: Value = (0..n)
                .map(|at| json!({"rule": format!("self.size() < {}", at + 5)}))
                .collect();
            definition(
                json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": rules}),
            )
        }),
        define("a long rule", 100, |n| {
            let rule = vec!["self.size() < 5"; n].join(" && ");
            definition(
                json!({"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]}),
            )
        }),
        define("a rule about many members", 100, |n| {
            let rule: Vec<String> = string_items("has(self.p", n)
                .iter()
                .map(|it| format!("{it})"))
                .collect();
            let mut of = properties(n, &json!({"type": "string", "maxLength": 5}));
            of["x-kubernetes-validations"] = json!([{"rule": rule.join(" && ")}]);
            definition(of)
        }),
        define("versions", 100, |n| versions(n, |_, _| {})),
        define("versions that differ", 100, versions_that_differ),
        define("deprecated versions", 400, deprecated_versions),
        CostCase::new("definition, updated: versions that differ", 100, |n| {
            let mut of = versions_that_differ(n);
            of["metadata"]["resourceVersion"] = LAST_REVISION.into();
            let last = &mut of["spec"]["versions"][n - 1]["schema"]["openAPIV3Schema"];
            last["properties"]["spec"]["properties"]["p0"] = json!({"type": "integer"});
            put(&format!("{DEFINITIONS}/things.example.com?dryRun=All"), &of)
        })
        .with_setup(|n| vec![post(DEFINITIONS, &versions_that_differ(n))])
        .during_setup(),
        CostCase::new(
            "definition, updated: none of the versions was stored",
            1_000,
            |n| {
                let mut of = versions(n, |_, version| version["storage"] = true.into());
                of["spec"]["versions"].as_array_mut().unwrap().remove(0);
                of["metadata"]["resourceVersion"] = LAST_REVISION.into();
                put(&format!("{DEFINITIONS}/things.example.com?dryRun=All"), &of)
            },
        )
        .with_setup(|n| {
            let of = versions(1, |_, _| {});
            let mut told = of.clone();
            told["metadata"]["resourceVersion"] = LAST_REVISION.into();
            told["status"] = json!({"storedVersions": vec!["v1"; n]});
            let status = put(&format!("{DEFINITIONS}/things.example.com/status"), &told);
            vec![post(DEFINITIONS, &of), status]
        })
        .during_setup(),
        made("versions that differ", 100, versions_that_differ),
        made("deprecated versions", 400, deprecated_versions),
        define("columns", 500, |n| {
            let mut of = definition(json!({"type": "object"}));
            of["spec"]["versions"][0]["additionalPrinterColumns"] = string_items("c", n)
                .iter()
                .map(|name| json!({"name": name, "type": "string", "jsonPath": ".spec"}))
                .collect();
            of
        }),
        define("a long path of a column", 2_000, |n| {
            let mut of = definition(json!({"type": "object"}));
            of["spec"]["versions"][0]["additionalPrinterColumns"] =
                json!([{"name": "a", "type": "string", "jsonPath": ".a".repeat(n)}]);
            of
        }),
        define("selectable fields", 200, |n| {
            let mut of = definition(properties(n, &json!({"type": "string"})));
            of["spec"]["versions"][0]["selectableFields"] = string_items(".spec.p", n)
                .iter()
                .map(|path| json!({"jsonPath": path}))
                .collect();
            of
        }),
        define("short names", 1_000, |n| {
            let mut of = definition(json!({"type": "object"}));
            of["spec"]["names"]["shortNames"] = string_items("s", n).into();
            of["spec"]["names"]["categories"] = string_items("c", n).into();
            of
        }),
        define("depth", 20, |n| {
            let mut of = json!({"type": "string"});
            (0..n).for_each(|_| of = json!({"type": "object", "properties": {"a": of}}));
            definition(of)
        }),
    ]
}

fn list(kind: &str, items: Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": kind})
}

/// A list of items `v`, each known by its `k`.
fn by_key(of: &Value) -> Value {
    let properties = json!({"k": {"type": "string"}, "v": of});
    let item = json!({"type": "object", "properties": properties, "required": ["k"]});
    let mut list = list("map", item);
    list["x-kubernetes-list-map-keys"] = json!(["k"]);
    list
}

fn keyed(count: usize, value: impl Fn(usize) -> Value) -> Vec<Value> {
    let keys = string_items("i", count).into_iter().enumerate();
    keys.map(|(at, k)| json!({"k": k, "v": value(at)}))
        .collect()
}

fn named(count: usize) -> Value {
    let members = string_items("k", count)
        .into_iter()
        .map(|k| (k, "v".into()));
    Value::Object(members.collect())
}

fn objects() -> Vec<CostCase> {
    let text = json!({"type": "string"});
    let of = |name: &str, items: usize, spec: Value, make: fn(usize) -> Value| {
        let with = spec.clone();
        let create = CostCase::new(format!("object: {name}"), items, move |n| {
            post(&format!("{THINGS}?dryRun=All"), &thing(make(n)))
        })
        .with_setup(move |_| defined(&with));
        let apply = CostCase::new(
            format!("object, applied over another: {name}"),
            items,
            move |n| patch("apply", &format!("{THINGS}/a"), &thing(make(n))),
        )
        .with_setup(move |n| {
            let mut before = defined(&spec);
            before.push(post(THINGS, &thing(make(n / 2))));
            before
        });
        [create, apply]
    };
    let bounded =
        json!({"type": "array", "maxItems": 100_000, "items": {"type": "string", "maxLength": 8}});
    let with_rule = |rule: &str| {
        let mut of = bounded.clone();
        of["x-kubernetes-validations"] = json!([{"rule": rule}]);
        of
    };
    [
        of("a set", 1_000, list("set", text.clone()), |n| {
            string_items("i", n).into()
        }),
        of("a list by key", 3_000, by_key(&text), |n| {
            keyed(n, |_| "x".into()).into()
        }),
        of(
            "a list of wrong items",
            1_000,
            json!({"type": "array", "items": {"type": "integer"}}),
            |n| string_items("i", n).into(),
        ),
        of("an atomic list", 1_000, list("atomic", text.clone()), |n| {
            string_items("i", n).into()
        }),
        of(
            "a map",
            1_000,
            json!({"type": "object", "additionalProperties": text}),
            named,
        ),
        of("pruned members", 1_000, json!({"type": "object"}), named),
        of(
            "kept members",
            1_000,
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            |n| {
                Value::Object(
                    string_items("k", n)
                        .into_iter()
                        .map(|k| (k, json!([{"a": 1}])))
                        .collect(),
                )
            },
        ),
        of(
            "unique items",
            1_000,
            json!({"type": "array", "uniqueItems": false, "items": text}),
            |n| string_items("i", n).into(),
        ),
        of(
            "a rule about all",
            1_000,
            with_rule("self.all(x, x != 'nobody')"),
            |n| string_items("i", n).into(),
        ),
        of(
            "a rule that concatenates",
            200,
            with_rule("self.map(x, x + x).size() >= 0"),
            |n| string_items("i", n).into(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What is there is replaced by something like it.
fn updates() -> Vec<CostCase> {
    let text = json!({"type": "string"});
    let number = json!({"type": "integer"});
    let kept = |n| Value::from(keyed(n, |_| "x".into()));
    let numbered = |n| Value::from(keyed(n, Value::from));
    vec![
        update(
            "a list by key, changed a little",
            3_000,
            &by_key(&text),
            kept,
            |n| keyed(n, |at| if at == 0 { "y" } else { "x" }.into()).into(),
        ),
        update(
            "a list by key, the other way round",
            3_000,
            &by_key(&text),
            kept,
            |n| {
                let mut items = keyed(n, |_| "x".into());
                items.reverse();
                items.into()
            },
        ),
        update(
            "a list by key, all of it wrong",
            3_000,
            &by_key(&number),
            numbered,
            |n| keyed(n, |_| "x".into()).into(),
        ),
        update(
            "a list by key, the last of it wrong",
            3_000,
            &by_key(&number),
            numbered,
            |n| keyed(n, |at| if at + 1 == n { "x".into() } else { at.into() }).into(),
        ),
        update("a list of one key", 3_000, &by_key(&text), kept, |n| {
            vec![json!({"k": "i0", "v": "x"}); n].into()
        }),
        update(
            "lists by key in a list by key",
            300,
            &by_key(&by_key(&number)),
            |n| keyed(10, |_| keyed(n, Value::from).into()).into(),
            |n| {
                let mut items = keyed(n, Value::from);
                items.reverse();
                let mut lists = keyed(10, |_| items.clone().into());
                lists[9]["v"][n - 1]["v"] = "x".into();
                lists.reverse();
                lists.into()
            },
        ),
        // An item that breaks the rule is forgiven if the list is as it was.
        update(
            "a set of which half breaks a rule",
            8_000,
            &{
                let rule = json!([{"rule": "self.startsWith('i')"}]);
                let item =
                    json!({"type": "string", "maxLength": 8, "x-kubernetes-validations": rule});
                let mut of = list("set", item);
                of["maxItems"] = 100_000.into();
                of
            },
            |n| string_items("i", n).into(),
            |n| {
                [string_items("i", n / 2), string_items("j", n / 2)]
                    .concat()
                    .into()
            },
        ),
        deep(),
    ]
}

/// An invalid value at the greatest depth, beside an unchanged map.
fn deep() -> CostCase {
    let bottom = |n: usize, z: Value| json!({"a": named(100 * n), "z": z});
    let nested = |n: usize, mut of: Value, around: fn(Value) -> Value| {
        (0..n).for_each(|_| of = around(of.take()));
        of
    };
    let values = move |n, z| nested(n, bottom(n, z), |of| json!({"b": of}));
    let schema = move |n| {
        let bottom = json!({"type": "object", "properties": {
            "a": {"type": "object", "additionalProperties": {"type": "string"}}, "z": {"type": "integer"}}});
        nested(
            n,
            bottom,
            |of| json!({"type": "object", "properties": {"b": of}}),
        )
    };
    CostCase::new("object, updated: something deep is wrong", 50, move |n| {
        replace(values(n, "x".into()))
    })
    .with_setup(move |n| {
        let mut before = defined(&schema(n));
        before.push(post(THINGS, &thing(values(n, 1.into()))));
        before
    })
}

fn replace(spec: Value) -> ApiRequest {
    let mut object = thing(spec);
    object["metadata"]["resourceVersion"] = LAST_REVISION.into();
    put(&format!("{THINGS}/a?dryRun=All"), &object)
}

fn update(
    name: &str,
    items: usize,
    spec: &Value,
    old: fn(usize) -> Value,
    new: fn(usize) -> Value,
) -> CostCase {
    let spec = spec.clone();
    CostCase::new(format!("object, updated: {name}"), items, move |n| {
        replace(new(n))
    })
    .with_setup(move |n| {
        let mut before = defined(&spec);
        before.push(post(THINGS, &thing(old(n))));
        before
    })
}

fn policies() -> Vec<CostCase> {
    let policy = |spec: Value| {
        let mut spec = spec;
        spec["matchConstraints"] = json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]});
        post(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All",
            &json!({"metadata": {"name": "p"}, "spec": spec}),
        )
    };
    vec![
        CostCase::new("policy: validations", 100, move |n| {
            let all: Vec<Value> = (0..n)
                .map(|at| json!({"expression": format!("object.metadata.name.size() < {at}")}))
                .collect();
            policy(json!({"validations": all}))
        }),
        CostCase::new("policy: variables", 400, move |n| {
            let all: Vec<Value> = (0..n)
                .map(|at| json!({"name": format!("v{at}"), "expression": "object.metadata.name"}))
                .collect();
            policy(json!({"variables": all, "validations": [{"expression": "true"}]}))
        }),
        CostCase::new("policy: variables of variables", 50, move |n| {
            let one = |at: usize| match at {
                0 => "'a'".to_owned(),
                _ => format!("variables.v{} + variables.v{}", at - 1, at - 1),
            };
            let all: Vec<Value> = (0..n)
                .map(|at| json!({"name": format!("v{at}"), "expression": one(at)}))
                .collect();
            policy(json!({"variables": all, "validations": [{"expression": "true"}]}))
        }),
        CostCase::new("policy: one long expression", 100, move |n| {
            policy(
                json!({"validations": [{"expression": vec!["object.metadata.name != 'x'"; n].join(" || ")}]}),
            )
        }),
        CostCase::new("policy: broken expressions", 200, move |n| {
            policy(json!({"validations": vec![json!({"expression": "a.b.("}); n]}))
        }),
        CostCase::new("policy: brackets", 100, move |n| {
            policy(json!({"validations": [{"expression": "(".repeat(n)}]}))
        }),
        CostCase::new("policy: annotations", 800, move |n| {
            let all: Vec<Value> = (0..n)
                .map(|at| json!({"key": format!("k{at}"), "valueExpression": "'x'"}))
                .collect();
            policy(json!({"auditAnnotations": all}))
        }),
    ]
}
