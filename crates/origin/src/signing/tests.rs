//! Signatures compared with published ones, and the handling of refusals.

use super::*;
use fields::Fields;
use message::Framing;
use plan::CredentialSource;

fn settings(writes: bool) -> Arc<Signing> {
    Arc::new(Signing {
        region: "us-east-1".to_owned(),
        service: "s3".to_owned(),
        credentials: CredentialSource::Environment,
        writes,
    })
}

fn signer_with(until_unix_s: Option<u64>, writes: bool) -> Signer {
    let signer = Signer::new(settings(writes));
    let credentials = Credentials::new("ID", "secret", Some("session")).unwrap();
    signer
        .known
        .send_replace(Known::These(Arc::new(Credentials {
            until_unix_s,
            ..credentials
        })));
    signer
}

/// Lines of the request as it goes out, its Authorization last.
fn sent(signer: &Signer, request: &str) -> Result<Vec<String>, UpstreamError> {
    let signed = signer.sign(request.as_bytes())?;
    let text = String::from_utf8(signed).unwrap();
    Ok(text.trim_end().lines().map(str::to_owned).collect())
}

const GET: &str = "GET /b/a%2Fb+c?prefix=x&list-type=2 HTTP/1.1\r\nHost: store.test\r\nauthorization: Basic eA==\r\n\
    X-Amz-Server-Side-Encryption-Customer-Key: k\r\nx-amz-security-token: theirs\r\nRange: bytes=0-1\r\nIf-None-Match: \"a\"\r\nVia: 1.1 us\r\n\r\n";

#[test]
fn a_read_goes_out_with_our_rights_and_none_of_the_clients() {
    let lines = sent(&signer_with(None, false), GET).unwrap();
    assert_eq!(lines[0], "GET /b/a/b%2Bc?list-type=2&prefix=x HTTP/1.1");
    let has = |line: &str| lines.iter().any(|it| it.starts_with(line));
    assert!(has("Range: bytes=0-1") && has("If-None-Match: \"a\"") && has("Via: 1.1 us"));
    assert!(has("x-amz-content-sha256: UNSIGNED-PAYLOAD") && has("x-amz-date: 2"));
    assert!(has("x-amz-security-token: session"));
    let all = lines.join("\n");
    for theirs in ["Basic", "Customer-Key", "theirs"] {
        assert!(!all.contains(theirs), "{all}");
    }
    let authorization = lines.last().unwrap();
    let signed =
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=";
    assert!(
        authorization.starts_with("Authorization: AWS4-HMAC-SHA256 Credential=ID/")
            && authorization.contains(signed),
        "{authorization}"
    );
}

#[test]
fn a_write_goes_out_only_where_it_is_wanted_and_with_its_fields_signed() {
    let put = "PUT /b/a HTTP/1.1\r\nHost: s\r\nX-Amz-Meta-B:  one   two \r\nx-amz-meta-a: 1\r\nX-Amz-Meta-A: 2\r\n\r\n";
    let refused = sent(&signer_with(None, false), put).unwrap_err();
    assert_eq!(
        (refused.status(), refused.token()),
        (403, "http_request_denied")
    );
    let lines = sent(&signer_with(None, true), put).unwrap();
    let authorization = lines.last().unwrap();
    let signed = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b;x-amz-security-token,";
    assert!(authorization.contains(signed), "{authorization}");
}

/// The signature is botocore's of the same request (`S3SigV4Auth`).
#[test]
fn what_goes_out_has_the_signature_of_what_goes_out() {
    let request = "PUT /b/a%2Fb+c?prefix=x&list-type=2 HTTP/1.1\r\nHost: store.test:9000\r\n\
        X-Amz-Meta-B:  one   two \r\nx-amz-meta-a: 1\r\nX-Amz-Meta-A: 2\r\n\r\n";
    let signer = signer_with(None, true);
    let Ok(Allowed::Signed(parts)) = signer.allowed(request.as_bytes()) else {
        panic!("it may go out");
    };
    let by = signer.credentials().unwrap();
    let out = signed(&parts, &signer.settings, &by, "20130524T000000Z");
    let expected = "Authorization: AWS4-HMAC-SHA256 Credential=ID/20130524/us-east-1/s3/aws4_request, \
        SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a;x-amz-meta-b;x-amz-security-token, \
        Signature=775ecf7d983dfac34528adc2eb0ce6496ae4899e5dd0e3e261d1078576b0cdf9\r\n\r\n";
    let out = String::from_utf8(out).unwrap();
    assert!(out.ends_with(expected), "{out}");
}

