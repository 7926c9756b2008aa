//! Changes of fields by rules: of a request before the cache sees it, of an answer when it is sent.
//!
//! An answer is stored as received, and changed for each client that gets it. So a stored answer never contains one client's values, and a
//! changed rule applies to answers stored before. Each field is changed by the first matching rule that names it; within a rule, set values
//! come before added ones.
//!
//! A request is changed before its variant is chosen, so Vary and `key-fields` use the values that the origin sees.
//!
//! Limits: those of [`Edit`]. A field whose value gets control characters from a variable is left out.
//! Not known here: which rules match.

use std::{borrow::Cow, net::IpAddr};

use fields::Fields;
use message::Scheme;

use plan::{Edit, How, Piece, Text, Variable, is_of_value};

use super::fits::{Question, plain_host};

/// The values of variables.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The listener's name, or its address.
    pub listener: &'a str,
    /// The requested resource.
    pub asked: AskedFor<'a>,
    /// A unique number of this request.
    pub id: u64,
    /// Our Cache-Status; empty in requests.
    pub cache_status: &'a [u8],
    /// The status; 0 in requests.
    pub status: u16,
}

/// The parts of a request that variables may name.
#[derive(Clone, Copy)]
pub struct AskedFor<'a> {
    /// The method.
    pub method: &'a str,
    /// The scheme, if there is one.
    pub scheme: Option<Scheme>,
    /// The host, as received.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// Path and query, as received.
    pub path: &'a str,
}

impl<'a> AskedFor<'a> {
    /// The parts of a question.
    pub fn of(question: &Question<'a>) -> AskedFor<'a> {
        AskedFor {
            method: question.method,
            scheme: question.scheme,
            host: question.host,
            port: question.port,
            path: question.path.unwrap_or_default(),
        }
    }
}

impl Values<'_> {
    /// The text with its variables replaced; `None` if the result is not allowed as a field value.
    pub fn fill(&self, text: &Text) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(64);
        for piece in &text.pieces {
            match piece {
                Piece::Plain(plain) => out.extend_from_slice(plain.as_bytes()),
                Piece::Variable(variable) => self.write(*variable, &mut out),
            }
        }
        out.iter().all(|&byte| is_of_value(byte)).then_some(out)
    }

    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        let asked = &self.asked;
        let text: Cow<'_, str> = match variable {
            Variable::Client => self.client.to_canonical().to_string().into(),
            Variable::Listener => self.listener.into(),
            Variable::Scheme => asked.scheme.map_or("", Scheme::as_str).into(),
            Variable::Host => match plain_host(asked.host) {
                host if host.contains(':') => format!("[{host}]").into(),
                host => host,
            },
            Variable::Port => asked.port.to_string().into(),
            Variable::Method => asked.method.into(),
            Variable::Path => match asked.path.split(['?', '#']).next() {
                None | Some("") => "/".into(),
                Some(path) => path.into(),
            },
            Variable::Query => match asked.path.find('?') {
                Some(at) => asked.path[at..]
                    .split('#')
                    .next()
                    .unwrap_or_default()
                    .into(),
                None => "".into(),
            },
            Variable::Id => format!("{:016x}", self.id).into(),
            Variable::CacheStatus => return out.extend_from_slice(self.cache_status),
            Variable::Status => self.status.to_string().into(),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// The edits that apply, of rules in their order.
pub fn that_count<'a>(rules: impl Iterator<Item = &'a [Edit]>) -> Vec<&'a Edit> {
    let mut count: Vec<&Edit> = Vec::new();
    for edits in rules {
        let before = count.len();
        for edit in edits {
            let is_said = |said: &&Edit| said.name.eq_ignore_ascii_case(&edit.name);
            if !count[..before].iter().any(is_said) {
                count.push(edit);
            }
        }
    }
    count
}

/// Changes the fields of a request.
pub fn change_request(fields: &mut Fields, edits: &[&Edit], values: &Values<'_>) {
    let named = edits.iter().filter(|edit| replaces(edit));
    for edit in named {
        fields.remove(edit.name.as_bytes());
    }
    for (name, value) in filled(edits, values) {
        fields.push(name, &value);
    }
}

/// Changes a head: a status line and field lines, each with its line end, without the empty line at the end.
pub fn change_head(lines: &mut Vec<u8>, edits: &[&Edit], values: &Values<'_>) {
    if edits.iter().any(|edit| replaces(edit)) {
        remove_lines(lines, edits);
    }
    for (name, value) in filled(edits, values) {
        http1::head_lines::write_field(name, &value, lines);
    }
}

