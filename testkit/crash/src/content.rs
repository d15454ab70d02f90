//! The bytes of one file, held sparsely.
//!
//! A journal is 64 MB of zeros with a few kilobytes in front, and there are thousands of images of
//! it: only pages that were written exist, and copies of a file share them until one of the copies
//! writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PAGE: u64 = 4096;
const PAGE_LEN: usize = 4096;

type Page = [u8; PAGE_LEN];

/// A file's length and pages; what no page covers is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContent {
    len: u64,
    pages: Arc<BTreeMap<u64, Arc<Page>>>,
}

fn to_index(value: u64) -> usize {
    usize::try_from(value).expect("a 64-bit machine")
}

impl FileContent {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Writes `data` at `offset`, growing the file if need be.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        self.len = self.len.max(offset + data.len() as u64);
        let pages = Arc::make_mut(&mut self.pages);
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let within = to_index(at % PAGE);
            let count = rest.len().min(PAGE_LEN - within);
            let (now, later) = rest.split_at(count);
            let page = pages
                .entry(at / PAGE)
                .or_insert_with(|| Arc::new([0; PAGE_LEN]));
            Arc::make_mut(page)[within..within + count].copy_from_slice(now);
            at += count as u64;
            rest = later;
        }
    }

    /// Cuts or extends (with zeros) the file.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let pages = Arc::make_mut(&mut self.pages);
            pages.split_off(&len.div_ceil(PAGE));
            if let Some(page) = pages.get_mut(&(len / PAGE)) {
                Arc::make_mut(page)[to_index(len % PAGE)..].fill(0);
            }
        }
        self.len = len;
    }

    /// All bytes; a sparse file becomes as long as it claims to be.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; to_index(self.len)];
        for (number, page) in self.pages.iter() {
            let start = to_index(number * PAGE);
            let count = PAGE_LEN.min(bytes.len() - start);
            bytes[start..start + count].copy_from_slice(&page[..count]);
        }
        bytes
    }

    /// Reads a file, skipping its holes.
    pub(crate) fn read(file: &File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let mut content = Self::default();
        content.set_len(len);
        let mut buf = vec![0; 64 * PAGE_LEN];
        let mut at = 0;
        while at < len {
            let offset = libc::off_t::try_from(at).expect("file offsets fit");
            // SAFETY: lseek(2) takes any integers; every read below says where.
            let data = unsafe { libc::lseek(file.as_raw_fd(), offset, libc::SEEK_DATA) };
            let Ok(data) = u64::try_from(data) else {
                break; // ENXIO: a hole up to the end
            };
            at = data / PAGE * PAGE;
            let got = file.read_at(&mut buf, at)?;
            if got == 0 {
                break;
            }
            for (index, page) in buf[..got].chunks(PAGE_LEN).enumerate() {
                if page.iter().any(|byte| *byte != 0) {
                    content.write(at + (index * PAGE_LEN) as u64, page);
                }
            }
            // Whole pages only, so that the next round starts on one.
            at += (got as u64).next_multiple_of(PAGE);
        }
        Ok(content)
    }

    /// Writes the file sparsely.
    pub(crate) fn write_to(&self, file: &File) -> io::Result<()> {
        file.set_len(self.len)?;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (number, page) in self.pages.iter() {
            let at = number * PAGE;
            if at >= self.len {
                break;
            }
            if start + run.len() as u64 != at || run.len() >= 256 * PAGE_LEN {
                file.write_all_at(&run, start)?;
                run.clear();
                start = at;
            }
            let count = PAGE.min(self.len - at);
            run.extend_from_slice(&page[..to_index(count)]);
        }
        file.write_all_at(&run, start)
    }

    /// Whether both have equal bytes.
    pub(crate) fn same_bytes(&self, other: &Self) -> bool {
        const ZEROS: Page = [0; PAGE_LEN];
        let covers = |a: &Self, b: &Self| {
            a.pages
                .iter()
                .all(|(number, page)| match b.pages.get(number) {
                    Some(theirs) => Arc::ptr_eq(page, theirs) || page == theirs,
                    None => **page == ZEROS,
                })
        };
        self.len == other.len && covers(self, other) && covers(other, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_bytes_read_as_zeros_after_regrowth() {
        let mut content = FileContent::default();
        content.write(4090, b"0123456789");
        content.set_len(4092);
        content.set_len(8192);
        let bytes = content.to_vec();
        assert_eq!(&bytes[4090..4092], b"01");
        assert!(bytes[4092..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn file_content_copy_does_not_see_later_writes() {
        let mut content = FileContent::default();
        content.write(0, b"old");
        let copy = content.clone();
        content.write(0, b"new");
        assert_eq!(copy.to_vec(), b"old");
        assert!(!copy.same_bytes(&content));
    }

    #[test]
    fn file_holes_survive_write_and_read() -> io::Result<()> {
        let mut content = FileContent::default();
        content.set_len(64 << 20);
        content.write(1 << 20, b"here");
        content.write((64 << 20) - 3, b"end");
        let file = tempfile::tempfile()?;
        content.write_to(&file)?;
        let back = FileContent::read(&file)?;
        assert!(back.same_bytes(&content));
        assert_eq!(back.pages.len(), 2);
        Ok(())
    }
}
