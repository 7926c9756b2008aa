//! Methods. A method is text: a proxy passes on methods that it does not know.

/// The longest method accepted. The longest registered one has 17 bytes (UPDATEREDIRECTREF).
pub const METHOD_BYTES_MAX: usize = 32;

/// The registered safe methods, in alphabetical order (IANA HTTP Method Registry, column "Safe"; RFC 9110, 3253, 4918,
/// 5323, QUERY).
const SAFE: [&str; 9] = [
    "GET", "HEAD", "OPTIONS", "PRI", "PROPFIND", "QUERY", "REPORT", "SEARCH", "TRACE",
];

/// Is the method registered as safe? An unknown method counts as unsafe.
//= rfc9110 §9.2.1   safe as the registry says; methods are case-sensitive
pub fn is_safe(method: &str) -> bool {
    SAFE.contains(&method)
}
