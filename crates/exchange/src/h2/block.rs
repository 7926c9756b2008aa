//! Encodes heads as field blocks (RFC 9113 §8.3), from HTTP/1 lines.
//!
//! Not known here: streams, the contents of an answer.

use cache::object::Object;

/// The block of an object's stored head.
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
