//! The `Audit-Id` header, which identifies a request in the logs of client and server.

use http::{HeaderMap, HeaderName, HeaderValue};
use optik_object::uuid;
use optik_platform::Entropy;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longer ids of clients are replaced: the id is in every line of the audit log.
const CLIENT_ID_BYTES_MAX: usize = 64;

pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Generates ids for the requests of one connection.
///
/// The first half is random and fixed for the connection; the second half is a counter, spread over
/// all bits. So an id costs no system call, and two are equal only if two connections drew the same
/// number.
#[derive(Debug)]
pub(crate) struct AuditIds {
    connection: u64,
    next: AtomicU64,
}

impl AuditIds {
    pub(crate) fn new(entropy: &dyn Entropy) -> Self {
        Self {
            connection: entropy.next_u64(),
            next: AtomicU64::new(entropy.next_u64()),
        }
    }

    /// The client's id if it is valid, or a new one.
    pub(crate) fn for_request(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get(&AUDIT_ID).filter(|id| is_valid(id.as_bytes()));
        sent.cloned().unwrap_or_else(|| self.next_uuid())
    }

    /// A UUID of version 4.
    fn next_uuid(&self) -> HeaderValue {
        // Multiplication by an odd factor maps different numbers to different numbers.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let text = uuid(self.connection, count.wrapping_mul(SPREAD));
        let mut id = HeaderValue::from_bytes(&text).expect("digits are fit for a header");
        // The value occurs only once: HTTP/2 must not evict useful headers from its table for it.
        id.set_sensitive(true);
        id
    }
}

fn is_valid(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    (1..=CLIENT_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_audit_ids_must_be_short_and_plain() {
        let longest = "x".repeat(64);
        for (id, fit) in [
            ("my-id", true),
            ("0F-9", true),
            (&longest, true),
            (&format!("{longest}x"), false),
            ("", false),
            ("a b", false),
            ("a\"b", false),
            ("a_b", false),
        ] {
            assert_eq!(is_valid(id.as_bytes()), fit, "{id}");
        }
    }
    use optik_platform::SeededEntropy;
    use std::collections::BTreeSet;

    #[test]
    fn generated_audit_ids_are_distinct_uuids_of_version_4() {
        let entropy = SeededEntropy::new(1);
        let connections = [AuditIds::new(&entropy), AuditIds::new(&entropy)];
        let mut seen = BTreeSet::new();
        for ids in connections
            .iter()
            .flat_map(|ids| (0..1000).map(move |_| ids))
        {
            let id = ids.next_uuid().to_str().unwrap().to_owned();
            let lengths: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
            assert!(seen.insert(id));
        }
    }
}
