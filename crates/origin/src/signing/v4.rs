//! AWS Signature Version 4 of a request for an object store.
//!
//! ```text
//!   canonical request = method, path, query, signed fields with their values, their names, hash of the body
//!   string to sign    = algorithm, time, scope (day, region, service), SHA-256 of the canonical request
//!   signature         = HMAC of that, by a key derived from secret, day, region and service
//! ```
//!
//! Path and query are sent in the canonical form itself: each byte that is not unreserved becomes one `%XX`. The signature is then the same
//! whether a store canonicalizes the bytes that came or their decoded form.
//!
//! Not known here: where credentials come from, which requests are signed, time.
//! Source: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API Reference. S3 does not encode the path twice.

use std::fmt::Write as _;

use ring::{digest, hmac};

/// Used in place of the body's hash, because the body is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The signing key, and its scope.
pub struct Signature<'a> {
    /// The name of the key.
    pub access_key: &'a str,
    /// The key.
    pub secret_key: &'a str,
    /// The region,
    pub region: &'a str,
    /// and the service there.
    pub service: &'a str,
    /// The time: `20130524T000000Z`.
    pub at: &'a str,
}

/// The parts of a request that are signed.
pub struct Signed<'a> {
    /// The method.
    pub method: &'a str,
    /// In canonical form.
    pub path: &'a str,
    /// In canonical form, without `?`.
    pub query: &'a str,
    /// Names in lower case, sorted, each once; values without surrounding blanks.
    pub fields: &'a [(String, String)],
    /// The SHA-256 of the body in hexadecimal digits, or [`UNSIGNED_PAYLOAD`].
    pub payload: &'a str,
}

impl Signature<'_> {
    /// The value of Authorization.
    pub fn authorization(&self, signed: &Signed<'_>) -> String {
        let names: Vec<&str> = signed.fields.iter().map(|(name, _)| &**name).collect();
        let names = names.join(";");
        let mut canonical = String::with_capacity(512);
        let _ = writeln!(
            canonical,
            "{}\n{}\n{}",
            signed.method, signed.path, signed.query
        );
        for (name, value) in signed.fields {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{}", signed.payload);
        let day = self.at.get(..8).unwrap_or(self.at);
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let to_sign = format!("{ALGORITHM}\n{}\n{scope}\n{hash}", self.at);
        let signature = hex(mac(&self.key(day), to_sign.as_bytes()).as_ref());
        format!(
            "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.access_key
        )
    }

    fn key(&self, day: &str) -> Vec<u8> {
        let mut key = ["AWS4", self.secret_key].concat().into_bytes();
        for part in [day, self.region, self.service, "aws4_request"] {
            key = mac(&key, part.as_bytes()).as_ref().to_vec();
        }
        key
    }
}

fn mac(key: &[u8], data: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data)
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

/// A path in canonical form; `None`: it has a segment `.` or `..`, encoded or not, which some servers resolve.
pub fn canonical_path(path: &str) -> Option<String> {
    let decoded = decoded(path.as_bytes(), false);
    let mut segments = decoded.split(|&byte| byte == b'/');
    if segments.any(|segment| segment == b"." || segment == b"..") {
        return None;
    }
    Some(encoded(&decoded, b"/"))
}

/// A query (without `?`) in canonical form: pairs in order, each with its `=`. A `+` is a blank, as in forms.
pub fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let canonical = |part: &str| encoded(&decoded(part.as_bytes(), true), b"");
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (canonical(name), canonical(value)))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    pairs.join("&")
}

/// Decodes percent encoding. A `%` without two hexadecimal digits stands for itself.
fn decoded(text: &[u8], is_form: bool) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let value = match (byte, behind) {
            (b'%', &[high, low, ..]) => digit(high).zip(digit(low)),
            _ => None,
        };
        match value {
            Some((high, low)) => {
                out.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            None if is_form && byte == b'+' => out.push(b' '),
            None => out.push(byte),
        }
    }
    out
}

/// Encodes a value of a form.
pub fn form_value(value: &str) -> String {
    encoded(value.as_bytes(), b"")
}

