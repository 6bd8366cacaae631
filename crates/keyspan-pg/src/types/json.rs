//! Structs, maps and lists as `jsonb` prints them: a blank after each colon and comma.

use bytes::{BufMut, BytesMut};
use keyspan_model::Result;

use super::column::{WireColumn, WireForm, is_json_bare};

/// Writes a value as JSON; null is `null`.
pub(super) fn put_json(column: &WireColumn, row: usize, out: &mut BytesMut) -> Result<()> {
    if column.is_null(row) {
        out.put_slice(b"null");
        return Ok(());
    }
    match &column.form {
        WireForm::List(offsets, items) => {
            put_list(offsets[row]..offsets[row + 1], b"[]", out, |item, out| put_json(items, item, out))
        }
        WireForm::Struct(fields) => put_list(0..fields.len(), b"{}", out, |index, out| {
            let (name, values) = &fields[index];
            put_string(name.as_bytes(), out);
            out.put_slice(b": ");
            put_json(values, row, out)
        }),
        WireForm::Map(offsets, keys, values) => put_list(offsets[row]..offsets[row + 1], b"{}", out, |entry, out| {
            quoted(out, |out| keys.put_text(entry, out))?;
            out.put_slice(b": ");
            put_json(values, entry, out)
        }),
        WireForm::Boolean(values) => {
            out.put_slice(if values.value(row) { b"true" } else { b"false" });
            Ok(())
        }
        WireForm::Real(values) if !values.value(row).is_finite() => quoted(out, |out| column.put_text(row, out)),
        WireForm::Double(values) if !values.value(row).is_finite() => quoted(out, |out| column.put_text(row, out)),
        _ if is_json_bare(column.ty) => column.put_text(row, out),
        _ => quoted(out, |out| column.put_text(row, out)),
    }
}

fn put_list(
    range: std::ops::Range<usize>,
    brackets: &[u8; 2],
    out: &mut BytesMut,
    mut put: impl FnMut(usize, &mut BytesMut) -> Result<()>,
) -> Result<()> {
    out.put_u8(brackets[0]);
    let first = range.start;
    for index in range {
        if index > first {
            out.put_slice(b", ");
        }
        put(index, out)?;
    }
    out.put_u8(brackets[1]);
    Ok(())
}

/// Runs `write` and makes what it wrote a JSON string.
fn quoted(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<()>) -> Result<()> {
    let start = out.len();
    write(out)?;
    let plain = out[start..].to_vec();
    out.truncate(start);
    put_string(&plain, out);
    Ok(())
}

fn put_string(text: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.put_slice(&[b'\\', *byte]),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            0x08 => out.put_slice(b"\\b"),
            0x0c => out.put_slice(b"\\f"),
            0..0x20 => out.put_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.put_u8(*byte),
        }
    }
    out.put_u8(b'"');
}