fn filled<'a>(
    edits: &'a [&'a Edit],
    values: &'a Values<'_>,
) -> impl Iterator<Item = (&'a [u8], Cow<'a, [u8]>)> {
    edits.iter().filter_map(|edit| {
        let (How::Set(text) | How::Add(text)) = &edit.how else {
            return None;
        };
        let value = match &text.pieces[..] {
            [] => Cow::Borrowed(&b""[..]),
            [Piece::Plain(plain)] => Cow::Borrowed(plain.as_bytes()),
            _ => Cow::Owned(values.fill(text)?),
        };
        Some((edit.name.as_bytes(), value))
    })
}

fn replaces(edit: &Edit) -> bool {
    !matches!(edit.how, How::Add(_))
}

/// Removes the field lines that are replaced or removed.
fn remove_lines(lines: &mut Vec<u8>, edits: &[&Edit]) {
    let is_replaced = |line: &[u8]| {
        edits.iter().any(|edit| {
            let name = edit.name.as_bytes();
            replaces(edit)
                && line.get(name.len()) == Some(&b':')
                && line[..name.len()].eq_ignore_ascii_case(name)
        })
    };
    let end_of = |lines: &[u8], from: usize| {
        memchr::memchr(b'\n', &lines[from..]).map_or(lines.len(), |at| from + at + 1)
    };
    let mut read = end_of(lines, 0);
    let mut write = read;
    while read < lines.len() {
        let end = end_of(lines, read);
        if !is_replaced(&lines[read..end]) {
            if write != read {
                lines.copy_within(read..end, write);
            }
            write += end - read;
        }
        read = end;
    }
    lines.truncate(write);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(name: &str, how: How) -> Edit {
        let name = name.to_owned();
        Edit { name, how }
    }

    fn text(text: &str) -> Text {
        Text::parse(text, true).unwrap()
    }

    fn values<'a>(path: &'a str, cache_status: &'a [u8]) -> Values<'a> {
        Values {
            client: "::ffff:192.0.2.1".parse().unwrap(),
            listener: "front",
            asked: AskedFor {
                method: "GET",
                scheme: Some(Scheme::Http),
                host: "A.org.",
                port: 81,
                path,
            },
            id: 0xab,
            cache_status,
            status: 200,
        }
    }

    #[test]
    fn lines_are_removed_set_and_added() {
        let edits = [
            edit("Server", How::Remove),
            edit("x-a", How::Set(text("new"))),
            edit("X-B", How::Add(text("two"))),
            edit(
                "X-C",
                How::Set(text(
                    "${client} ${host}:${port} ${path}|${query} ${id} ${status}",
                )),
            ),
        ];
        let edits: Vec<_> = edits.iter().collect();
        let mut lines =
            b"HTTP/1.1 200 OK\r\nServer: x\r\nX-A: old\r\nX-Ab: stays\r\nX-B: one\r\nX-A: old\r\n"
                .to_vec();
        change_head(&mut lines, &edits, &values("/p?q=1", b""));
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "HTTP/1.1 200 OK\r\nX-Ab: stays\r\nX-B: one\r\nx-a: new\r\nX-B: two\r\n\
             X-C: 192.0.2.1 a.org:81 /p|?q=1 00000000000000ab 200\r\n"
        );
        let mut fields = Fields::new();
        fields.push(b"X-A", b"old");
        fields.push(b"X-B", b"one");
        change_request(&mut fields, &edits[..3], &values("/", b""));
        assert_eq!(fields.as_wire(), b"X-B: one\r\nx-a: new\r\nX-B: two\r\n");
    }

    #[test]
    fn of_a_field_the_first_rule_that_speaks_of_it_counts() {
        let first = [
            edit("A", How::Set(text("1"))),
            edit("a", How::Add(text("2"))),
        ];
        let second = [edit("a", How::Remove), edit("B", How::Remove)];
        let count = that_count([&first[..], &second].into_iter());
        assert_eq!(count, [&first[0], &first[1], &second[1]]);
    }

    #[test]
    fn a_value_with_line_ends_leaves_its_field_out() {
        let edits = [
            edit("X", How::Set(text("a${cache-status}"))),
            edit("Y", How::Set(text("b"))),
        ];
        let edits: Vec<_> = edits.iter().collect();
        for bad in [&b"x\r\nSet-Cookie: a=b"[..], b"\0", b"\n", b"\x7f"] {
            let mut lines = b"HTTP/1.1 200 OK\r\nX: old\r\n".to_vec();
            change_head(&mut lines, &edits, &values("/", bad));
            assert_eq!(lines, b"HTTP/1.1 200 OK\r\nY: b\r\n");
        }
    }
}
