//! How a list is written.

use super::Listing;
use super::page::Page;
use super::scan::Scan;
use crate::form::{Ink, PaintError, Separation};
use crate::kinds::{Kind, Shown};
use crate::piece::{Piece, Sheaf};
use crate::press::Job;
use crate::selection::Selection;
use bytes::Buf;
use optik_store::Version;
use std::sync::Arc;

/// How much of what is stored makes a batch.
const BATCH_BYTES: usize = 256 * 1024;
/// The same, where next to nothing is done for each object.
const LAID_BATCH_BYTES: usize = 1024 * 1024;
/// What takes about a millisecond to be shown in another form.
const LONG_BYTES: usize = 192 * 1024;
/// What is shorter is copied: so many small parts cost more than that.
const LAID_BYTES_MIN: usize = 2048;
/// A revision and a comma.
const REVISION_BYTES: usize = 48;
/// What identifies an object, usually.
const HEAD_BYTES: usize = 256;

/// How many objects are fetched together from all over the memory.
const FETCHED_OBJECTS: usize = 32;
/// The size of a cache line.
const LINE_BYTES: usize = 64;

/// A list that is being written.
pub(super) struct Writer {
    pub(super) kind: Arc<Kind>,
    pub(super) selection: Selection,
    /// Of the list, as JSON.
    pub(super) metadata: String,
    pub(super) ink: Option<Ink>,
}

/// Some items of a list, and what separates them from those before.
pub(super) struct Batch {
    pub(super) piece: Piece,
    pub(super) items: u64,
    separation: Separation,
}

impl Batch {
    /// What is sent after so many items.
    pub(super) fn after(mut self, items: u64) -> Piece {
        let lead = self.separation.byte().is_some() && self.items > 0;
        let wanted = self.separation.before(items).is_some();
        self.piece.advance(usize::from(lead && !wanted));
        self.piece
    }
}

impl Writer {
    pub(super) fn begin(&self, length: usize) -> Vec<u8> {
        match &self.ink {
            None => head(&self.kind, &self.metadata),
            Some(ink) => ink.begin(&self.kind, &self.metadata, length),
        }
    }

    pub(super) fn end(&self, items: u64) -> Vec<u8> {
        match &self.ink {
            None => b"]}\n".to_vec(),
            Some(ink) => ink.end(&self.kind, &self.metadata, items),
        }
    }

    fn separation(&self) -> Separation {
        match &self.ink {
            None => Separation::Between,
            Some(ink) => ink.separation(&self.kind),
        }
    }

