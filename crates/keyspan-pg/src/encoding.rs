//! The encoding of a client (`client_encoding`): its texts to UTF-8 and back.
//!
//! The rule: a character that an encoding has not is an error, never another character; only in the words of an error, a
//! notice or a notification does `?` stand for it. A byte below 0x80 that is no part of another character is that of ASCII.
//! In SQL_ASCII, which psql asks for where the locale is `C`, texts pass as UTF-8, as in PostgreSQL. EUC_CN is taken as GBK
//! and EUC_KR as UHC, which have all of their characters and more.

use std::borrow::Cow;

use bytes::BytesMut;
use encoding_rs as rs;
use keyspan_model::{Error, ErrorKind, Result};

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// As PostgreSQL spells it.
    name: &'static str,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Utf8,
    /// Each byte is the character of its number, but for these.
    Latin(&'static [(u8, char)]),
    Table(&'static rs::Encoding),
}

/// ISO 8859-9, where it is not ISO 8859-1.
const TURKISH: &[(u8, char)] = &[(0xd0, 'Ğ'), (0xdd, 'İ'), (0xde, 'Ş'), (0xf0, 'ğ'), (0xfd, 'ı'), (0xfe, 'ş')];

/// Those that the setting takes.
const ENCODINGS: &[(&str, Form)] = &[
    ("UTF8", Form::Utf8),
    ("SQL_ASCII", Form::Utf8),
    ("LATIN1", Form::Latin(&[])),
    ("LATIN2", Form::Table(rs::ISO_8859_2)),
    ("LATIN3", Form::Table(rs::ISO_8859_3)),
    ("LATIN4", Form::Table(rs::ISO_8859_4)),
    ("LATIN5", Form::Latin(TURKISH)),
    ("LATIN6", Form::Table(rs::ISO_8859_10)),
    ("LATIN7", Form::Table(rs::ISO_8859_13)),
    ("LATIN8", Form::Table(rs::ISO_8859_14)),
    ("LATIN9", Form::Table(rs::ISO_8859_15)),
    ("LATIN10", Form::Table(rs::ISO_8859_16)),
    ("ISO_8859_5", Form::Table(rs::ISO_8859_5)),
    ("ISO_8859_6", Form::Table(rs::ISO_8859_6)),
    ("ISO_8859_7", Form::Table(rs::ISO_8859_7)),
    ("ISO_8859_8", Form::Table(rs::ISO_8859_8)),
    ("WIN866", Form::Table(rs::IBM866)),
    ("WIN874", Form::Table(rs::WINDOWS_874)),
    ("WIN1250", Form::Table(rs::WINDOWS_1250)),
    ("WIN1251", Form::Table(rs::WINDOWS_1251)),
    ("WIN1252", Form::Table(rs::WINDOWS_1252)),
    ("WIN1253", Form::Table(rs::WINDOWS_1253)),
    ("WIN1254", Form::Table(rs::WINDOWS_1254)),
    ("WIN1255", Form::Table(rs::WINDOWS_1255)),
    ("WIN1256", Form::Table(rs::WINDOWS_1256)),
    ("WIN1257", Form::Table(rs::WINDOWS_1257)),
    ("WIN1258", Form::Table(rs::WINDOWS_1258)),
    ("KOI8R", Form::Table(rs::KOI8_R)),
    ("KOI8U", Form::Table(rs::KOI8_U)),
    ("BIG5", Form::Table(rs::BIG5)),
    ("EUC_CN", Form::Table(rs::GBK)),
    ("EUC_JP", Form::Table(rs::EUC_JP)),
    ("EUC_KR", Form::Table(rs::EUC_KR)),
    ("GB18030", Form::Table(rs::GB18030)),
    ("GBK", Form::Table(rs::GBK)),
    ("SJIS", Form::Table(rs::SHIFT_JIS)),
    ("UHC", Form::Table(rs::EUC_KR)),
];

impl Encoding {
    pub(crate) const UTF8: Encoding = Encoding { name: "UTF8", form: Form::Utf8 };

    /// The encoding of this value of the setting.
    pub(crate) fn of_setting(value: &str) -> Encoding {
        let known = ENCODINGS.iter().find(|(name, _)| *name == value);
        known.map_or(Encoding::UTF8, |(name, form)| Encoding { name, form: *form })
    }

    /// Whether texts are as they are.
    pub(crate) fn is_utf8(self) -> bool {
        self.form == Form::Utf8
    }

    /// The text of bytes that a client sent.
    ///
    /// # Errors
    /// 22021 for bytes that are no text in this encoding, and for a zero.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        let text = match self.form {
            Form::Utf8 => Cow::Borrowed(std::str::from_utf8(bytes).map_err(|error| {
                let shown: Vec<String> =
                    bytes[error.valid_up_to()..].iter().take(4).map(|byte| format!("0x{byte:02x}")).collect();
                self.invalid(&shown.join(" "))
            })?),
            Form::Latin(others) => bytes.iter().map(|byte| latin_char(*byte, others)).collect::<String>().into(),
            Form::Table(table) => {
                let text = table.decode_without_bom_handling_and_without_replacement(bytes);
                text.ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidEncoding,
                        format!("invalid byte sequence for encoding \"{}\"", self.name),
                    )
                })?
            }
        };
        match text.contains('\0') {
            true => Err(self.invalid("0x00")),
            false => Ok(text),
        }
    }

    fn invalid(self, bytes: &str) -> Error {
        let message = format!("invalid byte sequence for encoding \"{}\": {bytes}", self.name);
        Error::new(ErrorKind::InvalidEncoding, message)
    }

    /// A text in this encoding; of a character that it has not, what `instead` says.
    fn encoded(self, text: &str, instead: impl Fn(char) -> Result<u8>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(text.len());
        match self.form {
            Form::Utf8 => bytes.extend_from_slice(text.as_bytes()),
            Form::Latin(others) => {
                for c in text.chars() {
                    bytes.push(match latin_byte(c, others) {
                        Some(byte) => byte,
                        None => instead(c)?,
                    });
                }
            }
            Form::Table(table) => {
                let mut rest = text;
                while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_as_ascii(table, *c)) {
                    add_encoded(table, &rest[..at], &mut bytes, &instead)?;
                    bytes.push(instead(c)?);
                    rest = &rest[at + c.len_utf8()..];
                }
                add_encoded(table, rest, &mut bytes, &instead)?;
            }
        }
        Ok(bytes)
    }

    /// A text in this encoding.
    ///
    /// # Errors
    /// 22P05 for a character that it has not.
    pub(crate) fn encode(self, text: &str) -> Result<Vec<u8>> {
        self.encoded(text, |c| {
            let mut utf8 = [0; 4];
            let shown: Vec<String> = c.encode_utf8(&mut utf8).bytes().map(|byte| format!("0x{byte:02x}")).collect();
            let bytes = shown.join(" ");
            let name = self.name;
            Err(Error::new(
                ErrorKind::UntranslatableCharacter,
                format!(
                    "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent in encoding \"{name}\""
                ),
            ))
        })
    }

    /// A text in this encoding, with `?` for characters that it has not.
    pub(crate) fn encode_lossy(self, text: &str) -> Vec<u8> {
        self.encoded(text, |_| Ok(b'?')).unwrap_or_default()
    }

    /// Puts what stands in a buffer from here on, which is UTF-8, into this encoding.
    pub(crate) fn encode_from(self, buffer: &mut BytesMut, start: usize) -> Result<()> {
        // All of them have ASCII's characters as they are.
        if self.is_utf8() || buffer[start..].is_ascii() {
            return Ok(());
        }
        let text = std::str::from_utf8(&buffer[start..])
            .map_err(|_| Error::internal("a text that is not UTF-8 was to be sent"))?;
        let bytes = self.encode(text)?;
        buffer.truncate(start);
        buffer.extend_from_slice(&bytes);
        Ok(())
    }

    /// Reads texts that come in pieces.
    pub(crate) fn reader(self) -> TextReader {
        let decoder = match self.form {
            Form::Table(table) => Some(table.new_decoder_without_bom_handling()),
            Form::Utf8 | Form::Latin(_) => None,
        };
        TextReader { encoding: self, decoder }
    }
}

