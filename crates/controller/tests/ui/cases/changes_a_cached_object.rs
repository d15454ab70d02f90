use k8s_openapi::api::core::v1::ConfigMap;
use optik_controller::Cached;

fn corrupt(mut map: Cached<ConfigMap>) {
    map.data = None;
}

fn main() {}