    /// What makes the batches of a list, one after the other, beginning with what was read
    /// already.
    pub(super) fn jobs(
        writer: Arc<Self>,
        mut read: Vec<Arc<Version>>,
        mut scan: Scan,
    ) -> impl Iterator<Item = Job<impl FnOnce() -> Batch + Send + 'static>> + Send {
        let bytes = if writer.shows_as_stored() && writer.selection.is_everything() {
            LAID_BATCH_BYTES
        } else {
            BATCH_BYTES
        };
        std::iter::from_fn(move || {
            let versions = match read.is_empty() {
                true => scan.batch(bytes)?,
                false => std::mem::take(&mut read),
            };
            let (bytes, is_long) = (writer.room(&versions), writer.is_long(&versions));
            let writer = Arc::clone(&writer);
            Some(Job {
                bytes,
                is_long,
                run: move || writer.make(&versions),
            })
        })
    }

    /// About what is held of a batch. Other forms may be longer than what is stored.
    fn room(&self, versions: &[Arc<Version>]) -> usize {
        let laid = self.shows_as_stored();
        let bytes: usize = versions.iter().map(|version| room(version, laid)).sum();
        if laid { bytes } else { 2 * bytes }
    }

    /// Whether making a batch takes more than a moment.
    pub(super) fn is_long(&self, versions: &[Arc<Version>]) -> bool {
        !self.shows_as_stored() && self.room(versions) > LONG_BYTES
    }

    pub(super) fn make(&self, versions: &[Arc<Version>]) -> Batch {
        let laid = self.shows_as_stored();
        let room = versions.iter().map(|version| room(version, laid)).sum();
        let mut sheaf = Sheaf::with_room(room);
        let separation = self.separation();
        sheaf.written().extend(separation.byte());
        let items = self.write(versions, &mut sheaf);
        if items == 0 {
            sheaf.truncate(0);
        }
        Batch {
            piece: sheaf.bind(),
            items,
            separation,
        }
    }

    fn shows_as_stored(&self) -> bool {
        self.ink.is_none() && self.kind.shows_as_stored()
    }

    /// Writes what is selected, and what separates it; tells how many there are.
    fn write(&self, versions: &[Arc<Version>], sheaf: &mut Sheaf) -> u64 {
        let separation = self.separation();
        let mut ink = self.ink.clone();
        let mut items = 0;
        let some = versions.chunks(FETCHED_OBJECTS);
        for version in some.inspect(|some| fetch(some)).flatten() {
            if !self.selection.is_everything() && !self.selection.matches(&self.kind, version) {
                continue;
            }
            let mark = sheaf.written().len();
            // Whether one stands before the first is not known here.
            if items > 0 {
                sheaf.written().extend(separation.before(items));
            }
            let written = match ink.as_mut() {
                Some(ink) => ink.item(&self.kind, untyped(version), sheaf.written()),
                None => self.lay(version, sheaf),
            };
            match written {
                Ok(()) => items += 1,
                Err(error) => {
                    sheaf.truncate(mark);
                    let key = String::from_utf8_lossy(version.key());
                    tracing::error!("{key} is left out of a list: {error}");
                }
            }
        }
        items
    }

    /// What is long goes out from where it is stored.
    fn lay(&self, version: &Arc<Version>, sheaf: &mut Sheaf) -> Result<(), PaintError> {
        let shown = untyped(version);
        let Some(spliced) = self.kind.spliced(shown) else {
            return Ok(self.kind.write(shown, sheaf.written())?);
        };
        if version.value().len() - spliced.tail() < LAID_BYTES_MIN {
            spliced.write_to(sheaf.written());
        } else {
            spliced.write_head_to(sheaf.written());
            sheaf.lay(version, spliced.tail());
        }
        Ok(())
    }
}

/// Looks at the beginning and the end of objects. One after the other, each look would
/// wait for the memory; together, they wait once.
fn fetch(versions: &[Arc<Version>]) {
    let seen = versions.iter().fold(0, |seen, version| {
        let value = version.value();
        let begin = value.iter().take(HEAD_BYTES).step_by(LINE_BYTES);
        begin
            .chain(value.last())
            .fold(seen, |seen, byte| seen ^ byte)
    });
    std::hint::black_box(seen);
}

/// About how much of an item is written.
fn room(version: &Version, laid: bool) -> usize {
    let length = version.value().len();
    if laid && length >= LAID_BYTES_MIN {
        HEAD_BYTES
    } else {
        length + REVISION_BYTES
    }
}

/// The items of a list do not say what they are.
fn untyped(version: &Version) -> Shown<'_> {
    Shown {
        typed: false,
        ..Shown::whole(version)
    }
}

/// The metadata of the list.
pub(super) fn metadata(listing: &Listing, page: &Page) -> String {
    let mut text = format!(r#"{{"resourceVersion":"{}""#, page.at);
    let whole = listing.ink.as_ref().is_none_or(Ink::is_whole);
    if listing.kind.custom.is_some() && whole && page.next.is_none() {
        text.push_str(r#","continue":"""#);
    }
    if let Some(next) = &page.next {
        // A token has no character that needs escaping.
        text.push_str(&format!(r#","continue":"{}""#, next.token));
        if let Some(remaining) = next.remaining {
            text.push_str(&format!(r#","remainingItemCount":{remaining}"#));
        }
    }
    text.push('}');
    text
}

/// Everything before the first item.
pub(super) fn head(kind: &Kind, metadata: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
        kind.resource.list_kind, kind.api_version
    );
    text.into()
}
