//! Fuzz target: any bytes decode as protobuf or are rejected; a decoded object can be encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let messages = optik_catalog::messages();
    if let Ok(decoded) = messages.decode_with_default_type(bytes, "v1", "Pod") {
        let _ = messages.encode(&decoded.value, &decoded.api_version, &decoded.kind);
    }
});
