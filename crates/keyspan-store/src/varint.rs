//! The primitives of index files: little-endian numbers, varints and length-prefixed bytes.
//!
//! Rule: reading never panics and never allocates more than the input could hold; whatever does not fit is `None`,
//! which the caller turns into a `Corrupted` error that names the file.

/// Appends a number in 7-bit groups, least significant first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed number, zigzag, so that small magnitudes stay short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a presence byte and the value.
pub(crate) fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            put(out, value);
        }
    }
}

/// A position in bytes that are read front to back.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(head)
    }

    /// So many bytes, or all that are left.
    pub(crate) fn take_up_to(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        head
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn fixed_u32(&mut self) -> Option<u32> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
    }

    pub(crate) fn fixed_u64(&mut self) -> Option<u64> {
        self.take(8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }

    /// A number of items, each at least one byte long: more than the rest can hold is refused before allocating.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    pub(crate) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    pub(crate) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        (0..count).map(|_| read(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_round_trip() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let signed = [0, -1, 1, i64::MIN, i64::MAX];
        let mut out = Vec::new();
        numbers.iter().for_each(|n| put_varint(&mut out, *n));
        signed.iter().for_each(|n| put_signed(&mut out, *n));
        put_bytes(&mut out, b"key");
        put_option(&mut out, Some(7), put_varint);
        let mut input = Input::new(&out);
        assert!(numbers.iter().all(|n| input.varint() == Some(*n)));
        assert!(signed.iter().all(|n| input.signed() == Some(*n)));
        assert_eq!(input.bytes(), Some(&b"key"[..]));
        assert_eq!(input.option(Input::varint), Some(Some(7)));
        assert!(input.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_none() {
        assert_eq!(Input::new(&[0x80]).varint(), None);
        assert_eq!(Input::new(&[0xff; 10]).varint(), None);
        assert_eq!(Input::new(&[5, 1, 2]).bytes(), None);
        assert_eq!(Input::new(&[0xff, 0xff, 0xff, 0x7f]).count(), None);
        assert_eq!(Input::new(&[2]).option(Input::byte), None);
    }
}
