use k8s_openapi::api::core::v1::ConfigMap;
use optik_controller::Snap;

fn corrupt(mut map: Snap<ConfigMap>) {
    map.data = None;
}

fn main() {}
