//! How a list is written.

use super::Listing;
use super::page::Page;
use super::scan::Scan;
use crate::form::{Ink, PaintError, Separation};
use crate::kinds::{Kind, Shown};
use crate::piece::{Piece, Sheaf};
use crate::selection::Selection;
use bytes::Bytes;
use optik_store::Version;
use std::sync::Arc;

/// How much of what is stored makes a batch.
pub(super) const BATCH_BYTES: usize = 256 * 1024;
/// What is shorter is copied: so many small parts cost more than that.
const LAID_BYTES_MIN: usize = 2048;

/// A revision and a comma.
const REVISION_BYTES: usize = 48;
/// What identifies an object, usually.
const HEAD_BYTES: usize = 256;

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
    pub(super) bytes: Bytes,
    pub(super) items: u64,
    separation: Separation,
}

impl Batch {
    /// What is sent after so many items.
    pub(super) fn after(&self, items: u64) -> Bytes {
        let lead = self.separation.byte().is_some() && self.items > 0;
        let wanted = self.separation.before(items).is_some();
        self.bytes.slice(usize::from(lead && !wanted)..)
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

    /// What makes the batches of a list, one after the other.
    pub(super) fn jobs(
        writer: Arc<Self>,
        mut scan: Scan,
    ) -> impl Iterator<Item = impl FnOnce() -> Batch + Send + 'static> + Send {
        std::iter::from_fn(move || {
            let versions = scan.batch(BATCH_BYTES)?;
            let writer = Arc::clone(&writer);
            Some(move || writer.make(&versions))
        })
    }

    pub(super) fn make(&self, versions: &[Arc<Version>]) -> Batch {
        let stored: usize = versions.iter().map(|version| version.value().len()).sum();
        let mut out = Vec::with_capacity(stored + versions.len() * REVISION_BYTES + 1);
        let separation = self.separation();
        if let Some(byte) = separation.byte() {
            out.push(byte);
        }
        let items = self.write(versions, &mut out);
        if items == 0 {
            out.clear();
        }
        Batch {
            bytes: out.into(),
            items,
            separation,
        }
    }

    /// Whether items go out as they are stored, all of them.
    pub(super) fn writes_as_stored(&self) -> bool {
        self.ink.is_none() && self.selection.is_everything() && self.kind.shows_as_stored()
    }

    /// The next items of such a list, after so many others.
    pub(super) fn lay(&self, versions: &[Arc<Version>], items: &mut u64) -> Piece {
        let mut sheaf = Sheaf::with_room(versions.iter().map(|version| room(version)).sum());
        for version in versions {
            let mark = sheaf.written().len();
            if *items > 0 {
                sheaf.written().push(b',');
            }
            match self.lay_one(version, &mut sheaf) {
                Ok(()) => *items += 1,
                Err(error) => {
                    sheaf.truncate(mark);
                    left_out(version, &error);
                }
            }
        }
        sheaf.bind()
    }

    fn lay_one(&self, version: &Version, sheaf: &mut Sheaf) -> Result<(), PaintError> {
        let shown = untyped(version);
        let Some(spliced) = self.kind.spliced(shown) else {
            return Ok(self.kind.write(shown, sheaf.written())?);
        };
        if version.value().len() - spliced.tail() < LAID_BYTES_MIN {
            spliced.write_to(sheaf.written());
        } else {
            spliced.write_head_to(sheaf.written());
            sheaf.lay(version.value().slice(spliced.tail()..));
        }
        Ok(())
    }

    /// Writes what is selected, and what separates it; tells how many there are.
    fn write(&self, versions: &[Arc<Version>], out: &mut Vec<u8>) -> u64 {
        let separation = self.separation();
        let mut ink = self.ink.clone();
        let mut items = 0;
        for version in versions {
            if !self.selection.is_everything() && !self.selection.matches(&self.kind, version) {
                continue;
            }
            let mark = out.len();
            // Whether one stands before the first is not known here.
            if items > 0 {
                out.extend(separation.before(items));
            }
            match self.item(ink.as_mut(), version, out) {
                Ok(()) => items += 1,
                Err(error) => {
                    out.truncate(mark);
                    left_out(version, &error);
                }
            }
        }
        items
    }

    fn item(
        &self,
        ink: Option<&mut Ink>,
        version: &Version,
        out: &mut Vec<u8>,
    ) -> Result<(), PaintError> {
        let shown = untyped(version);
        match ink {
            Some(ink) => ink.item(&self.kind, shown, out),
            None => Ok(self.kind.write(shown, out)?),
        }
    }
}

/// About how much of an item is copied.
fn room(version: &Version) -> usize {
    let length = version.value().len();
    if length < LAID_BYTES_MIN {
        length + REVISION_BYTES
    } else {
        HEAD_BYTES
    }
}

/// The items of a list do not say what they are.
fn untyped(version: &Version) -> Shown<'_> {
    Shown {
        typed: false,
        ..Shown::whole(version)
    }
}

fn left_out(version: &Version, error: &PaintError) {
    let key = String::from_utf8_lossy(version.key());
    tracing::error!("{key} is left out of a list: {error}");
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
fn head(kind: &Kind, metadata: &str) -> Vec<u8> {
    let text = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{metadata},"items":["#,
        kind.resource.list_kind, kind.api_version
    );
    text.into()
}
