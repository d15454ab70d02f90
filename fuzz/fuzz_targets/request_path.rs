//! Any path is read, and says where it stays: no name reaches a key as more than one
//! part of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_apiserver::{Route, route};

fuzz_target!(|path: &str| {
    if let Route::Objects(target) = route(path) {
        // A namespace may be left out; that is all of them, and no part of a key.
        let namespace = target.namespace.filter(|namespace| !namespace.is_empty());
        let parts = [
            Some(target.plural),
            namespace,
            target.name,
            target.subresource,
        ];
        for part in parts.into_iter().flatten() {
            assert!(!part.contains('/') && !part.is_empty(), "{path:?}");
        }
    }
});
