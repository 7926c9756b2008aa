//! HPACK written from RFC 7541 as plainly as it goes: the twin that `http2::hpack` is compared with.
//!
//! The two tables of the RFC are the crate's own (a test there compares them with the `h2` crate); nothing else is shared.

#[path = "../../../crates/http2/src/huffman/codes.rs"]
#[allow(unreachable_pub)]
mod codes;

#[path = "../../../crates/http2/src/hpack/constant.rs"]
#[allow(dead_code, unreachable_pub)]
mod constant;

use constant::STATIC;

type Pair = (Vec<u8>, Vec<u8>);

pub struct Twin {
    /// Newest first.
    table: Vec<Pair>,
    size_max: usize,
    size_limit: usize,
}

impl Twin {
    pub fn new(size_limit: usize) -> Twin {
        Twin {
            table: Vec::new(),
            size_max: size_limit,
            size_limit,
        }
    }

    /// The fields of a block; `None`: it is broken.
    pub fn decode(&mut self, block: &[u8]) -> Option<Vec<Pair>> {
        let mut rest = block;
        let mut fields = Vec::new();
        while let Some(&first) = rest.first() {
            if first >= 0x80 {
                let index = integer(7, &mut rest)?;
                fields.push(self.entry(index)?);
            } else if first >= 0x40 {
                let field = self.literal(6, &mut rest)?;
                self.table.insert(0, field.clone());
                self.evict();
                fields.push(field);
            } else if first >= 0x20 {
                let size = integer(5, &mut rest)?;
                if !fields.is_empty() || size > self.size_limit {
                    return None;
                }
                self.size_max = size;
                self.evict();
            } else {
                fields.push(self.literal(4, &mut rest)?);
            }
        }
        Some(fields)
    }

    fn entry(&self, index: usize) -> Option<Pair> {
        let index = index.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(index) {
            return Some((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        self.table.get(index - STATIC.len()).cloned()
    }

    fn literal(&self, prefix: u32, rest: &mut &[u8]) -> Option<Pair> {
        let name = match integer(prefix, rest)? {
            0 => string(rest)?,
            index => self.entry(index)?.0,
        };
        Some((name, string(rest)?))
    }

    fn evict(&mut self) {
        let size = |(name, value): &Pair| name.len() + value.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > self.size_max {
            self.table.pop();
        }
    }
}

/// At most four bytes behind the prefix, as the crate's limit is.
fn integer(prefix: u32, rest: &mut &[u8]) -> Option<usize> {
    let max = 2usize.pow(prefix) - 1;
    let mut value = take(rest)? as usize & max;
    if value < max {
        return Some(value);
    }
    for power in 0..4 {
        let byte = take(rest)? as usize;
        value += (byte % 128) * 128usize.pow(power);
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

fn take(rest: &mut &[u8]) -> Option<u8> {
    let (&first, left) = rest.split_first()?;
    *rest = left;
    Some(first)
}

fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let is_coded = *rest.first()? >= 0x80;
    let len = integer(7, rest)?;
    if len > rest.len() {
        return None;
    }
    let (text, left) = rest.split_at(len);
    *rest = left;
    if is_coded {
        huffman(text)
    } else {
        Some(text.to_vec())
    }
}

/// A bit at a time.
fn huffman(coded: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut code, mut bits) = (0u32, 0u8);
    for byte in coded {
        for at in (0..8).rev() {
            code = code * 2 + u32::from(byte >> at & 1);
            bits += 1;
            let symbol = codes::CODES.iter().position(|known| *known == (code, bits));
            if let Some(symbol) = symbol {
                out.push(u8::try_from(symbol).ok()?);
                (code, bits) = (0, 0);
            } else if bits >= 30 {
                return None;
            }
        }
    }
    // Padding: fewer than eight bits, all of them ones.
    (bits < 8 && code == 2u32.pow(u32::from(bits)) - 1).then_some(out)
}
