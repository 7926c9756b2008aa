//! Heads as blocks of fields (RFC 9113 §8.3), from the lines that HTTP/1 has.
//!
//! Not known here: streams, what is answered.

use cache::object::Object;

/// The block of an object's head, as it is kept.
pub fn block_of(object: &Object) -> Vec<u8> {
    let mut block = Vec::with_capacity(object.head.len());
    write_head(object.status, &object.head, &mut block);
    block
}

/// Writes status line and field lines as a block.
pub fn write_head(status: u16, lines: &[u8], out: &mut Vec<u8>) {
    http2::write_status(status, out);
    let fields = lines.iter().position(|&byte| byte == b'\n');
    http2::write_lines(&lines[fields.map_or(lines.len(), |at| at + 1)..], out);
}
