//! The header in front of a Parquet page: Thrift's compact protocol, as far as our own writer uses it.
//!
//! ```text
//! 1 type   2 bytes uncompressed   3 bytes compressed   5 data page (v1): 1 values  2 encoding  3 levels' encoding
//!                                                      7 dictionary:     1 values
//! ```
//!
//! Rule: bytes that are no such header give `None`; a page has passed its checksum before, so that is another writer's.

use parquet::basic::Encoding;

use crate::varint::Input;

/// What is told of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PageHeader {
    /// Bytes of the page when it is decompressed.
    pub(super) bytes: usize,
    /// Values, nulls included.
    pub(super) values: u32,
    pub(super) kind: PageKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PageKind {
    Dictionary,
    Data { encoding: Encoding, levels: Encoding },
}

/// Structures inside one another, at most.
const DEPTH: usize = 8;

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const INT16: u8 = 4;
const INT32: u8 = 5;
const INT64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

impl PageHeader {
    /// The header at the start of these bytes, and what is behind it.
    pub(super) fn read(bytes: &[u8]) -> Option<(PageHeader, &[u8])> {
        let mut input = Input::new(bytes);
        let (mut size, mut compressed) = (None, None);
        let mut page = None;
        fields(&mut input, |input, field, ty| {
            match (field, ty) {
                (2, INT32) => size = Some(number(input)?),
                (3, INT32) => compressed = Some(number(input)?),
                (5, STRUCT) => page = Some(data_page(input)?),
                (7, STRUCT) => page = Some((dictionary_page(input)?, PageKind::Dictionary)),
                _ => skip(input, ty, DEPTH)?,
            }
            Some(())
        })?;
        let (values, kind) = page?;
        let body = input.take(compressed? as usize)?;
        Some((PageHeader { bytes: size? as usize, values, kind }, body))
    }
}

fn data_page(input: &mut Input<'_>) -> Option<(u32, PageKind)> {
    let mut own = [None; 4];
    fields(input, |input, field, ty| {
        match (field, ty) {
            (1..=3, INT32) => own[field as usize] = Some(number(input)?),
            _ => skip(input, ty, DEPTH)?,
        }
        Some(())
    })?;
    let kind = PageKind::Data { encoding: encoding(own[2]?)?, levels: encoding(own[3]?)? };
    Some((own[1]?, kind))
}

fn dictionary_page(input: &mut Input<'_>) -> Option<u32> {
    let mut values = None;
    fields(input, |input, field, ty| {
        match (field, ty) {
            (1, INT32) => values = Some(number(input)?),
            _ => skip(input, ty, DEPTH)?,
        }
        Some(())
    })?;
    values
}

/// Calls `take` with the number and the type of each field of a structure.
fn fields<'a>(input: &mut Input<'a>, mut take: impl FnMut(&mut Input<'a>, i64, u8) -> Option<()>) -> Option<()> {
    let mut field = 0;
    loop {
        let head = input.byte()?;
        if head == 0 {
            return Some(());
        }
        field = match head >> 4 {
            0 => input.signed()?,
            more => field + i64::from(more),
        };
        take(input, field, head & 0xf)?;
    }
}

/// A number that is not negative.
fn number(input: &mut Input<'_>) -> Option<u32> {
    input.signed().and_then(|number| u32::try_from(number).ok())
}

fn skip(input: &mut Input<'_>, ty: u8, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match ty {
        TRUE | FALSE => Some(()),
        BYTE => input.byte().map(drop),
        INT16 | INT32 | INT64 => input.varint().map(drop),
        DOUBLE => input.take(8).map(drop),
        BINARY => input.bytes().map(drop),
        LIST | SET => {
            let head = input.byte()?;
            let count = if head >> 4 == 0xf { input.count()? } else { usize::from(head >> 4) };
            (0..count).try_for_each(|_| match head & 0xf {
                // In a list a truth is a byte.
                TRUE | FALSE => input.byte().map(drop),
                ty => skip(input, ty, depth),
            })
        }
        STRUCT => fields(input, |input, _, ty| skip(input, ty, depth)),
        _ => None,
    }
}

fn encoding(number: u32) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn headers_of_data_and_dictionary_pages_are_read() {
        // type 0, 300 bytes, 2 compressed, a data page of 5 values: codes, levels as runs, with statistics to skip.
        let data = [
            0x15, 0, 0x15, 0xd8, 0x04, 0x15, 4, 0x2c, 0x15, 10, 0x15, 16, 0x15, 6, 0x15, 6, 0x1c, 0x18, 1, b'x', 0x11,
            0, 0, 0, 7, 8, 9,
        ];
        let (header, body) = PageHeader::read(&data).expect("a header");
        let kind = PageKind::Data { encoding: Encoding::RLE_DICTIONARY, levels: Encoding::RLE };
        assert_eq!((header, body), (PageHeader { bytes: 300, values: 5, kind }, &[7, 8][..]));
        let dictionary = [0x15, 4, 0x15, 16, 0x15, 2, 0x4c, 0x15, 2, 0x15, 0, 0x12, 0, 0, 1];
        let (header, body) = PageHeader::read(&dictionary).expect("a header");
        assert_eq!((header, body), (PageHeader { bytes: 8, values: 1, kind: PageKind::Dictionary }, &[1][..]));
    }

    #[test]
    fn other_bytes_are_no_header() {
        assert_eq!(PageHeader::read(&[]), None);
        assert_eq!(PageHeader::read(&[0]), None);
        let mut random = Random::new(9);
        for _ in 0..50_000 {
            let bytes: Vec<u8> = (0..random.below(40)).map(|_| random.below(256) as u8).collect();
            if let Some((_, body)) = PageHeader::read(&bytes) {
                assert!(body.len() <= bytes.len());
            }
        }
        let deep = [vec![0x1c; 40], vec![0; 40]].concat();
        assert_eq!(PageHeader::read(&deep), None);
    }
}
