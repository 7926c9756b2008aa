//! Examples of lists of fields.

use super::*;

fn fields(lines: &[(&str, &str)]) -> Fields {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect()
}

fn text(fields: &Fields) -> String {
    fields.audit().unwrap();
    let mut out = Vec::new();
    fields.write_to(&mut out);
    String::from_utf8(out).unwrap()
}

fn list(value: &str) -> Vec<&str> {
    split_list(value.as_bytes())
        .map(|member| std::str::from_utf8(member).unwrap())
        .collect()
}

#[test]
fn lines_keep_order_and_case() {
    let fields = fields(&[("Host", "a"), ("X-b", "1"), ("x-B", ""), ("Age", "0")]);
    assert_eq!(text(&fields), "Host: a\r\nX-b: 1\r\nx-B: \r\nAge: 0\r\n");
    assert_eq!(fields.len(), 4);
    assert!(!fields.is_empty());
}

#[test]
fn look_up_ignores_case() {
    let fields = fields(&[("Via", "a"), ("VIA", "b"), ("Vib", "c")]);
    assert_eq!(fields.first(b"via"), Some(&b"a"[..]));
    assert_eq!(fields.all(b"vIa").collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(fields.count(b"via"), 2);
    assert!(fields.contains(b"VIB"));
    assert!(!fields.contains(b"vi"));
    assert_eq!(fields.first(b"viaa"), None);
}

#[test]
fn set_replaces_every_line_of_that_name() {
    let mut fields = fields(&[("Age", "1"), ("Host", "h"), ("age", "2")]);
    fields.set(b"AGE", b"30");
    assert_eq!(text(&fields), "Host: h\r\nAGE: 30\r\n");
}

#[test]
fn remove_counts_and_closes_the_gaps() {
    let mut fields = fields(&[("A", "1"), ("B", "22"), ("a", "333"), ("C", "4444")]);
    assert_eq!(fields.remove(b"a"), 2);
    assert_eq!(text(&fields), "B: 22\r\nC: 4444\r\n");
    assert_eq!(fields.remove(b"a"), 0);
    assert_eq!(fields.remove(b"c"), 1);
    assert_eq!(fields.remove(b"b"), 1);
    assert_eq!(text(&fields), "");
}

#[test]
fn lists_are_cut_at_commas_outside_quotes() {
    assert_eq!(list("a, b ,\tc"), ["a", "b", "c"]);
    assert_eq!(list(" , ,,a,, "), ["a"]);
    assert_eq!(list(""), [""; 0]);
    assert_eq!(list(r#"private="a, b", x"#), [r#"private="a, b""#, "x"]);
    assert_eq!(list(r#""a\", b", c"#), [r#""a\", b""#, "c"]);
    assert_eq!(list(r#"a, "b, c"#), ["a", r#""b, c"#]);
    assert_eq!(list(r"a\, b"), [r"a\", "b"]);
    assert_eq!(list(r#"""#), [r#"""#]);
    assert_eq!(list(r#""\"#), [r#""\"#]);
}

#[test]
fn members_run_over_all_lines() {
    let fields = fields(&[("Vary", "a,b"), ("X", "x"), ("vary", "c")]);
    assert_eq!(
        fields.members(b"Vary").collect::<Vec<_>>(),
        [b"a", b"b", b"c"]
    );
}

#[test]
fn the_wire_form_reads_back() {
    let fields = fields(&[("Host", "a"), ("X", ""), ("X", "b c")]);
    assert_eq!(Fields::from_wire(fields.as_wire()), Some(fields));
    assert_eq!(Fields::from_wire(b""), Some(Fields::new()));
    for broken in [
        "a: b",
        "a: b\n",
        "a b\r\n",
        ": b\r\n",
        "a : b\r\n",
        "a: b\rc\r\n",
        "a: \0\r\n",
        "\r\n",
    ] {
        assert_eq!(Fields::from_wire(broken.as_bytes()), None, "{broken:?}");
    }
}

#[test]
fn lines_are_written_without_those_of_a_name() {
    let mut fields = Fields::new();
    for (name, value) in [("a", "1"), ("B", "2"), ("c", "3"), ("b", "4")] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    let without = |name: &[u8]| {
        let mut out = b"x".to_vec();
        fields.write_without(name, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(without(b"b"), "xa: 1\r\nc: 3\r\n");
    assert_eq!(without(b"A"), "xB: 2\r\nc: 3\r\nb: 4\r\n");
    assert_eq!(without(b"d"), "xa: 1\r\nB: 2\r\nc: 3\r\nb: 4\r\n");
    let place = fields.place_of_last(b"B").unwrap();
    assert_eq!(&fields.as_wire()[place], b"4");
    assert_eq!(fields.place_of_last(b"d"), None);
    let copy = fields.clone_with_room(2, 64);
    assert_eq!(copy, fields);
    copy.audit().unwrap();
}

#[test]
fn removing_leaves_the_others_as_they_were() {
    for (removed, left) in [
        ("a", "b: 2|c: 3"),
        ("B", "a: 1|c: 3|a: 4"),
        ("x", "a: 1|b: 2|c: 3|a: 4"),
    ] {
        let mut fields = Fields::new();
        for (name, value) in [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let before = fields.len();
        assert_eq!(
            fields.remove(removed.as_bytes()),
            before - left.split('|').count()
        );
        let wire = left.split('|').map(|line| format!("{line}\r\n"));
        assert_eq!(fields.as_wire(), wire.collect::<String>().as_bytes());
        fields.audit().unwrap();
    }
}
