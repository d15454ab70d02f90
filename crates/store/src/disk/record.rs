//! What one entry of the disk engine looks like. See docs/storage-format.md.
//!
//! ```text
//! key    03 | revision, 8 bytes | sub, 4 bytes             a version
//!        02 | lease id, 8 bytes                            a lease
//!        01 | name                                         a fact about the store
//! value  of a version:
//!        kind 1 | changes in this commit 4 | created 8 | version 8 | lease 8 | time 8
//!        | origin: four times length 2 and text | key length 4 | key | value
//! ```
//! Numbers are big-endian, so that keys sort as revisions do.

use crate::history::Commit;
use crate::key::Key;
use crate::lease::LeaseId;
use crate::origin::{Origin, Origins};
use crate::replay::{Place, Written};
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use bytes::Bytes;
use optik_platform::UnixMillis;
use std::time::Duration;

const TAG_META: u8 = 1;
const TAG_LEASE: u8 = 2;
const TAG_VERSION: u8 = 3;

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;

pub(crate) fn meta_key(name: &str) -> Vec<u8> {
    [&[TAG_META], name.as_bytes()].concat()
}

pub(crate) fn lease_key(id: LeaseId) -> Vec<u8> {
    [&[TAG_LEASE][..], &id.0.to_be_bytes()].concat()
}

pub(crate) fn all_leases() -> std::ops::Range<Vec<u8>> {
    vec![TAG_LEASE]..vec![TAG_LEASE + 1]
}

pub(crate) fn version_key((revision, sub): Place) -> Vec<u8> {
    let mut key = Vec::with_capacity(13);
    key.push(TAG_VERSION);
    key.extend(revision.get().to_be_bytes());
    key.extend(sub.to_be_bytes());
    key
}

pub(crate) fn versions_from(revision: Revision) -> std::ops::Range<Vec<u8>> {
    version_key((revision, 0))..vec![TAG_VERSION + 1]
}

/// Why bytes are not an entry of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry cannot be read: {0}")]
pub(crate) struct BadRecord(&'static str);

pub(crate) fn decode_version_key(key: &[u8]) -> Result<Place, BadRecord> {
    let mut reader = Reader(key);
    if reader.u8()? != TAG_VERSION {
        return Err(BadRecord("not a version"));
    }
    let place = (Revision::new(reader.u64()?), reader.u32()?);
    reader.end()?;
    Ok(place)
}

pub(crate) fn decode_lease(key: &[u8], value: &[u8]) -> Result<(LeaseId, Duration), BadRecord> {
    let mut reader = Reader(key);
    if reader.u8()? != TAG_LEASE {
        return Err(BadRecord("not a lease"));
    }
    let id = LeaseId(reader.i64()?);
    reader.end()?;
    Ok((id, Duration::from_secs(decode_number(value)?)))
}

pub(crate) fn encode_number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

pub(crate) fn decode_number(value: &[u8]) -> Result<u64, BadRecord> {
    let mut reader = Reader(value);
    let number = reader.u64()?;
    reader.end()?;
    Ok(number)
}

/// The entries of one commit.
pub(crate) fn encode_commit(commit: &Commit) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let of = u32::try_from(commit.events().len()).expect("fewer than 2^32 changes");
    let versions = commit.events().iter().map(|event| &event.version);
    versions.map(move |version| {
        let place = (version.mod_revision, version.sub);
        (version_key(place), encode_version(version, of))
    })
}

pub(crate) fn encode_version(version: &Version, of: u32) -> Vec<u8> {
    let unknown = Origin::default();
    let origin = version.origin.as_deref().unwrap_or(&unknown).parts();
    let origin_bytes: usize = origin.iter().map(|part| part.len() + 2).sum();
    let mut out = Vec::with_capacity(41 + origin_bytes + version.key.len() + version.value.len());
    out.push(if version.is_deletion() {
        KIND_DELETE
    } else {
        KIND_PUT
    });
    out.extend(of.to_be_bytes());
    out.extend(version.create_revision.get().to_be_bytes());
    out.extend(version.version.to_be_bytes());
    out.extend(version.lease.0.to_be_bytes());
    out.extend(version.time.0.to_be_bytes());
    for part in origin {
        let length = u16::try_from(part.len()).expect("parts are cut to a few hundred bytes");
        out.extend(length.to_be_bytes());
        out.extend(part.as_bytes());
    }
    let key_length = u32::try_from(version.key.len()).expect("keys are bounded by the limits");
    out.extend(key_length.to_be_bytes());
    out.extend(&version.key[..]);
    out.extend(&version.value[..]);
    out
}

