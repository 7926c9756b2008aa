//! Dictionaries of structured fields (RFC 9651), as far as caching needs them.
//!
//! Follows the parsing algorithm of RFC 9651 §4.2, step by step. One wrong byte makes the whole dictionary invalid.
//! Parameters, and values that no cache directive has (inner lists, byte sequences, dates), are checked and then
//! dropped.
//!
//! Not known here: the meaning of a member.
//! Limits: those of the field section.

use fields::Fields;

/// The value of a member. Only types that a cache directive can have are distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Up to 15 digits.
    Integer(i64),
    /// A member without a value is true.
    Boolean(bool),
    /// A string in quotation marks.
    String,
    /// Anything else.
    Other,
}

/// The members of the dictionary in all lines of this name. Each key occurs once, with its last value.
///
/// `None` if there is no such line or it does not parse. An empty line is a dictionary without members.
pub fn dictionary(fields: &Fields, name: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut text = Vec::new();
    for (index, line) in fields.all(name).enumerate() {
        //= rfc9651 §4.2   field lines are combined with a comma
        if index > 0 {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line);
    }
    if !fields.contains(name) {
        return None;
    }
    parse_dictionary(&text)
}

/// Parses one dictionary. (RFC 9651 §4.2.2)
pub fn parse_dictionary(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut rest = Rest(text);
    let mut members: Vec<(Vec<u8>, Value)> = Vec::new();
    rest.skip(b" ");
    while !rest.is_empty() {
        let key = rest.key()?;
        let value = if rest.take(b'=') {
            rest.item_or_list()?
        } else {
            rest.parameters()?;
            Value::Boolean(true)
        };
        //= rfc9651 §4.2.2   the last of several members of one name counts
        match members.iter_mut().find(|(other, _)| *other == key) {
            Some(member) => member.1 = value,
            None => members.push((key.to_vec(), value)),
        }
        rest.skip(b" \t");
        if rest.is_empty() {
            return Some(members);
        }
        if !rest.take(b',') {
            return None;
        }
        rest.skip(b" \t");
        if rest.is_empty() {
            return None; // a comma at the end
        }
    }
    Some(members)
}

