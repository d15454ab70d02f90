//! Conversions between the store's types and etcd's messages.

use bytes::Bytes;
use optik_etcd_api::mvccpb::KeyValue;
use optik_store::{KeyRange, Revision, Version};

/// A revision as etcd's messages encode it: a signed number that is never negative.
pub(crate) fn signed(revision: Revision) -> i64 {
    signed_count(revision.get())
}

pub(crate) fn signed_count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A revision from a message; `None` if it is negative.
pub(crate) fn revision(number: i64) -> Option<Revision> {
    u64::try_from(number).ok().map(Revision::new)
}

/// The key range of a request. An empty end means one key; an end of one zero byte means all keys
/// from `key` on.
pub(crate) fn key_range(key: &[u8], range_end: &[u8]) -> KeyRange {
    match range_end {
        [] => KeyRange::one(key),
        [0] => KeyRange::from_key(key),
        end => KeyRange::between(key, end),
    }
}

/// A key-value message. For a deletion, only the key and the revision are set.
pub(crate) fn key_value(version: &Version) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(version.key()),
        create_revision: signed(version.create_revision()),
        mod_revision: signed(version.mod_revision()),
        version: signed_count(version.version()),
        value: version.value().clone(),
        lease: version.lease().0,
    }
}