#[test]
fn a_request_is_signed_by_the_stores_clock() {
    let signer = signer_with(None, false);
    signer.ahead_s.store(400 * 86_400, Ordering::Relaxed);
    let lines = sent(&signer, GET).unwrap();
    let date = |unix_s: i64| {
        let at = jiff::Timestamp::from_second(unix_s).unwrap();
        format!("x-amz-date: {}T", at.strftime("%Y%m%d"))
    };
    let ahead = date(signer.store_unix_s());
    assert!(lines.iter().any(|it| it.starts_with(&ahead)), "{lines:?}");
}

#[test]
fn what_the_client_has_signed_itself_and_what_needs_no_rights_goes_out_as_it_came() {
    let signer = signer_with(None, false);
    for request in [
        GET.replace("prefix=x", "X-Amz-Signature=00&X-Amz-Date=1"),
        GET.replace("GET", "OPTIONS"),
    ] {
        assert_eq!(signer.sign(request.as_bytes()).unwrap(), request.as_bytes());
    }
    let not_a_signature = GET.replace("prefix=x", "prefix=X-Amz-Signature=00");
    let lines = sent(&signer, &not_a_signature).unwrap();
    assert!(lines.last().unwrap().starts_with("Authorization: AWS4"));
}

#[test]
fn a_path_that_leads_out_of_the_route_is_not_signed() {
    for path in ["/b/../c", "/b/%2e%2e/c", "/b/..%2Fc"] {
        let request = GET.replace("/b/a%2Fb+c", path);
        let refused = sent(&signer_with(None, false), &request).unwrap_err();
        assert_eq!(refused.status(), 400, "{path}");
    }
}

#[tokio::test]
async fn the_first_credentials_are_waited_for_but_not_for_ever() {
    let signer = Arc::new(Signer::new(settings(false)));
    let wait = Duration::from_millis(10);
    let late = signer.ready_within(GET.as_bytes(), wait).await;
    let late = late.unwrap_err();
    assert_eq!((late.status(), late.retry_after_s()), (503, Some(5)));
    assert_eq!(late.token(), "proxy_internal_error");
    let giver = Arc::clone(&signer);
    let giving = async move {
        tokio::task::yield_now().await;
        let credentials = Credentials::new("ID", "secret", None).unwrap();
        giver
            .known
            .send_replace(Known::These(Arc::new(credentials)));
    };
    let (ready, ()) = tokio::join!(signer.ready(GET.as_bytes()), giving);
    ready.unwrap();
    signer.known.send_replace(Known::None);
    assert!(signer.ready(GET.as_bytes()).await.is_err());
}

#[test]
fn credentials_that_have_ended_are_not_used() {
    let now = clock::unix().as_secs();
    assert!(sent(&signer_with(Some(now + 60), false), GET).is_ok());
    let ended = sent(&signer_with(Some(now - 1), false), GET).unwrap_err();
    assert_eq!(ended.status(), 503);
}

fn refusing(status: u16, code: &str, ahead_s: i64) -> (ResponseHead, Vec<u8>) {
    let at = jiff::Timestamp::from_second(clock::unix().as_secs() as i64 + ahead_s).unwrap();
    let mut fields = Fields::new();
    let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    fields.push(b"Date", date.as_bytes());
    let body = match code {
        "" => String::new(),
        code => format!("<Error><Code>{code}</Code></Error>"),
    };
    let head = ResponseHead {
        status,
        version: message::Version::Http11,
        fields,
        framing: Framing::Length(body.len() as u64),
        keep_alive: true,
        ..testing_head()
    };
    (head, body.into_bytes())
}

/// A head as `http1` reads it.
fn testing_head() -> ResponseHead {
    let answer = b"HTTP/1.1 200 OK\r\n\r\n";
    let parsed = http1::parse_response(answer, &http1::Limits::default(), "GET");
    parsed.unwrap().unwrap().0
}

#[test]
fn the_stores_clock_is_learned_from_its_refusal_and_once() {
    for code in ["RequestTimeTooSkewed", ""] {
        let signer = signer_with(None, false);
        let (head, body) = refusing(403, code, 3_600);
        let judged = signer.judge(&head, &body, "store");
        assert_eq!(judged, Some(Judged::ClockLearned), "{code}");
        let ahead = signer.store_unix_s() - clock::unix().as_secs() as i64;
        assert!((3_599..=3_601).contains(&ahead), "{ahead}");
        signer.ahead_s.store(3_600, Ordering::Relaxed);
        let again = signer.judge(&head, &body, "store");
        let expected = (!code.is_empty()).then_some(Judged::Refused);
        assert_eq!(again, expected, "{code}");
    }
}

