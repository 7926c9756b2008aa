//! The WebSocket handshake with an HTTP/1.1 origin, on behalf of an HTTP/2 client (RFC 8441, RFC 6455 §4).
//!
//! HTTP/2 has no key and no accept value; the proxy sends a key of its own and checks the answer, so that a mistaken cache on the way is
//! not taken for the origin.

use fields::Fields;
use ring::digest;

/// The suffix of the key in RFC 6455 §1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A value of Sec-WebSocket-Key.
#[derive(Clone, Debug)]
pub struct Key(String);

impl Key {
    /// Makes a key from random bytes.
    pub fn new(random: [u8; 16]) -> Key {
        Key(base64(&random))
    }

    /// Adds the fields of an HTTP/1.1 handshake to a request.
    pub fn ask(&self, fields: &mut Fields) {
        fields.remove(b"sec-websocket-key");
        fields.push(b"Upgrade", b"websocket");
        fields.push(b"Connection", b"Upgrade");
        fields.push(b"Sec-WebSocket-Key", self.0.as_bytes());
        if !fields.contains(b"sec-websocket-version") {
            fields.push(b"Sec-WebSocket-Version", b"13");
        }
    }

    /// Does the origin's 101 answer this key?
    pub fn is_accepted_by(&self, answer: &Fields) -> bool {
        let both = [self.0.as_bytes(), GUID].concat();
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &both);
        let accept = answer.first(b"sec-websocket-accept");
        accept.is_some_and(|accept| accept == base64(digest.as_ref()).as_bytes())
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { digit.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    //= rfc6455 §1.3   its own example
    #[test]
    fn the_example_of_the_rfc() {
        let key = Key::new(*b"the sample nonce");
        assert_eq!(key.0, "dGhlIHNhbXBsZSBub25jZQ==");
        let mut answer = Fields::new();
        assert!(!key.is_accepted_by(&answer));
        answer.push(b"Sec-WebSocket-Accept", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(key.is_accepted_by(&answer));
    }
}
