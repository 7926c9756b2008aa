//! The keys of variants.

use crate::mistakes::{Mistake, makes};
use fields::Fields;
use httpcache::VaryList;

/// The key of a variant: that of the resource, the marker's salt, the selecting values.
pub fn variant_key(primary_key: &[u8], salt: u64, list: &[u8], request: &Fields) -> Vec<u8> {
    let mut key = Vec::with_capacity(primary_key.len() + 64);
    key.extend_from_slice(primary_key);
    key.push(b'\n');
    key.extend_from_slice(&salt.to_le_bytes());
    if let Some(list) = VaryList::from_bytes(list)
        && !makes(Mistake::OneVariant)
    {
        httpcache::vary_key(&list, request, &mut key);
    }
    key
}
