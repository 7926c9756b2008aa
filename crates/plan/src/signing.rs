//! Signed requests to an origin: an object store that speaks Amazon's S3.
//!
//! Not known here: credentials themselves, and how a request is signed (`origin`).

use std::{fmt, path::PathBuf};

use ring::digest;

/// Requests are signed by AWS Signature Version 4.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Signing {
    /// The region of the store: `eu-central-1`.
    pub region: String,
    /// The service name in the signature.
    pub service: String,
    /// Where access key and secret come from.
    pub credentials: CredentialSource,
    /// Sign requests with unsafe methods as well; otherwise they are refused.
    pub writes: bool,
}

/// Where credentials come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum CredentialSource {
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    Environment,
    /// A credentials file of the AWS command line.
    File(PathBuf),
    /// A token of an orchestrator, exchanged at the security token service.
    WebIdentity,
    /// The machine's own role, or the container's.
    Instance,
}

impl Signing {
    /// The services that can be signed for: they accept a signature that does not cover the body.
    pub const SERVICES: [&str; 3] = ["s3", "s3-object-lambda", "s3-outposts"];

    /// A text for keys of what decides which content an origin gives: our identity towards it. The name of the credentials' source stands for
    /// the identity, so that renewed credentials change no key.
    pub fn tag(&self) -> String {
        let text = format!("{} {}", self.service, self.credentials);
        let hash = digest::digest(&digest::SHA256, text.as_bytes());
        let hash = &hash.as_ref()[..8];
        let mut tag = " signed=".to_owned();
        tag.extend(hash.iter().map(|byte| format!("{byte:02x}")));
        tag
    }
}

/// The form used in a configuration.
impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialSource::Environment => f.write_str("environment"),
            CredentialSource::File(path) => write!(f, "file:{}", path.display()),
            CredentialSource::WebIdentity => f.write_str("web-identity"),
            CredentialSource::Instance => f.write_str("instance"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_where_content_may() {
        let by = |credentials| Signing {
            region: "eu-central-1".to_owned(),
            service: "s3".to_owned(),
            credentials,
            writes: false,
        };
        let one = by(CredentialSource::File("/one".into()));
        let other = by(CredentialSource::File("/other".into()));
        assert_ne!(one.tag(), other.tag());
        assert_ne!(one.tag(), by(CredentialSource::Environment).tag());
        let elsewhere = Signing {
            region: "us-east-1".to_owned(),
            writes: true,
            ..one.clone()
        };
        assert_eq!(one.tag(), elsewhere.tag(), "the same account");
    }
}
