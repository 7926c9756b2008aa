//! From keys to URLs and variants, and back.
//!
//! The forms of keys are the proxy's (`proxy::stored`). Keys without such a form, for example of another version, are
//! shown as they are.

use bytes::Bytes;
use fields::Fields;
use httpcache::{UnixMillis, VaryList};
use proxy::stored::{KEY_PREFIX, Large, Object, fragment_key, hash_of_key, variant_key};
use serde_json::{Value, json};
use store::{Inspection, KeyHash, ObjectTotal, RecordHead};

use super::show;

/// A key, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The URI.
    pub uri: &'a [u8],
    /// How the resource was reached, if that matters.
    pub tag: Option<&'a [u8]>,
    /// The salt and selecting values of a variant.
    pub variant: Option<(u64, &'a [u8])>,
}

impl<'a> Key<'a> {
    /// Takes the key of an object apart (not that of a fragment).
    pub fn of(key: &'a [u8]) -> Self {
        let rest = key.strip_prefix(KEY_PREFIX).unwrap_or(key);
        let split = |bytes: &'a [u8], at: u8| match bytes.iter().position(|&byte| byte == at) {
            Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
            None => (bytes, None),
        };
        let (resource, variant) = split(rest, b'\n');
        let (uri, tag) = split(resource, b'\t');
        let variant = variant.and_then(|bytes| bytes.split_first_chunk());
        Self {
            uri,
            tag,
            variant: variant.map(|(salt, values)| (u64::from_le_bytes(*salt), values)),
        }
    }
}

/// The key of a resource; `None` if the text is not an http or https URL.
pub fn key_of_url(url: &str, tag: Option<&str>) -> Option<Vec<u8>> {
    let mut key = KEY_PREFIX.to_vec();
    message::Named::parse(url)?.write(&mut key);
    if let Some(tag) = tag {
        key.push(b'\t');
        key.extend_from_slice(tag.as_bytes());
    }
    Some(key)
}

/// The beginning of the keys of all resources whose URI begins with `prefix`.
pub fn key_of_prefix(prefix: &str) -> Vec<u8> {
    [KEY_PREFIX, prefix.as_bytes()].concat()
}

/// The key of the variant that a request with these fields selects.
pub fn key_of_variant(
    resource: &[u8],
    marker: &store::Marker,
    fields: &[(String, String)],
) -> Vec<u8> {
    let mut request = Fields::new();
    for (name, value) in fields {
        request.push(name.as_bytes(), value.as_bytes());
    }
    variant_key(resource, marker.salt, &marker.list, &request, b"")
}

/// The request fields that select among the variants behind a marker.
pub fn selecting(marker: &store::Marker) -> Vec<String> {
    let list = VaryList::from_bytes(&marker.list);
    let names = list.iter().flat_map(VaryList::names);
    names.map(show::harmless).collect()
}

/// The fields that select this variant, each with its values; `None` for a field that the request must not have.
pub fn selection(marker: &store::Marker, mut values: &[u8]) -> Vec<(String, Option<String>)> {
    let mut selection = Vec::new();
    for name in selecting(marker) {
        let Some(count) = take_number(&mut values) else {
            break;
        };
        let members: Option<Vec<String>> = (1..count)
            .map(|_| {
                let len = usize::try_from(take_number(&mut values)?).ok()?;
                let (member, rest) = values.split_at_checked(len)?;
                values = rest;
                Some(show::harmless(member))
            })
            .collect();
        let Some(members) = members else { break };
        selection.push((name, (count > 0).then(|| members.join(", "))));
    }
    selection
}

/// A number in seven-bit groups, low first, as `httpcache::vary_key` writes it.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Would the proxy find this key? A variant needs the marker under which it was stored; other keys need that there is no marker.
pub fn is_in_reach(inspection: &Inspection, primary: KeyHash, key: &Key<'_>) -> bool {
    let salt = inspection.marker(primary).map(|marker| marker.salt);
    salt == key.variant.map(|(salt, _)| salt)
}

/// The number of an object's fragments that the index has.
pub fn fragments_there(inspection: &Inspection, key: &[u8], total: &ObjectTotal) -> u32 {
    let hasher = inspection.hasher();
    let is_there = |number: &u32| {
        let key = fragment_key(key, total.fetch_id, *number);
        inspection.find(hash_of_key(hasher, &key)).is_some()
    };
    (0..total.fragments).filter(is_there).count() as u32
}

