//! What must hold for any bytes a client or an origin may send.

use fields::Fields;
use httpcache::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Field values that look like what the readers look for, with damage.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "(max-age|s-maxage|no-cache|no-store|private|public|max-stale|min-fresh|stale-if-error)",
        "(Sun, 06 Nov 1994 08:49:37 GMT|Sunday, 06-Nov-94 08:49:37 GMT|Sun Nov  6 08:49:37 1994)",
        "(bytes=|http://|//|\\.\\./|%3a|W/|\\*|gzip|accept|a)",
        "[0-9]{1,25}",
        "[-=,;\"\\\\ /?#:@\\[\\]]{1,3}",
    ]
    .prop_map(String::into_bytes);
    let damage = vec(prop_oneof![Just(b'\t'), 0x20..=0x7eu8, 0x80..=0xffu8], 0..4);
    vec(prop_oneof![4 => piece, 1 => damage], 0..6).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "Cache-Control",
        "CDN-Cache-Control",
        "Loligo-Cache-Control",
        "Pragma",
        "Expires",
        "Date",
        "Age",
        "Last-Modified",
        "ETag",
        "Vary",
        "Range",
        "If-Range",
        "If-None-Match",
        "If-Modified-Since",
        "Authorization",
        "Set-Cookie",
        "Location",
        "Content-Location",
        "Connection",
        "Accept",
        "Accept-Encoding",
        "A",
    ])
}

fn any_fields() -> impl Strategy<Value = Fields> {
    vec((name(), value()), 0..8).prop_map(|lines| {
        let mut fields = Fields::new();
        lines
            .iter()
            .for_each(|(name, value)| fields.push(name.as_bytes(), value));
        fields
    })
}

fn time() -> impl Strategy<Value = UnixMillis> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        784_111_000_000..784_112_000_000u64,
        any::<u64>()
    ]
    .prop_map(UnixMillis)
}