/// Whether a table gives this character a byte of ASCII: the yen sign that of the backslash, the overline that of the tilde.
fn is_as_ascii(table: &'static rs::Encoding, c: char) -> bool {
    matches!(c, '\u{a5}' | '\u{203e}') && (table == rs::SHIFT_JIS || table == rs::EUC_JP)
}

fn add_encoded(
    table: &'static rs::Encoding,
    text: &str,
    bytes: &mut Vec<u8>,
    instead: &impl Fn(char) -> Result<u8>,
) -> Result<()> {
    let mut encoder = table.new_encoder();
    let mut rest = text;
    loop {
        let room = encoder.max_buffer_length_from_utf8_without_replacement(rest.len());
        bytes.reserve(room.unwrap_or_default());
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, bytes, true);
        rest = &rest[read..];
        match result {
            rs::EncoderResult::InputEmpty => return Ok(()),
            rs::EncoderResult::OutputFull => {}
            rs::EncoderResult::Unmappable(c) => bytes.push(instead(c)?),
        }
    }
}

fn latin_char(byte: u8, others: &[(u8, char)]) -> char {
    others.iter().find(|(own, _)| *own == byte).map_or(char::from(byte), |(_, c)| *c)
}

fn latin_byte(c: char, others: &[(u8, char)]) -> Option<u8> {
    match others.iter().find(|(_, own)| *own == c) {
        Some((byte, _)) => Some(*byte),
        None => u8::try_from(u32::from(c)).ok().filter(|byte| others.iter().all(|(own, _)| own != byte)),
    }
}

