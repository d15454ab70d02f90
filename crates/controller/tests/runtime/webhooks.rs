//! Admission and conversion, over TLS.