#[test]
fn only_a_refusal_of_the_signature_is_one() {
    let signer = signer_with(None, false);
    for (status, code, expected) in [
        (403, "AccessDenied", None),
        (403, "", None),
        (403, "InvalidAccessKeyId", Some(Judged::Refused)),
        (400, "AuthorizationHeaderMalformed", Some(Judged::Refused)),
        (400, "ExpiredToken", Some(Judged::Refused)),
        (301, "PermanentRedirect", Some(Judged::Refused)),
        (404, "XAdminUserNotFound", Some(Judged::Refused)),
        (404, "NoSuchKey", None),
    ] {
        let (head, body) = refusing(status, code, 0);
        assert_eq!(signer.judge(&head, &body, "store"), expected, "{code}");
    }
}

#[tokio::test]
async fn a_refusal_has_the_source_asked_again_and_what_is_the_clients_has_not() {
    let signer = signer_with(None, false);
    for (code, expected) in [("AccessDenied", false), ("ExpiredToken", true)] {
        let (head, body) = refusing(403, code, 0);
        signer.judge(&head, &body, "store");
        let asked = timeout(Duration::ZERO, signer.doubted.notified()).await;
        assert_eq!(asked.is_ok(), expected, "{code}");
    }
}

#[test]
fn a_signer_outlasts_a_reload_that_does_not_change_it() {
    let plan_with = |writes| {
        let mut plan = Plan::with_listeners(Vec::new());
        plan.upstreams = vec![plan::Upstream {
            sign: Some(settings(writes)),
            ..plan::Upstream::default()
        }];
        plan
    };
    let first = Signers::of(&plan_with(false), &Signers::default());
    let of = |signers: &Signers, writes| signers.by(Some(&settings(writes)));
    let same = Signers::of(&plan_with(false), &first);
    assert!(Arc::ptr_eq(
        &of(&first, false).unwrap(),
        &of(&same, false).unwrap()
    ));
    let other = Signers::of(&plan_with(true), &first);
    assert!(of(&other, false).is_none() && of(&other, true).is_some());
}

/// The Authorization that a store computes for a request that came over HTTP/2, where Host is `:authority`.
fn signature_of(fields: &[(String, String)]) -> String {
    let of = |name: &str| {
        let all = fields.iter().filter(|field| field.0 == name);
        let all: Vec<_> = all.map(|field| one_blank(&field.1)).collect();
        all.join(",")
    };
    let authorization = of("authorization");
    let names = authorization.split("SignedHeaders=").nth(1).unwrap();
    let names = names.split(',').next().unwrap();
    let value = |name: &str| match name {
        "host" => of(":authority"),
        name => of(name),
    };
    let signed: Vec<_> = names
        .split(';')
        .map(|name| (name.to_owned(), value(name)))
        .collect();
    let path = of(":path");
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let signature = Signature {
        access_key: "ID",
        secret_key: "secret",
        region: "us-east-1",
        service: "s3",
        at: &of("x-amz-date"),
    };
    signature.authorization(&Signed {
        method: &of(":method"),
        path,
        query,
        fields: &signed,
        payload: UNSIGNED_PAYLOAD,
    })
}

#[test]
fn what_was_signed_is_what_goes_out_over_http2() {
    let put = "PUT /b/%C3%A4?x=%2F HTTP/1.1\r\nHost: store.test:81\r\nContent-Length: 3\r\nX-Amz-Meta-B:  one   two \r\nConnection: TE\r\n\
        TE: trailers\r\nx-amz-meta-a: 1\r\nX-Amz-Meta-A: 2\r\n\r\n";
    for request in [GET, put] {
        let signed = signer_with(None, true).sign(request.as_bytes()).unwrap();
        let request = crate::h2::head::request(&signed, true).unwrap();
        let mut fields = Vec::new();
        let decoded = http2::hpack::Decoder::new(0).decode(&request.block, |field| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            fields.push((text(field.name), text(field.value)));
        });
        decoded.unwrap();
        let sent = fields.iter().find(|field| field.0 == "authorization");
        assert_eq!(sent.unwrap().1, signature_of(&fields));
    }
}