/// Encodes each byte that is neither unreserved nor in `kept` as `%XX`.
fn encoded(bytes: &[u8], kept: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        //= rfc3986 §2.3   unreserved
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match is_plain || kept.contains(&byte) {
            true => out.push(byte.into()),
            false => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Names signed, and the signature, of an example from the S3 API Reference ("Authenticating Requests: Using the Authorization Header").
    fn example(method: &str, target: &str, more: &[(&str, &str)], payload: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut fields: Vec<(String, String)> = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("x-amz-content-sha256", payload),
            ("x-amz-date", "20130524T000000Z"),
        ]
        .iter()
        .chain(more)
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
        fields.sort();
        let signature = Signature {
            access_key: "AKIAIOSFODNN7EXAMPLE",
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "s3",
            at: "20130524T000000Z",
        };
        signature.authorization(&Signed {
            method,
            path: &canonical_path(path).unwrap(),
            query: &canonical_query(query),
            fields: &fields,
            payload,
        })
    }

    #[test]
    fn signatures_are_those_that_amazon_has_published() {
        let scope =
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, ";
        let range = example("GET", "/test.txt", &[("range", "bytes=0-9")], EMPTY);
        assert_eq!(
            range,
            format!(
                "{scope}SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
            )
        );
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        let hash = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        for (authorization, signature) in [
            (
                example("PUT", "/test$file.text", &put, hash),
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                example("GET", "/?lifecycle", &[], EMPTY),
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                example("GET", "/?prefix=J&max-keys=2", &[], EMPTY),
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            assert!(authorization.ends_with(signature), "{authorization}");
        }
    }

    /// Two cases of the suite that Amazon publishes for all services (`get-vanilla`, `get-vanilla-query-order-key-case`).
    #[test]
    fn signatures_are_those_of_the_suite() {
        let fields = [
            ("host", "example.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let signature = Signature {
            access_key: "AKIDEXAMPLE",
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
            at: "20150830T123600Z",
        };
        for (query, expected) in [
            (
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let authorization = signature.authorization(&Signed {
                method: "GET",
                path: "/",
                query: &canonical_query(query),
                fields: &fields,
                payload: EMPTY,
            });
            assert!(authorization.ends_with(expected), "{authorization}");
        }
    }

    #[test]
    fn a_path_is_decoded_once_and_encoded_once() {
        for (path, canonical) in [
            ("/", "/"),
            ("/a b+c", "/a%20b%2Bc"),
            ("/a%20b%2bc", "/a%20b%2Bc"),
            ("/a%2Fb//c/", "/a/b//c/"),
            ("/%C3%A4~x-._", "/%C3%A4~x-._"),
            ("/ä", "/%C3%A4"),
            ("/%7E%41", "/~A"),
            ("/%2541", "/%2541"),
            ("/100%/%zz%", "/100%25/%25zz%25"),
            (
                "/a=b&c;d:e@f!$'()*,",
                "/a%3Db%26c%3Bd%3Ae%40f%21%24%27%28%29%2A%2C",
            ),
            ("/..a/.b/c..", "/..a/.b/c.."),
        ] {
            assert_eq!(canonical_path(path).as_deref(), Some(canonical), "{path}");
        }
        for path in [
            "/../a",
            "/a/..",
            "/a/%2e%2E/b",
            "/a%2f..%2fb",
            "/.",
            "/a/./b",
        ] {
            assert_eq!(canonical_path(path), None, "{path}");
        }
    }

    #[test]
    fn a_query_is_in_order() {
        for (query, canonical) in [
            ("", ""),
            ("acl", "acl="),
            ("list-type=2&prefix=a%2Fb", "list-type=2&prefix=a%2Fb"),
            ("prefix=a/b+c&delimiter=/", "delimiter=%2F&prefix=a%2Fb%20c"),
            ("b=2&a=3&a=1&&B=0", "B=0&a=1&a=3&b=2"),
            ("a==&b=%3d", "a=%3D&b=%3D"),
        ] {
            assert_eq!(canonical_query(query), canonical, "{query}");
        }
    }
}
