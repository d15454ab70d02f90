//! A partial protobuf decoder, sufficient to inspect a watch.

use crate::{Failure, Outcome};

/// The prefix of every protobuf object of Kubernetes.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// The length-delimited field with this number.
pub(crate) fn field(message: &[u8], wanted: u64) -> Outcome<&[u8]> {
    let mut rest = message;
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        match key & 7 {
            0 => {
                varint(&mut rest)?;
            }
            2 => {
                let length = usize::try_from(varint(&mut rest)?).unwrap_or(usize::MAX);
                let content = rest.get(..length).ok_or_else(|| broken(message))?;
                if key >> 3 == wanted {
                    return Ok(content);
                }
                rest = &rest[length..];
            }
            _ => return Err(broken(message)),
        }
    }
    Err(Failure::new(format!("no field {wanted} in {message:02x?}")))
}

fn varint(rest: &mut &[u8]) -> Outcome<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, tail) = rest.split_first().ok_or_else(|| broken(rest))?;
        *rest = tail;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(broken(rest))
}

fn broken(message: &[u8]) -> Failure {
    Failure::new(format!("no protobuf: {message:02x?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_field_is_found_behind_others() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1a, 0x00];
        assert_eq!(field(&message, 2).unwrap(), b"hi");
        assert_eq!(field(&message, 3).unwrap(), b"");
        assert!(field(&message, 4).is_err());
        assert!(field(&[0x12, 0x05, b'h'], 2).is_err());
    }
}
