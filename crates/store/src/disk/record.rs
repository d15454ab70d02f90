//! The encoding of the records in a frame. See docs/storage-format.md.
//!
//! ```text
//! 01 | floor 8 | segment before 8 | where it ends 8 | leases 4 | of each: id 8, seconds 8
//!                                           the log metadata
//! 02 | lease id 8 | seconds 8               a lease was granted
//! 03 | revision 8 | sub 4 | length 4 | version
//! 04 | lease id 8                           a lease is gone
//! 05 | revision 8                           the floor was raised
//!
//! version: kind 1 | changes in this commit 4 | created 8 | version 8 | lease 8 | time 8
//!        | origin: four times length 2 and text | key length 4 | key | value
//! ```
//! Numbers are big-endian.

use crate::key::Key;
use crate::lease::LeaseId;
use crate::origin::{Origin, OriginInterner};
use crate::replay::{VersionPosition, VersionRecord};
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::Version;
use bytes::Bytes;
use optik_platform::UnixMillis;
use std::time::Duration;

const TAG_STATE: u8 = 1;
const TAG_LEASE: u8 = 2;
const TAG_VERSION: u8 = 3;
const TAG_LEASE_GONE: u8 = 4;
const TAG_FLOOR: u8 = 5;

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;

/// The bytes of a version record before its body.
const VERSION_HEAD_BYTES: u64 = 17;
const LEASE_BYTES: usize = 16;
/// The approximate size of an encoded version without its key and value.
const VERSION_CAPACITY_BYTES: usize = 160;

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record cannot be read: {0}")]
pub(crate) struct BadRecord(pub(super) &'static str);

/// The end of a part of the log: a segment, and the offset at which its part of the log ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPosition {
    pub(super) segment: u64,
    pub(super) end: u64,
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogRecord<'a> {
    State {
        floor: Revision,
        previous: LogPosition,
        leases: LeaseList<'a>,
    },
    Granted {
        id: LeaseId,
        ttl: Duration,
    },
    Revoked {
        id: LeaseId,
    },
    Floor(Revision),
    Version {
        place: VersionPosition,
        /// The encoded version; see [`decode_version`].
        body: &'a [u8],
    },
}

/// Encoded leases, of which there may be many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseList<'a>(&'a [u8]);

impl LeaseList<'_> {
    pub(super) fn len(&self) -> usize {
        self.0.len() / LEASE_BYTES
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.0.chunks_exact(LEASE_BYTES).map(|lease| {
            let mut reader = RecordReader(lease);
            let id = reader.i64().expect("a whole chunk");
            let seconds = reader.u64().expect("a whole chunk");
            (LeaseId(id), Duration::from_secs(seconds))
        })
    }
}

impl<'a> LogRecord<'a> {
    /// Reads one record and advances `bytes` past it.
    pub(super) fn read(bytes: &mut &'a [u8]) -> Result<Self, BadRecord> {
        let mut reader = RecordReader(bytes);
        let record = match reader.u8()? {
            TAG_STATE => {
                let floor = Revision::new(reader.u64()?);
                let previous = LogPosition {
                    segment: reader.u64()?,
                    end: reader.u64()?,
                };
                let count = reader.u32()? as usize;
                let leases = reader.bytes(count.saturating_mul(LEASE_BYTES))?;
                Self::State {
                    floor,
                    previous,
                    leases: LeaseList(leases),
                }
            }
            TAG_LEASE => Self::Granted {
                id: LeaseId(reader.i64()?),
                ttl: Duration::from_secs(reader.u64()?),
            },
            TAG_VERSION => {
                let place = (Revision::new(reader.u64()?), reader.u32()?);
                let length = reader.u32()? as usize;
                Self::Version {
                    place,
                    body: reader.bytes(length)?,
                }
            }
            TAG_LEASE_GONE => Self::Revoked {
                id: LeaseId(reader.i64()?),
            },
            TAG_FLOOR => Self::Floor(Revision::new(reader.u64()?)),
            _ => return Err(BadRecord("it is of an unknown kind")),
        };
        *bytes = reader.0;
        Ok(record)
    }
}

pub(super) fn put_state(
    out: &mut Vec<u8>,
    floor: Revision,
    previous: LogPosition,
    leases: impl Iterator<Item = (LeaseId, Duration)>,
) {
    out.push(TAG_STATE);
    out.extend(floor.get().to_be_bytes());
    out.extend(previous.segment.to_be_bytes());
    out.extend(previous.end.to_be_bytes());
    let count_at = out.len();
    out.extend([0; 4]);
    let mut count = 0u32;
    for (id, ttl) in leases {
        out.extend(id.0.to_be_bytes());
        out.extend(ttl.as_secs().to_be_bytes());
        count += 1;
    }
    out[count_at..count_at + 4].copy_from_slice(&count.to_be_bytes());
}

/// The size of what [`put_state`] writes.
pub(super) fn state_bytes(leases: usize) -> u64 {
    (1 + 3 * 8 + 4 + leases * LEASE_BYTES) as u64
}

pub(super) fn put_granted(out: &mut Vec<u8>, id: LeaseId, ttl: Duration) {
    out.push(TAG_LEASE);
    out.extend(id.0.to_be_bytes());
    out.extend(ttl.as_secs().to_be_bytes());
}

pub(super) fn put_revoked(out: &mut Vec<u8>, id: LeaseId) {
    out.push(TAG_LEASE_GONE);
    out.extend(id.0.to_be_bytes());
}

pub(super) fn put_floor(out: &mut Vec<u8>, floor: Revision) {
    out.push(TAG_FLOOR);
    out.extend(floor.get().to_be_bytes());
}

