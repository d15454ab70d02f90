//! The protobuf wire format: tags, varints, lengths.

use super::ProtobufError;

pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

/// The payload of a field on the wire.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// Four bytes, or a group: no known field has this wire type.
    Other,
}

impl<'a> WireReader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Reads the number and the payload of the next field.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Payload<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let payload = match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(self.fixed64()?),
            2 => Payload::Bytes(self.delimited()?),
            3 => self.skip_group().map(|()| Payload::Other)?,
            4 => return Err(ProtobufError::EndOfGroup),
            5 => self.take(4).map(|_| Payload::Other)?,
            other => return Err(ProtobufError::IllegalWireType(other)),
        };
        Ok(Some((number, payload)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn tag(&mut self) -> Result<(u32, u8), ProtobufError> {
        let tag = self.varint()?;
        // The lower 32 bits of the field number count, as in Go; the upper half of their range is
        // negative there.
        let number = (tag >> 3) as u32;
        if number == 0 || number > i32::MAX as u32 {
            return Err(ProtobufError::IllegalTag);
        }
        Ok((number, (tag & 7) as u8))
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Truncated)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Overflow)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtobufError> {
        let bytes = self.take(8)?;
        let bytes = bytes.try_into().map_err(|_| ProtobufError::Truncated)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn delimited(&mut self) -> Result<&'a [u8], ProtobufError> {
        let length = self.varint()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips to the end of the group that has just begun, with all groups in it.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut open = 1_usize;
        while open > 0 {
            let (_, wire_type) = self.tag()?;
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => drop(self.delimited()?),
                3 => open += 1,
                4 => open -= 1,
                5 => drop(self.take(4)?),
                other => return Err(ProtobufError::IllegalWireType(other)),
            }
        }
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct WireWriter {
    out: Vec<u8>,
}

impl WireWriter {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self {
            out: Vec::with_capacity(capacity),
        }
    }

    /// A writer that appends to `out`.
    pub(super) fn append_to(out: Vec<u8>) -> Self {
        Self { out }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn varint_field(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    pub(super) fn fixed64_field(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3 | 1);
        self.raw(&value.to_le_bytes());
    }

    pub(super) fn bytes_field(&mut self, number: u32, bytes: &[u8]) {
        self.begin_bytes_field(number, bytes.len());
        self.raw(bytes);
    }

    /// Writes the tag and the length of a field; exactly `length` bytes must follow.
    pub(super) fn begin_bytes_field(&mut self, number: u32, length: usize) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(length as u64);
    }

    /// Writes a nested message, whose length is known only afterwards.
    pub(super) fn nested(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Result<(), ProtobufError>,
    ) -> Result<(), ProtobufError> {
        self.varint(u64::from(number) << 3 | 2);
        let start = self.out.len();
        // Most lengths take one byte. If one takes more, the content is moved.
        self.out.push(0);
        write(self)?;
        let end = self.out.len();
        let length = (end - start - 1) as u64;
        if length < 0x80 {
            self.out[start] = length as u8;
            return Ok(());
        }
        // Move the content by the additional bytes of the length.
        let (prefix, size) = varint(length);
        self.out.resize(end + size - 1, 0);
        self.out.copy_within(start + 1..end, start + size);
        self.out[start..start + size].copy_from_slice(&prefix[..size]);
        Ok(())
    }

    fn varint(&mut self, value: u64) {
        if value < 0x80 {
            self.out.push(value as u8);
        } else {
            let (bytes, size) = varint(value);
            self.raw(&bytes[..size]);
        }
    }
}

/// Encodes a varint; returns its bytes and their count.
pub(super) fn varint(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut size = 0;
    while value >= 0x80 {
        bytes[size] = value as u8 | 0x80;
        value >>= 7;
        size += 1;
    }
    bytes[size] = value as u8;
    (bytes, size + 1)
}