/// The response in a record's metadata; `None` if this version does not understand the metadata.
pub fn object_of(head: &RecordHead) -> Option<Object> {
    let large = head.total.map(|total| Large {
        fetch_id: total.fetch_id,
        fragments: total.fragments,
        bytes: total.bytes,
    });
    Object::decode(head.hash, head.key.clone(), &head.meta, Bytes::new(), large)
}

/// An object without its body, as it is listed.
pub struct Listed<'a> {
    /// Its record.
    pub head: &'a RecordHead,
    /// Its key.
    pub key: Key<'a>,
    /// Its response, if the metadata is understood.
    pub object: Option<Object>,
    /// Fragments that are there, and how many there should be.
    pub fragments: Option<(u32, u32)>,
    /// The request fields that select it, if it is a variant.
    pub selection: Vec<(String, Option<String>)>,
}

impl<'a> Listed<'a> {
    /// The object whose record has this head.
    pub fn of(inspection: &Inspection, head: &'a RecordHead) -> Self {
        let key = Key::of(&head.key);
        let fragments = head.total.as_ref().map(|total| {
            let there = fragments_there(inspection, &head.key, total);
            (there, total.fragments)
        });
        let marker = inspection.marker(head.primary);
        let selection = match (&marker, key.variant) {
            (Some(marker), Some((_, values))) => selection(marker, values),
            _ => Vec::new(),
        };
        Self {
            object: object_of(head),
            head,
            key,
            fragments,
            selection,
        }
    }

    /// Length of the whole body.
    pub fn body_bytes(&self) -> u64 {
        self.head
            .total
            .map_or(self.head.body_bytes, |total| total.bytes)
    }

    /// Are all fragments there?
    pub fn is_complete(&self) -> bool {
        self.fragments.is_none_or(|(there, all)| there == all)
    }

    /// The URL with tag and variant.
    pub fn name(&self) -> String {
        let mut name = show::harmless(self.key.uri);
        if let Some(tag) = self.key.tag {
            name += &format!(" [tag {}]", show::harmless(tag));
        }
        for (field, value) in &self.selection {
            match value {
                Some(value) => name += &format!(" [{field}: {value}]"),
                None => name += &format!(" [no {field}]"),
            }
        }
        name
    }

    /// The object as JSON.
    pub fn json(&self, now: UnixMillis) -> Value {
        let head = self.head;
        let object = self.object.as_ref();
        let standing = object.map(|object| &object.standing);
        let variant: serde_json::Map<String, Value> = self
            .selection
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        json!({
            "url": String::from_utf8_lossy(self.key.uri),
            "tag": self.key.tag.map(String::from_utf8_lossy),
            "variant": self.key.variant.is_some().then_some(variant),
            "status": object.map(|object| object.status),
            "content_type": object.map(|object| String::from_utf8_lossy(object.content_type())),
            "body_bytes": self.body_bytes(),
            "age_s": standing.map(|standing| standing.age_s(now)),
            "ttl_s": standing.map(|standing| standing.ttl_s(now)),
            "fresh": standing.map(|standing| standing.is_fresh(now)),
            "stored_unix_ms": head.stored_unix_ms,
            "fragments": self.fragments.map(|(_, all)| all),
            "fragments_there": self.fragments.map(|(there, _)| there),
            "complete": self.is_complete(),
            "sequence": head.sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn keys_are_taken_apart() {
        let key = key_of_url("HTTP://Example.org:80", None).unwrap();
        assert_eq!(key, b"GET http://example.org/");
        let tagged = key_of_url("http://h/a?b", Some("listener 1")).unwrap();
        let marker = store::Marker {
            salt: 9,
            list: Arc::from(&b"accept-encoding,cookie"[..]),
        };
        let fields = [("Accept-Encoding".to_owned(), "GZIP, br".to_owned())];
        let variant = key_of_variant(&tagged, &marker, &fields);
        let key = Key::of(&variant);
        assert_eq!(key.uri, b"http://h/a?b");
        assert_eq!(key.tag, Some(&b"listener 1"[..]));
        let (salt, values) = key.variant.unwrap();
        assert_eq!(salt, 9);
        let expected = [
            ("accept-encoding".to_owned(), Some("br, gzip".to_owned())),
            ("cookie".to_owned(), None),
        ];
        assert_eq!(selection(&marker, values), expected);
        for len in 0..values.len() {
            let _ = selection(&marker, &values[..len]);
        }
        assert_eq!(key_of_url("ftp://h/", None), None);
    }
}