fn standing() -> impl Strategy<Value = Standing> {
    any::<[u8; Standing::BYTES]>().prop_map(|bytes| Standing::decode(&bytes))
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        request in any_fields(), response in any_fields(), status in 0..1000u16,
        asked in time(), received in time(), now in time(), length in any::<u64>(),
    ) {
        let rules = Rules { negative_ttl_s: 5, ..Rules::default() };
        let ask = Request { method: "GET", fields: &request };
        let answer = Response { status, fields: &response };
        let directives = RequestDirectives::parse(&request);
        let standing = Standing::of(&ask, &answer, asked, received, &rules);
        let _ = storable(&ask, &answer, &rules);
        let _ = may_share(&ask, &ask, &answer, &standing, now, &rules);
        let _ = judge(&standing, &directives, now);
        let _ = may_serve_on_error(&standing, &directives, now, true);
        let _ = evaluate(&request, &response);
        let _ = not_modified_fields(&response);
        let _ = freshen(&response, &request, &Rules::default());
        let _ = validates(&response, &request);
        let _ = invalidated_uris("http://a/b?c", &response);
        add_validators(&response, &mut request.clone());
        if let ByteRange::One { first, last } = byte_range(&request, &response, length) {
            prop_assert!(first <= last && last < length);
        }
        let _ = range_asked(&request);
        let _ = content_range(&response);
        let _ = is_part(&response, &request, 0, length, length);
    }

    #[test]
    fn parts_are_what_was_asked_for_and_no_more_than_the_whole(
        ranges in prop::collection::vec((0..3u8, 0..3000u64, 0..400u64), 1..70), length in 0..3000u64,
    ) {
        let specs = ranges.iter().map(|&(kind, first, len)| match kind {
            0 => format!("{first}-{}", first + len),
            1 => format!("{first}-"),
            _ => format!("-{len}"),
        });
        let value = format!("bytes={}", specs.collect::<Vec<_>>().join(","));
        let mut request = Fields::new();
        request.push(b"Range", value.as_bytes());
        let asked = |at: u64| ranges.iter().any(|&(kind, first, len)| match kind {
            0 => first <= at && at <= first + len,
            1 => first <= at,
            _ => at < length && length - at <= len,
        });
        let parts = match byte_range(&request, &Fields::new(), length) {
            ByteRange::Whole => return Ok(()),
            ByteRange::Unsatisfiable => vec![],
            ByteRange::One { first, last } => vec![Span { first, last }],
            ByteRange::Several(parts) => {
                prop_assert!((2..=PARTS_MAX).contains(&parts.len()));
                parts
            }
        };
        prop_assert!(parts.iter().all(|part| part.first <= part.last && part.last < length));
        prop_assert!(parts.iter().map(Span::len).sum::<u64>() <= length);
        for at in 0..length {
            let times = parts.iter().filter(|part| part.first <= at && at <= part.last).count();
            prop_assert!(times <= 1, "byte {at} twice");
            prop_assert!(times == 1 || !asked(at), "byte {at} missing");
        }
        // What was not asked for is only ever a gap between two that were.
        for part in parts {
            prop_assert!(asked(part.first) && asked(part.last));
        }
    }

    #[test]
    fn an_aligned_range_covers_what_was_asked_for(
        first in any::<u64>(), len in any::<u64>(), suffix in any::<bool>(), length in 1..100_000u64,
        fragment in 1..5000u64,
    ) {
        let first = if first % 2 == 0 { first } else { first % 100_000 };
        let len = if len % 2 == 0 { len } else { len % 1000 };
        let spec = match suffix {
            true => RangeSpec::Suffix { len },
            false => RangeSpec::FromTo { first, last: first.saturating_add(len) },
        };
        if let Some(span) = spec.within(length) {
            let more = spec.aligned(fragment).within(length).expect("more than some");
            prop_assert!(more.contains(span));
            prop_assert!(more.first <= span.first - span.first % fragment);
            prop_assert!(more.last == length - 1 || (more.last + 1) % fragment == 0);
            prop_assert!(more.len() < span.len() + 2 * fragment);
        }
    }

    #[test]
    fn no_stored_response_is_private_or_unusable(
        request in any_fields(), response in any_fields(), status in 0..1000u16,
    ) {
        let ask = Request { method: "GET", fields: &request };
        let answer = Response { status, fields: &response };
        if storable(&ask, &answer, &Rules::default()).is_ok() {
            let said = ResponseDirectives::parse(&response, &Rules::default());
            prop_assert!(!said.private && !said.malformed && (!said.no_store || said.must_understand));
            prop_assert!(!RequestDirectives::parse(&request).no_store);
            prop_assert!(vary_list(&response).is_ok());
            prop_assert!((200..600).contains(&status));
        }
    }

    #[test]
    fn parsing_dates_never_panics(text in value(), bytes in vec(any::<u8>(), 0..40)) {
        parse_date(&text);
        parse_date(&bytes);
    }

    #[test]
    fn dates_are_read_as_written(seconds in 0..253_402_300_800u64) {
        prop_assert_eq!(parse_date(&format_date(UnixMillis(seconds * 1000))), Some(seconds));
    }

    #[test]
    fn standings_are_read_as_written(bytes in any::<[u8; Standing::BYTES]>()) {
        prop_assert_eq!(Standing::decode(&bytes).encode(), bytes);
    }

    #[test]
    fn the_hot_path_agrees_with_the_judge(standing in standing(), now in time()) {
        let verdict = judge(&standing, &RequestDirectives::default(), now);
        prop_assert_eq!(standing.is_fresh(now), verdict == Verdict::Fresh);
        if standing.is_fresh(now) {
            prop_assert!(standing.ttl_s(now) > 0);
        }
    }

    #[test]
    fn what_is_stale_stays_stale(standing in standing(), at in 0..u64::MAX / 2, later in 0..u64::MAX / 4) {
        let now = UnixMillis(at);
        // Before its arrival nothing is promised: that is a clock set back.
        if at >= standing.received.0 && !standing.is_fresh(now) {
            prop_assert!(!standing.is_fresh(UnixMillis(at + later)));
        }
    }

    #[test]
    fn demands_never_make_anything_fresher(standing in standing(), now in time(), request in any_fields()) {
        let directives = RequestDirectives::parse(&request);
        if judge(&standing, &directives, now) == Verdict::Fresh {
            prop_assert!(standing.is_fresh(now));
        }
        if standing.flags.contains(StandingFlags::NO_CACHE) {
            prop_assert!(matches!(judge(&standing, &directives, now), Verdict::Validate(_)));
            prop_assert!(!may_serve_on_error(&standing, &directives, now, true));
        }
    }

    /// Keys are equal exactly if the values are, taken as lines of fields whose grammar is unknown to us.
    #[test]
    fn vary_keys_are_unambiguous(
        a in vec((0..3usize, "[ab\\x00\\x01,]{0,3}"), 0..5),
        b in vec((0..3usize, "[ab\\x00\\x01,]{0,3}"), 0..5),
    ) {
        let list = VaryList::from_bytes(b"f0,f1,f2").expect("sorted and unique");
        let names = ["F0", "F1", "F2"];
        let key = |lines: &[(usize, String)]| {
            let mut fields = Fields::new();
            lines.iter().for_each(|(name, value)| fields.push(names[*name].as_bytes(), value.as_bytes()));
            let mut out = Vec::new();
            vary_key(&list, &fields, &mut out);
            out
        };
        let by_name = |lines: &[(usize, String)]| -> Vec<Vec<String>> {
            (0..3).map(|name| lines.iter().filter(|line| line.0 == name).map(|line| line.1.clone()).collect()).collect()
        };
        prop_assert_eq!(key(&a) == key(&b), by_name(&a) == by_name(&b));
    }

    /// Two requests have one key exactly if of what they accept the origin might choose the same; and what one of them was sent the
    /// other can read.
    #[test]
    fn accept_encoding_selects_by_what_the_origin_might_choose(
        history in vec((accept_encoding(), 0..8usize), 0..5),
        a in accept_encoding(),
        b in accept_encoding(),
    ) {
        let fields = |name: &str, value: &str| {
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), value.as_bytes());
            fields
        };
        let key = |list: &VaryList, said: &str| {
            let mut out = Vec::new();
            vary_key(list, &fields("Accept-Encoding", said), &mut out);
            out
        };
        let mut list = VaryList::from_bytes(b"accept-encoding").expect("a name");
        let mut preferred: Vec<(&str, &str)> = Vec::new();
        for (said, choice) in &history {
            // An origin that keeps to what was asked for.
            let all = accepted_of(said);
            let chosen = if all.is_empty() { "identity" } else { all[choice % all.len()] };
            list.learn(&fields("Accept-Encoding", said), &fields("Content-Encoding", chosen));
            preferred.extend(all.iter().filter(|&&other| other != chosen).map(|other| (chosen, *other)));
            if is_clear(said) {
                for other in [&a, &b] {
                    let finds = key(&list, other) == key(&list, said);
                    prop_assert!(!finds || chosen == "identity" || accepted_of(other).contains(&chosen));
                }
            }
        }
        let best = |said: &str| -> Vec<&str> {
            let all = accepted_of(said);
            let beats = |x: &str, y: &str| preferred.contains(&(x, y)) && !preferred.contains(&(y, x));
            let is_best = |one: &&str| !all.iter().any(|other| beats(other, one));
            let no_identity = !all.contains(&"identity");
            let mut best: Vec<_> = all.iter().copied().filter(is_best).filter(|one| *one != "identity").collect();
            best.extend(no_identity.then_some("no identity"));
            best
        };
        if is_clear(&a) && is_clear(&b) {
            prop_assert_eq!(key(&list, &a) == key(&list, &b), best(&a) == best(&b));
        } else if is_clear(&a) || is_clear(&b) {
            prop_assert_ne!(key(&list, &a), key(&list, &b));
        }
    }

    #[test]
    fn vary_lists_are_read_as_written(response in any_fields(), bytes in vec(any::<u8>(), 0..20)) {
        if let Ok(Some(list)) = vary_list(&response) {
            prop_assert_eq!(VaryList::from_bytes(&list.to_bytes()), Some(list));
        }
        if let Some(list) = VaryList::from_bytes(&bytes) {
            prop_assert_eq!(list.to_bytes(), &bytes[..]);
        }
    }

    #[test]
    fn freshening_keeps_what_describes_the_content(stored in any_fields(), not_modified in any_fields()) {
        let fresh = freshen(&stored, &not_modified, &Rules::default());
        for name in ["Content-Length", "Content-Encoding"] {
            prop_assert_eq!(fresh.first(name.as_bytes()), stored.first(name.as_bytes()));
        }
    }

    #[test]
    fn cache_status_is_printable(key in vec(any::<u8>(), 0..600), detail in ".{0,20}", ttl in any::<i64>()) {
        let mut out = Vec::new();
        cache_status::CacheStatus::hit(b"loligo", &mut out).ttl(ttl).key(&key).detail(&detail);
        prop_assert!(out.iter().all(|byte| (0x20..0x7f).contains(byte)));
    }
}