/// Pieces of a text, of which one may end within a character.
pub(crate) struct TextReader {
    encoding: Encoding,
    decoder: Option<rs::Decoder>,
}

impl TextReader {
    /// The next piece as UTF-8; UTF-8 itself passes unread. After the last one nothing may be left.
    ///
    /// # Errors
    /// 22021 for bytes that are no text in this encoding.
    pub(crate) fn read<'a>(&mut self, bytes: &'a [u8], last: bool) -> Result<Cow<'a, [u8]>> {
        if self.encoding.is_utf8() {
            return Ok(Cow::Borrowed(bytes));
        }
        let Some(decoder) = &mut self.decoder else {
            return Ok(Cow::Owned(self.encoding.decode(bytes)?.into_owned().into_bytes()));
        };
        let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        let mut text = String::with_capacity(room.unwrap_or_default());
        match decoder.decode_to_string_without_replacement(bytes, &mut text, last).0 {
            rs::DecoderResult::InputEmpty => Ok(Cow::Owned(text.into_bytes())),
            _ => {
                let message = format!("invalid byte sequence for encoding \"{}\"", self.encoding.name);
                Err(Error::new(ErrorKind::InvalidEncoding, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> Encoding {
        let found = Encoding::of_setting(name);
        assert_eq!(found.name, name);
        found
    }

    #[test]
    fn the_setting_takes_the_encodings_that_there_are() {
        assert_eq!(keyspan::client_encodings(), ENCODINGS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn texts_are_what_postgres_makes_of_them() {
        // PostgreSQL 15: SELECT convert_to('…', '…').
        for (name, text, bytes) in [
            ("LATIN1", "é ÿ\u{80}", &b"\xe9 \xff\x80"[..]),
            ("LATIN5", "ğİÖ", b"\xf0\xdd\xd6"),
            ("LATIN9", "€", b"\xa4"),
            ("WIN1252", "€ „é“", b"\x80 \x84\xe9\x93"),
            ("WIN1251", "Привет", b"\xcf\xf0\xe8\xe2\xe5\xf2"),
            ("KOI8R", "Привет", b"\xf0\xd2\xc9\xd7\xc5\xd4"),
            ("SJIS", "日本", b"\x93\xfa\x96\x7b"),
            ("EUC_JP", "日本", b"\xc6\xfc\xcb\xdc"),
            ("GBK", "中文", b"\xd6\xd0\xce\xc4"),
            ("BIG5", "中文", b"\xa4\xa4\xa4\xe5"),
            ("EUC_KR", "한국", b"\xc7\xd1\xb1\xb9"),
            ("SQL_ASCII", "é", "é".as_bytes()),
            ("UTF8", "é", "é".as_bytes()),
        ] {
            let encoding = encoding(name);
            assert_eq!(encoding.encode(text).expect(name), bytes, "{name}");
            assert_eq!(encoding.decode(bytes).expect(name), text, "{name}");
            let mut reader = encoding.reader();
            let pieces = bytes.iter().map(|byte| reader.read(&[*byte], false).expect(name).into_owned());
            assert_eq!(pieces.collect::<Vec<_>>().concat(), text.as_bytes(), "{name}");
            assert_eq!(reader.read(&[], true).expect(name).as_ref(), b"");
        }
    }

    #[test]
    fn what_an_encoding_has_not_is_refused() {
        for (name, text) in [
            ("LATIN1", "€"),
            ("LATIN5", "ð"),
            ("WIN1252", "Привет"),
            ("SJIS", "é한"),
            ("SJIS", "日¥本"),
            ("EUC_JP", "a‾"),
        ] {
            let error = encoding(name).encode(text).expect_err(name);
            assert_eq!(error.sqlstate(), "22P05", "{name}");
            assert!(encoding(name).encode_lossy(text).contains(&b'?'));
        }
        for (name, bytes) in [("UTF8", &b"\xff"[..]), ("SQL_ASCII", b"\xff"), ("SJIS", b"\x93"), ("LATIN1", b"a\0")] {
            assert_eq!(encoding(name).decode(bytes).expect_err(name).sqlstate(), "22021", "{name}");
        }
        let mut reader = encoding("EUC_JP").reader();
        reader.read(b"a\xc6", false).expect("the begin of a character");
        assert_eq!(reader.read(b"", true).expect_err("its end is missing").sqlstate(), "22021");
    }
}
