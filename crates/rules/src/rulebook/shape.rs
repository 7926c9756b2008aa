//! A rule's changes to keys.
//!
//! Ignored parameters are cut from the URI in the key; the origin gets all of them. Fields and cookies in the key are in the key of the
//! variant, name and value, as if the response had named them in Vary.
//!
//! Not known here: which rule applies.

use fields::Fields;

use plan::KeyRule;

/// A rule's changes to keys.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Shape(KeyRule);

impl Shape {
    /// Prepares a rule's changes.
    pub fn new(key: &KeyRule) -> Shape {
        let mut key = key.clone();
        key.fields.sort_unstable();
        key.fields.dedup();
        key.cookies.sort_unstable();
        key.cookies.dedup();
        Shape(key)
    }

    /// Are fields or cookies part of the key?
    pub fn has_extras(&self) -> bool {
        !self.0.fields.is_empty() || !self.0.cookies.is_empty()
    }

    /// Cuts ignored parameters from the URI that begins at `from`.
    pub fn cut_query(&self, out: &mut Vec<u8>, from: usize) {
        if self.0.ignore_query.is_empty() {
            return;
        }
        let Some(mark) = memchr::memchr(b'?', &out[from..]) else {
            return;
        };
        let start = from + mark + 1;
        let (mut read, mut write, end) = (start, start, out.len());
        let mut kept = 0;
        loop {
            let stop = memchr::memchr(b'&', &out[read..end]).map_or(end, |len| read + len);
            if !self.ignores(&out[read..stop]) {
                if kept > 0 {
                    out[write] = b'&';
                    write += 1;
                }
                kept += 1;
                out.copy_within(read..stop, write);
                write += stop - read;
            }
            if stop == end {
                break;
            }
            read = stop + 1;
        }
        out.truncate(if kept == 0 { start - 1 } else { write });
    }

    fn ignores(&self, parameter: &[u8]) -> bool {
        let name = parameter.split(|&b| b == b'=').next().unwrap_or_default();
        // Some origins read `;` like `&`: a parameter that is not ignored may follow it.
        let hides = memchr::memchr(b';', parameter).is_some();
        self.0.ignore_query.iter().any(|one| {
            let one = one.as_bytes();
            match one.strip_suffix(b"*") {
                Some(b"") => true,
                Some(front) => !hides && name.starts_with(front),
                None => !hides && name == one,
            }
        })
    }

    /// The fields and cookies in the key, with the request's values: for each its name and `=`, the number of values, and each
    /// value after its length.
    pub fn extras(&self, request: &Fields) -> Vec<u8> {
        let mut out = Vec::new();
        for name in &self.0.fields {
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            httpcache::vary_key_of(name.as_bytes(), request, &mut out);
        }
        for name in &self.0.cookies {
            out.extend_from_slice(b"cookie:");
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            // All cookies of this name, because the origin may use any of them.
            let values: Vec<&[u8]> = cookies(request, name.as_bytes()).collect();
            out.extend_from_slice(&(values.len() as u32).to_le_bytes());
            for value in values {
                out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                out.extend_from_slice(value);
            }
        }
        out
    }
}

/// The values of the cookies of a name (RFC 6265 §4.2.1; names are case-sensitive).
fn cookies<'a>(request: &'a Fields, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = request.all(b"cookie");
    let pairs = lines.flat_map(|line| line.split(|&b| b == b';'));
    pairs.filter_map(move |pair| {
        let (found, value) = pair.split_at(memchr::memchr(b'=', pair)?);
        (found.trim_ascii() == name).then(|| value[1..].trim_ascii())
    })
}