const KNOWN: &[&str] = &["br", "compress", "deflate", "gzip", "zstd"];

fn accept_encoding() -> impl Strategy<Value = String> {
    let names = &[
        "br",
        "GZIP",
        "gzip",
        "x-gzip",
        "deflate",
        "x-compress",
        "zstd",
        "identity",
        "*",
        "foo",
    ];
    let weights = &[
        "", "", "", ";q=0", " ; Q=0.5", ";q=1.000", ";q=0.00", ";q=2",
    ];
    let member = (select(&names[..]), select(&weights[..]));
    vec(member, 0..5).prop_map(|members| {
        let members = members
            .iter()
            .map(|(name, weight)| format!("{name}{weight}"));
        members.collect::<Vec<_>>().join(", ")
    })
}

/// All that is said of a coding, by the letter.
fn said_of(value: &str, coding: &str) -> Vec<bool> {
    let lower = value.to_ascii_lowercase();
    let members = lower.split(',').map(|member| member.replace(' ', ""));
    let of_it = members.filter_map(|member| {
        let (name, weight) = member.split_once(";q=").unwrap_or((&member, "1"));
        let is_it = name == coding || name.strip_prefix("x-") == Some(coding);
        is_it.then(|| weight.parse::<f64>().expect("a number") > 0.0)
    });
    of_it.collect()
}

fn is_clear(value: &str) -> bool {
    let consistent = |coding: &&str| {
        said_of(value, coding)
            .windows(2)
            .all(|two| two[0] == two[1])
    };
    !value.contains("q=2") && KNOWN.iter().chain(&["identity", "*"]).all(consistent)
}

/// What is accepted, by the letter; nothing if that is not clear.
fn accepted_of(value: &str) -> Vec<&'static str> {
    let is_accepted = |coding: &&str| {
        let by_default = vec![*coding == "identity"];
        [said_of(value, coding), said_of(value, "*"), by_default].concat()[0]
    };
    let all = KNOWN.iter().copied().chain(["identity"]);
    all.filter(|coding| is_clear(value) && is_accepted(coding))
        .collect()
}
