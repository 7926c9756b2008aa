//! A head as lines: the form in which heads are stored, and sent by HTTP/1.
//!
//! Not known here: the meaning of fields.

use fields::Fields;

/// Writes status line and fields; returns the place of the value of Content-Type (start, length).
pub fn write_head(status: u16, reason: &str, fields: &Fields, out: &mut Vec<u8>) -> (u16, u16) {
    let base = out.len();
    crate::write_status_line(status, reason, out);
    let before = out.len() - base;
    fields.write_to(out);
    let content_type = fields.place_of_last(b"content-type").and_then(|place| {
        let start = u16::try_from(before + place.start).ok()?;
        Some((start, u16::try_from(place.len()).ok()?))
    });
    content_type.unwrap_or_default()
}

/// Appends a field line.
pub fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line with a number.
pub fn write_number_field(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    message::write_decimal(value, out);
    out.extend_from_slice(b"\r\n");
}

/// Splits a head written by [`write_head`] back into fields.
pub fn fields_of_head(head: &[u8]) -> Fields {
    let mut fields = Fields::with_capacity(16, head.len());
    let mut lines = head.split(|&b| b == b'\n');
    lines.next(); // the status line
    for line in lines {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = memchr::memchr(b':', line) else {
            continue;
        };
        fields.push(&line[..colon], line[colon + 1..].trim_ascii());
    }
    fields
}
