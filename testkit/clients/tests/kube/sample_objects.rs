//! Sample objects of a few kinds.

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, Namespace, Pod, PodSpec, PodTemplateSpec, Secret,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

fn metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    crate::churn::config_map(name, "a value")
}

pub(crate) fn secret(name: &str) -> Secret {
    let value = ByteString(b"\0\xff".to_vec());
    Secret {
        metadata: metadata(name),
        data: Some(BTreeMap::from([("key".to_owned(), value)])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn pod_spec() -> PodSpec {
    PodSpec {
        containers: vec![Container {
            name: "main".to_owned(),
            image: Some("example.com/image:1".to_owned()),
            ..Container::default()
        }],
        ..PodSpec::default()
    }
}

pub(crate) fn pod(name: &str) -> Pod {
    Pod {
        metadata: metadata(name),
        spec: Some(pod_spec()),
        ..Pod::default()
    }
}

pub(crate) fn deployment(name: &str) -> Deployment {
    let labels = BTreeMap::from([("app".to_owned(), name.to_owned())]);
    Deployment {
        metadata: metadata(name),
        spec: Some(DeploymentSpec {
            replicas: Some(2),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec()),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

pub(crate) fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: metadata(name),
        ..Namespace::default()
    }
}
