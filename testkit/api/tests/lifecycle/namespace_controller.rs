//! The namespace controller, and the default objects of every namespace.

use crate::fixture::{LifecycleFixture, config_map_path, maps};
use optik_server_testkit::AUTHORITY;
use serde_json::{Value, json};

fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_deletion_removes_all_content() {
    let world = LifecycleFixture::start().await;
    world.namespace("full").await;
    for number in 0..50 {
        world
            .config_map("full", &format!("m{number}"), json!([]))
            .await;
    }
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "nowhere",
        "containers": [{"name": "c", "image": "i"}]}});
    world.make("/api/v1/namespaces/full/pods", &pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let service = world
        .make("/api/v1/namespaces/full/services", &service)
        .await;
    world
        .client
        .delete(&namespace("full"))
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    world.wait_until_gone(&namespace("full")).await;
    // The cluster IP of the service is free again.
    let address = service["spec"]["clusterIP"].as_str().unwrap();
    let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
    assert!(world.get(&path).await.is_none());
}

/// A create during namespace termination is stored before the content is deleted, or rejected.
#[tokio::test(flavor = "multi_thread")]
async fn no_object_outlives_namespace_deletion() {
    let world = LifecycleFixture::start().await;
    for round in 0..10 {
        let place = format!("raced-{round}");
        world.namespace(&place).await;
        let writers = (0..8).map(|writer| {
            let (client, place) = (world.client.with_new_connections(), place.clone());
            tokio::spawn(async move {
                for number in 0.. {
                    let object = json!({"metadata": {"name": format!("m-{writer}-{number}")}});
                    let answer = client.post(&maps(&place), &object).await.unwrap();
                    if answer.status != 201 {
                        return answer.status;
                    }
                }
                201
            })
        });
        let writers: Vec<_> = writers.collect();
        let begun = |found: Option<&Value>| {
            let items = found.and_then(|list| list["items"].as_array());
            items.is_some_and(|items| items.len() > 8)
        };
        world.wait_until("a beginning", &maps(&place), begun).await;
        let deleted = world.client.delete(&namespace(&place)).await.unwrap();
        deleted.expect_json(200).unwrap();
        for writer in writers {
            let refused = writer.await.unwrap();
            assert!([403, 404].contains(&refused), "{refused}");
        }
        world.wait_until_gone(&namespace(&place)).await;
        assert_eq!(world.names(&maps(&place)).await, [""; 0]);
    }
}

/// EXT-91.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_conditions_report_remaining_content() {
    let world = LifecycleFixture::start().await;
    world.namespace("held").await;
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    world.make(&maps("held"), &object).await;
    world
        .client
        .delete(&namespace("held"))
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    let said = |found: Option<&Value>| {
        let found = found.expect("it is held");
        let conditions = found["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| {
            one["type"] == "NamespaceFinalizersRemaining"
                && one["status"] == "True"
                && one["message"]
                    == "Some content in the namespace has finalizers remaining: example.com/hold \
                        in 1 resource instances"
        })
    };
    world
        .wait_until("a condition", &namespace("held"), said)
        .await;
    let free = json!({"metadata": {"finalizers": []}});
    world.patch(&config_map_path("held", "a"), free).await;
    world.wait_until_gone(&namespace("held")).await;
}

/// EXT-92.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_finalize_removes_namespace_with_content_left() {
    let world = LifecycleFixture::start().await;
    world.namespace("ended").await;
    let object = json!({"metadata": {"name": "a", "finalizers": ["example.com/hold"]}});
    world.make(&maps("ended"), &object).await;
    let deleted = world.client.delete(&namespace("ended")).await.unwrap();
    let mut dying = deleted.expect_json(200).unwrap();
    dying["spec"]["finalizers"] = json!([]);
    dying["metadata"]["resourceVersion"] = Value::Null;
    let path = format!("{}/finalize", namespace("ended"));
    world
        .client
        .put(&path, &dying)
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    world.wait_until_gone(&namespace("ended")).await;
}

/// EXT-93.
#[tokio::test(flavor = "multi_thread")]
async fn namespace_gets_default_service_account_and_root_ca() {
    let world = LifecycleFixture::start().await;
    world.namespace("new").await;
    let account = "/api/v1/namespaces/new/serviceaccounts/default";
    let certificate = config_map_path("new", "kube-root-ca.crt");
    for _ in 0..2 {
        let there = |found: Option<&Value>| found.is_some();
        world.wait_until("an account", account, there).await;
        world.wait_until("a certificate", &certificate, there).await;
        let object = world.get(&certificate).await.unwrap();
        assert_eq!(object["data"]["ca.crt"], AUTHORITY);
        // A deleted default object is recreated.
        world
            .client
            .delete(account)
            .await
            .unwrap()
            .expect_json(200)
            .unwrap();
        world
            .client
            .delete(&certificate)
            .await
            .unwrap()
            .expect_json(200)
            .unwrap();
    }
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let there = |found: Option<&Value>| found.is_some();
    world.wait_until("an account", account, there).await;
    let pod = world.make("/api/v1/namespaces/new/pods", &pod).await;
    assert_eq!(pod["spec"]["serviceAccountName"], "default");
    let mounts = &pod["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(
        mounts[0]["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn resource_quota_usage_is_maintained() {
    let world = LifecycleFixture::start().await;
    world.namespace("small").await;
    let quota = json!({"metadata": {"name": "rq"}, "spec": {"hard": {
        "configmaps": "3", "count/secrets": "1", "requests.cpu": "1",
    }}});
    let quotas = "/api/v1/namespaces/small/resourcequotas";
    world.make(quotas, &quota).await;
    // The certificate that every namespace has counts, too.
    let counted = |used: &'static str| {
        move |found: Option<&Value>| {
            found.is_some_and(|quota| quota["status"]["used"]["configmaps"] == used)
        }
    };
    let path = format!("{quotas}/rq");
    world.wait_until("a count", &path, counted("1")).await;
    world.config_map("small", "a", json!([])).await;
    world.config_map("small", "b", json!([])).await;
    let third = json!({"metadata": {"name": "c"}});
    let refused = world.client.post(&maps("small"), &third).await.unwrap();
    let status = refused.json().unwrap();
    assert_eq!(
        status["message"],
        "configmaps \"c\" is forbidden: exceeded quota: rq, requested: configmaps=1, used: \
         configmaps=3, limited: configmaps=3"
    );
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = world
        .client
        .post("/api/v1/namespaces/small/pods", &pod)
        .await;
    assert_eq!(
        refused.unwrap().json().unwrap()["message"],
        "pods \"p\" is forbidden: failed quota: rq: must specify requests.cpu for: c"
    );
    world
        .client
        .delete(&config_map_path("small", "a"))
        .await
        .unwrap()
        .expect_json(200)
        .unwrap();
    world
        .wait_until("a smaller count", &path, counted("2"))
        .await;
    world.config_map("small", "c", json!([])).await;
}