/// A version as it was written, and how many changes its commit made.
pub(crate) fn decode_version(
    place: Place,
    value: &[u8],
    origins: &mut Origins,
) -> Result<(Written, u32), BadRecord> {
    let mut reader = Reader(value);
    let kind = reader.u8()?;
    let of = reader.u32()?;
    let create_revision = Revision::new(reader.u64()?);
    let version = reader.u64()?;
    let lease = LeaseId(reader.i64()?);
    let time = UnixMillis(reader.u64()?);
    let origin = decode_origin(&mut reader, origins)?;
    let key_length = reader.u32()? as usize;
    let key = Key::from(reader.bytes(key_length)?);
    match (kind, version) {
        (KIND_PUT, 1..) | (KIND_DELETE, 0) => {}
        _ => return Err(BadRecord("its kind and its version disagree")),
    }
    if place.1 >= of {
        return Err(BadRecord("its commit is smaller than its place in it"));
    }
    let written = Written {
        key,
        value: Bytes::copy_from_slice(reader.0),
        create_revision,
        mod_revision: place.0,
        sub: place.1,
        version,
        lease,
        time,
        origin,
    };
    Ok((written, of))
}

fn decode_origin(
    reader: &mut Reader<'_>,
    origins: &mut Origins,
) -> Result<Option<Arc<Origin>>, BadRecord> {
    let mut parts = [""; 4];
    for part in &mut parts {
        let length = usize::from(reader.u16()?);
        *part = std::str::from_utf8(reader.bytes(length)?)
            .map_err(|_| BadRecord("its origin is not text"))?;
    }
    Ok(origins.intern(Origin::from_parts(parts)))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], BadRecord> {
        let (head, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(BadRecord("it is too short"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRecord> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("as many as were asked for"))
    }

    fn u8(&mut self) -> Result<u8, BadRecord> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, BadRecord> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, BadRecord> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, BadRecord> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, BadRecord> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    fn end(&self) -> Result<(), BadRecord> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BadRecord("it is too long"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex;
    use proptest::prelude::*;

    fn version() -> impl Strategy<Value = Version> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        (
            bytes(),
            bytes(),
            1u64..9,
            any::<i64>(),
            any::<u64>(),
            ".{0,300}",
        )
            .prop_map(|(key, value, version, lease, time, user)| Version {
                key: Key::from(&key),
                value: value.into(),
                create_revision: Revision::new(time / 2),
                mod_revision: Revision::new(77),
                sub: 3,
                version,
                lease: LeaseId(lease),
                time: UnixMillis(time),
                origin: Origins::default().intern(Origin {
                    user,
                    verb: "create".into(),
                    ..Origin::default()
                }),
                prior: Mutex::new(None),
            })
    }

    proptest! {
        #[test]
        fn a_version_survives_the_disk(version in version()) {
            let bytes = encode_version(&version, 4);
            let place = (version.mod_revision, version.sub);
            let (read, of) = decode_version(place, &bytes, &mut Origins::default()).expect("ours");
            prop_assert_eq!(of, 4);
            prop_assert_eq!(&read.key, &version.key);
            prop_assert_eq!(&read.value, &version.value);
            prop_assert_eq!(read.create_revision, version.create_revision);
            prop_assert_eq!(read.version, version.version);
            prop_assert_eq!(read.lease, version.lease);
            prop_assert_eq!(read.time, version.time);
            let parts = |origin: &Option<Arc<Origin>>| {
                origin.as_ref().map(|o| o.parts().map(str::to_owned))
            };
            prop_assert_eq!(parts(&read.origin), parts(&version.origin));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_version((Revision::FIRST, 0), &bytes, &mut Origins::default());
            let _ = decode_version_key(&bytes);
            let _ = decode_lease(&bytes, &bytes);
            let _ = decode_number(&bytes);
        }
    }

    #[test]
    fn places_sort_as_revisions_do() {
        let key = |revision, sub| version_key((Revision::new(revision), sub));
        assert!(key(2, 9) < key(3, 0));
        assert!(key(255, 0) < key(256, 0));
        assert_eq!(decode_version_key(&key(7, 2)), Ok((Revision::new(7), 2)));
        assert!(versions_from(Revision::new(3)).contains(&key(3, 0)));
        assert!(!versions_from(Revision::new(3)).contains(&key(2, 9)));
    }
}