/// Appends a version record. `body` is encoded by [`encode_version`].
pub(super) fn put_encoded(out: &mut Vec<u8>, (revision, sub): VersionPosition, body: &[u8]) {
    out.push(TAG_VERSION);
    out.extend(revision.get().to_be_bytes());
    out.extend(sub.to_be_bytes());
    let length = u32::try_from(body.len()).expect("versions are bounded by the limits");
    out.extend(length.to_be_bytes());
    out.extend(body);
}

/// Appends a version record. `of` is the number of changes in its commit.
pub(super) fn put_version(out: &mut Vec<u8>, version: &Version, of: u32) {
    out.push(TAG_VERSION);
    out.extend(version.mod_revision.get().to_be_bytes());
    out.extend(version.sub.to_be_bytes());
    let length = u32::try_from(version.stored_bytes() - VERSION_HEAD_BYTES);
    let length = length.expect("versions are bounded by the limits");
    out.extend(length.to_be_bytes());
    let start = out.len();
    write_version(out, version, of);
    assert_eq!(
        out.len() - start,
        length as usize,
        "sizes: {version:?} takes what it says that it takes"
    );
}

/// The size on disk of a version with this body.
pub(super) fn version_bytes(body: &[u8]) -> u64 {
    VERSION_HEAD_BYTES + body.len() as u64
}

/// Whether the body of a version is a deletion.
pub(super) fn is_deletion(body: &[u8]) -> bool {
    body.first() == Some(&KIND_DELETE)
}

/// Sets the number of changes of the commit in an encoded version.
pub(super) fn set_changes(version: &mut [u8], of: u32) {
    version[1..5].copy_from_slice(&of.to_be_bytes());
}

pub(crate) fn encode_version(version: &Version, of: u32) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(VERSION_CAPACITY_BYTES + version.key.len() + version.value.len());
    write_version(&mut out, version, of);
    out
}

fn write_version(out: &mut Vec<u8>, version: &Version, of: u32) {
    let origin = version.origin.as_deref();
    let origin = origin.map_or([""; 4], Origin::parts);
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
}

/// Decodes a version and the number of changes in its commit.
pub(crate) fn decode_version(
    place: VersionPosition,
    value: &[u8],
    origins: &mut OriginInterner,
) -> Result<(VersionRecord, u32), BadRecord> {
    let mut reader = RecordReader(value);
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
    let written = VersionRecord {
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
    reader: &mut RecordReader<'_>,
    origins: &mut OriginInterner,
) -> Result<Option<Arc<Origin>>, BadRecord> {
    let mut parts = [""; 4];
    for part in &mut parts {
        let length = usize::from(reader.u16()?);
        *part = std::str::from_utf8(reader.bytes(length)?)
            .map_err(|_| BadRecord("its origin is not text"))?;
    }
    Ok(origins.intern(Origin::from_parts(parts)))
}

#[derive(Debug)]
pub(super) struct RecordReader<'a>(pub(super) &'a [u8]);

impl<'a> RecordReader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], BadRecord> {
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

    pub(super) fn u8(&mut self) -> Result<u8, BadRecord> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, BadRecord> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, BadRecord> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, BadRecord> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> Result<i64, BadRecord> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(super) fn expect_end(&self) -> Result<(), BadRecord> {
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
            0u64..9,
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
                origin: OriginInterner::default().intern(Origin {
                    user,
                    verb: "create".into(),
                    ..Origin::default()
                }),
                prior: Mutex::new(None),
            })
    }

    proptest! {
        #[test]
        fn version_record_round_trips(version in version()) {
            let bytes = encode_version(&version, 4);
            let place = (version.mod_revision, version.sub);
            let (read, of) = decode_version(place, &bytes, &mut OriginInterner::default()).expect("ours");
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
        fn version_record_length_equals_stored_bytes(version in version()) {
            let mut bytes = Vec::new();
            put_version(&mut bytes, &version, 4);
            prop_assert_eq!(bytes.len() as u64, version.stored_bytes());
            let mut rest = &bytes[..];
            let record = LogRecord::read(&mut rest).expect("ours");
            let body = encode_version(&version, 4);
            prop_assert_eq!(version_bytes(&body), version.stored_bytes());
            prop_assert_eq!(is_deletion(&body), version.is_deletion());
            let place = (version.mod_revision, version.sub);
            prop_assert_eq!(record, LogRecord::Version { place, body: &body });
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn decoding_arbitrary_record_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode_version((Revision::FIRST, 0), &bytes, &mut OriginInterner::default());
            let _ = LogRecord::read(&mut &bytes[..]);
        }
    }

    #[test]
    fn state_lease_and_floor_records_round_trip() {
        let leases =
            [(LeaseId(-3), 5), (LeaseId(9), 7)].map(|(id, s)| (id, Duration::from_secs(s)));
        let previous = LogPosition {
            segment: 4,
            end: 90,
        };
        let mut bytes = Vec::new();
        put_state(&mut bytes, Revision::new(8), previous, leases.into_iter());
        put_granted(&mut bytes, leases[0].0, leases[0].1);
        put_revoked(&mut bytes, leases[1].0);
        put_floor(&mut bytes, Revision::new(9));
        let mut rest = &bytes[..];
        let mut next = || LogRecord::read(&mut rest).expect("ours");
        let LogRecord::State {
            floor,
            previous: found,
            leases: list,
        } = next()
        else {
            panic!("the state comes first");
        };
        assert_eq!((floor, found), (Revision::new(8), previous));
        assert_eq!(list.iter().collect::<Vec<_>>(), leases);
        let (id, ttl) = leases[0];
        assert_eq!(next(), LogRecord::Granted { id, ttl });
        assert_eq!(next(), LogRecord::Revoked { id: leases[1].0 });
        assert_eq!(next(), LogRecord::Floor(Revision::new(9)));
        assert!(rest.is_empty());
    }
}
