//! The meaning of a store's answer that refuses a signed request, by the error code in its body.
//!
//! `AccessDenied` is not treated as a refusal: stores also send it for a missing object if the caller may not list. It goes to the client.
//!
//! Source: "Error Responses" of the Amazon S3 API Reference; MinIO and others use the same codes.

use super::credentials::element;

/// Why a store refused a request that was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The store's clock differs from ours.
    Skewed,
    /// The credentials have ended.
    Ended,
    /// The credentials, or the settings for this store, are wrong.
    Wrong,
}

/// Statuses whose answer may be such a refusal.
pub fn may_be_refusal(status: u16) -> bool {
    matches!(status, 301 | 400 | 403 | 404)
}

/// Why the store refused our signature; the code and advice for the log. `None`: the answer is meant for the client.
pub fn refusal(answer: &str) -> Option<(Refusal, &str, String)> {
    let code = element(answer, "Code")?;
    let (refusal, advice) = match code {
        "RequestTimeTooSkewed" => (
            Refusal::Skewed,
            "the clock of this machine and that of the store differ; set them by NTP",
        ),
        "ExpiredToken" | "TokenRefreshRequired" => (
            Refusal::Ended,
            "the session has ended; renew the credentials",
        ),
        "InvalidToken" => (
            Refusal::Ended,
            "the session token is not of this access key; renew the credentials",
        ),
        // The last one is versitygw's, with status 404.
        "InvalidAccessKeyId" | "InvalidClientTokenId" | "XAdminUserNotFound" => (
            Refusal::Wrong,
            "the store does not know the access key; look which account the credentials are of",
        ),
        "SignatureDoesNotMatch" => (
            Refusal::Wrong,
            "the secret key is not that of the access key, or something on the way changes host or path",
        ),
        "AuthorizationHeaderMalformed" => {
            let region = element(answer, "Region").filter(|it| is_word(it));
            let advice = match region {
                Some(region) => format!("write region = \"{region}\""),
                None => "the region is not the store's; correct region".to_owned(),
            };
            return Some((Refusal::Wrong, code, advice));
        }
        "PermanentRedirect" => (
            Refusal::Wrong,
            "the bucket is in another region; write the URL of its own endpoint as origin",
        ),
        "NotSignedUp" | "AccountProblem" | "InvalidSecurity" => {
            (Refusal::Wrong, "the account is not in order")
        }
        _ => return None,
    };
    Some((refusal, code, advice.to_owned()))
}

/// Is the text safe to repeat in the log?
fn is_word(text: &str) -> bool {
    text.len() < 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_leads_to_what_is_to_be_done() {
        let of = |code: &str| {
            let answer = format!(
                "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>m</Message><Region>eu-west-1</Region></Error>"
            );
            refusal(&answer).map(|(refusal, _, advice)| (refusal, advice))
        };
        for code in ["AccessDenied", "NoSuchKey", "InvalidRange", ""] {
            assert_eq!(of(code), None, "{code}");
        }
        assert_eq!(of("RequestTimeTooSkewed").unwrap().0, Refusal::Skewed);
        assert_eq!(of("ExpiredToken").unwrap().0, Refusal::Ended);
        let (wrong, advice) = of("AuthorizationHeaderMalformed").unwrap();
        assert_eq!(
            (wrong, &*advice),
            (Refusal::Wrong, "write region = \"eu-west-1\"")
        );
        assert_eq!(refusal("no XML"), None);
        let odd = "<Code>AuthorizationHeaderMalformed</Code><Region>a\nb</Region>";
        let (_, _, advice) = refusal(odd).unwrap();
        assert!(advice.contains("correct region"), "{advice}");
    }
}