/// The bytes not yet read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        if there {
            self.next();
        }
        there
    }

    fn skip(&mut self, blanks: &[u8]) {
        self.run(|byte| blanks.contains(&byte));
    }

    /// Takes the longest run of bytes that `wanted` accepts.
    fn run(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.0.iter().take_while(|&&byte| wanted(byte)).count();
        let (run, rest) = self.0.split_at(len);
        self.0 = rest;
        run
    }

    /// (RFC 9651 §4.2.3.3)
    fn key(&mut self) -> Option<&'a [u8]> {
        self.peek()
            .filter(|byte| byte.is_ascii_lowercase() || *byte == b'*')?;
        Some(self.run(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
        }))
    }

    fn item_or_list(&mut self) -> Option<Value> {
        if self.peek() == Some(b'(') {
            self.inner_list()?;
            return Some(Value::Other);
        }
        let value = self.bare_item()?;
        self.parameters()?;
        Some(value)
    }

    /// (RFC 9651 §4.2.1.2)
    fn inner_list(&mut self) -> Option<()> {
        self.next();
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return self.parameters();
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    /// (RFC 9651 §4.2.3.2)
    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// (RFC 9651 §4.2.3.1)
    fn bare_item(&mut self) -> Option<Value> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                self.run(|byte| {
                    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
                });
                Some(Value::Other)
            }
            b':' => self.byte_sequence(),
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(Value::Boolean(false)),
                    b'1' => Some(Value::Boolean(true)),
                    _ => None,
                }
            }
            b'@' => {
                self.next();
                let whole = matches!(self.number()?, Value::Integer(_));
                whole.then_some(Value::Other)
            }
            b'%' => self.display_string(),
            _ => None,
        }
    }

    /// Takes an integer, or a decimal, which is [`Value::Other`]. (RFC 9651 §4.2.4)
    fn number(&mut self) -> Option<Value> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let digits = self.run(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let fraction = self.run(|byte| byte.is_ascii_digit());
            let fits = digits.len() <= 12 && (1..=3).contains(&fraction.len());
            return fits.then_some(Value::Other);
        }
        let value = digits
            .iter()
            .fold(0, |sum: i64, digit| sum * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(sign * value))
    }

    /// (RFC 9651 §4.2.5)
    fn string(&mut self) -> Option<Value> {
        self.next();
        loop {
            match self.next()? {
                b'"' => return Some(Value::String),
                b'\\' => {
                    self.next().filter(|byte| b"\"\\".contains(byte))?;
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// (RFC 9651 §4.2.7)
    fn byte_sequence(&mut self) -> Option<Value> {
        self.next();
        let coded = self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
        // Padding may be missing, but must be at the end.
        let data = coded.iter().position(|&byte| byte == b'=');
        let (data, padding) = coded.split_at(data.unwrap_or(coded.len()));
        let most = match data.len() % 4 {
            0 => 0,
            1 => return None,
            over => 4 - over,
        };
        let sound = padding.iter().all(|&byte| byte == b'=') && padding.len() <= most;
        (sound && self.take(b':')).then_some(Value::Other)
    }

    /// (RFC 9651 §4.2.10)
    fn display_string(&mut self) -> Option<Value> {
        self.next();
        if !self.take(b'"') {
            return None;
        }
        let mut text = Vec::new();
        loop {
            match self.next()? {
                b'"' => return std::str::from_utf8(&text).ok().map(|_| Value::Other),
                b'%' => {
                    let mut digit = || {
                        let byte = self.next()?;
                        let lower = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                        lower.then(|| (byte as char).to_digit(16)).flatten()
                    };
                    let (high, low) = (digit()?, digit()?);
                    text.push((high * 16 + low) as u8);
                }
                byte @ b' '..=b'~' => text.push(byte),
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    fn check(text: &str, expected: &str) {
        let found = match parse_dictionary(text.as_bytes()) {
            None => "refused".to_owned(),
            Some(members) => members
                .iter()
                .map(|(key, value)| format!("{}={value:?}", String::from_utf8_lossy(key)))
                .collect::<Vec<_>>()
                .join(" "),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn members() {
        check("", "");
        check("   ", "");
        check("a", "a=Boolean(true)");
        check(
            "a=1, b=?0,c ,\td=\"x\\\"y\"",
            "a=Integer(1) b=Boolean(false) c=Boolean(true) d=String",
        );
        check("max-age=60;p=1; q", "max-age=Integer(60)");
        check("a;p, b", "a=Boolean(true) b=Boolean(true)");
        check("a=1, a=x", "a=Other");
        check("a=-15", "a=Integer(-15)");
        check("a=999999999999999", "a=Integer(999999999999999)");
        check(
            "a=1.5, *b=tok/en:x, c=:aGk=:, d=@17, e=(1 2;x \"y\");z, f=()",
            "a=Other *b=Other c=Other d=Other e=Other f=Other",
        );
        check("a=%\"f%c3%bc\"", "a=Other");
        check(" a=1  ", "a=Integer(1)");
    }

    #[test]
    fn refused() {
        for text in [
            "A",
            "a,",
            ",a",
            "a,,b",
            "a b",
            "a=",
            "a =1",
            "a= 1",
            "1",
            "\ta",
            "a=1;",
            "a=1;P",
            "a=1;p=",
            "a=1000000000000000",
            "a=1.",
            "a=1.2345",
            "a=1234567890123.1",
            "a=--1",
            "a=-",
            "a=+1",
            "a=\"x",
            "a=\"\\x\"",
            "a=\"\u{7f}\"",
            "a=\"\u{e4}\"",
            "a=?",
            "a=?2",
            "a=?true",
            "a=:a:",
            "a=:ab",
            "a=:a=b:",
            "a=:xYax=:",
            "a=:aGk==:",
            "a=(1",
            "a=(1,2)",
            "a=(1\t2)",
            "a=((1))",
            "a=@1.5",
            "a=%x",
            "a=%\"%C3\"",
            "a=%\"%c3\"",
            "a=[b]",
            "a=\u{e4}",
            "a;b;c=\u{1}",
            "a=1 b=2",
            "a=1;p=(1)",
            "a={}",
        ] {
            check(text, "refused");
        }
    }

    #[test]
    fn lines_make_one_dictionary() {
        let of = |text: &str| dictionary(&fields(text), b"d");
        assert_eq!(of("X: a"), None);
        assert_eq!(of("D:"), Some(Vec::new()));
        let two = of("D: a=1 & X: b & d: a=2, c").unwrap();
        assert_eq!(two.len(), 2);
        assert_eq!(two[0], (b"a".to_vec(), Value::Integer(2)));
        //= rfc9651 §4.2   an empty line among others is a comma without a member
        assert_eq!(of("D: a & D:"), None);
    }
}
