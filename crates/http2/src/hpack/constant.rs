//! The static table of RFC 7541, Appendix A.

/// Names and values; the entry of index 1 is the first.
pub(crate) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The lowest index of that name, which is in lower case; `None` if the table has none.
pub(crate) fn index_of(name: &[u8]) -> Option<u8> {
    let candidates: &[u8] = match name.len() {
        3 => &[21, 60],
        4 => &[33, 34, 37, 38, 45, 59],
        5 => &[4, 22, 50],
        6 => &[19, 32, 35, 54],
        7 => &[2, 6, 8, 36, 51, 52],
        8 => &[39, 42, 46],
        10 => &[1, 55, 58],
        11 => &[53],
        12 => &[31, 47],
        13 => &[18, 23, 24, 30, 41, 44],
        14 => &[15, 28],
        15 => &[16, 17],
        16 => &[26, 27, 29, 61],
        17 => &[40, 57],
        18 => &[48],
        19 => &[25, 43, 49],
        25 => &[56],
        27 => &[20],
        _ => &[],
    };
    candidates
        .iter()
        .copied()
        .find(|&index| STATIC[usize::from(index) - 1].0.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_lowest_index() {
        for (at, (name, _)) in STATIC.iter().enumerate() {
            let lowest = STATIC.iter().position(|(other, _)| other == name).unwrap();
            assert_eq!(index_of(name.as_bytes()), Some(lowest as u8 + 1), "{at}");
        }
        for other in ["", "x", "ago", ":pat", "cache-status"] {
            assert_eq!(index_of(other.as_bytes()), None);
        }
    }
}
