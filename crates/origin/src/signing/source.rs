//! The sources of credentials: the environment, a file, the security token service, the metadata service of an instance or container.
//!
//! The variables are those of Amazon's own tools. A role's credentials come from the service that the platform offers to its machines:
//! for an instance by version 2 of its protocol, whose token requests a redirected request cannot make; for a container from the URL
//! in its variables.
//!
//! Not known here: when sources are asked. Errors contain no bytes of what was read.
//! Limits: [`WITHIN`] a request, [`ANSWER_BYTES_MAX`] an answer, [`FILE_BYTES_MAX`] a file.

use std::{fmt::Write as _, fs, io::Read as _, path::Path, time::Duration};

use base::access::Destinations;
use message::Authority;
use plan::{CredentialSource, Signing};

use super::credentials::{Credentials, element};
use crate::{Destination, OriginContext, once::Request};

/// How long one request may take.
const WITHIN: Duration = Duration::from_secs(5);
/// The longest answer, bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The longest file, bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// The metadata services of an instance, and of a container.
const INSTANCE: &str = "http://169.254.169.254";
const CONTAINER: &str = "http://169.254.170.2";

/// The context for asking a source.
pub struct Asking<'a> {
    /// Connections.
    pub context: &'a OriginContext,
    /// The limits for the head of an answer.
    pub limits: http1::Limits,
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Asks the source of these settings.
///
/// # Errors
/// The reason, and what to do.
pub async fn ask(settings: &Signing, asking: &Asking<'_>) -> Result<Credentials, String> {
    match &settings.credentials {
        CredentialSource::Environment => of_environment(asking.variable),
        CredentialSource::File(path) => of_file(path),
        CredentialSource::WebIdentity => asking.web_identity(&settings.region).await,
        CredentialSource::Instance => asking.machine().await,
    }
}

/// Are there credentials, as far as can be told without a request?
///
/// # Errors
/// What is missing.
pub fn look_at_credentials(source: &CredentialSource) -> Result<(), String> {
    let is_set = |name: &str| match variable(name) {
        Some(_) => Ok(()),
        None => Err(format!("{name} is not set")),
    };
    match source {
        CredentialSource::Environment => of_environment(&variable).map(drop),
        CredentialSource::File(path) => of_file(path).map(drop),
        CredentialSource::WebIdentity => {
            is_set("AWS_WEB_IDENTITY_TOKEN_FILE").and_then(|()| is_set("AWS_ROLE_ARN"))
        }
        CredentialSource::Instance => Ok(()),
    }
}

/// A variable of this process's environment, unless it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// The credentials of the environment.
///
/// # Errors
/// The variable that is missing or wrong.
fn of_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Credentials, String> {
    let read = |name: &str| variable(name).ok_or(format!("{name} is not set"));
    let (key, secret) = (read("AWS_ACCESS_KEY_ID")?, read("AWS_SECRET_ACCESS_KEY")?);
    let token = variable("AWS_SESSION_TOKEN");
    Credentials::new(&key, &secret, token.as_deref())
        .ok_or_else(|| "AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is no key".to_owned())
}

/// The credentials of a file.
///
/// # Errors
/// It cannot be read, or lacks something.
fn of_file(path: &Path) -> Result<Credentials, String> {
    let text = read(path)?;
    Credentials::of_file(&text).map_err(|why| format!("{} {why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Ok(text)
}

impl Asking<'_> {
    fn wanted(&self, name: &str) -> Result<String, String> {
        (self.variable)(name).ok_or(format!("{name} is not set"))
    }

    /// Exchanges an orchestrator's token for credentials.
    async fn web_identity(&self, region: &str) -> Result<Credentials, String> {
        let (file, role) = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN");
        let (file, role) = (self.wanted(file)?, self.wanted(role)?);
        let session = (self.variable)("AWS_ROLE_SESSION_NAME").unwrap_or("loligo".to_owned());
        let token = read(Path::new(&file))?;
        let endpoint = (self.variable)("AWS_ENDPOINT_URL_STS")
            .unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"));
        let mut form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15".to_owned();
        for (name, value) in [
            ("RoleArn", &*role),
            ("RoleSessionName", &session),
            ("WebIdentityToken", token.trim()),
        ] {
            let _ = write!(form, "&{name}={}", super::v4::form_value(value));
        }
        let more = format!(
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            form.len()
        );
        let url = Url::of(&endpoint)?;
        let (status, answer) = self.send(&url, "POST", &more, &form).await?;
        let answer = String::from_utf8_lossy(&answer);
        if status != 200 {
            let code = element(&answer, "Code").unwrap_or("no code");
            let code: String = code
                .chars()
                .filter(char::is_ascii_alphanumeric)
                .take(64)
                .collect();
            return Err(format!(
                "the security token service {url} refuses the token with {status} {code}; look at {file} and AWS_ROLE_ARN"
            ));
        }
        Credentials::of_xml(&answer)
            .ok_or_else(|| format!("the answer of the security token service {url} has none"))
    }

    /// The credentials of the role of this instance or container.
    async fn machine(&self) -> Result<Credentials, String> {
        if let Some(url) = container_url(self.variable) {
            return self.container(&url).await;
        }
        let endpoint = (self.variable)("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let endpoint = endpoint.unwrap_or_else(|| INSTANCE.to_owned());
        let at = |path: &str| Url::of(&[endpoint.trim_end_matches('/'), path].concat());
        let hour = "X-aws-ec2-metadata-token-ttl-seconds: 3600\r\nContent-Length: 0\r\n";
        let token = self.text(&at("/latest/api/token")?, "PUT", hour).await?;
        let by = format!("X-aws-ec2-metadata-token: {token}\r\n");
        let roles = "/latest/meta-data/iam/security-credentials/";
        let role = self.text(&at(roles)?, "GET", &by).await?;
        let role = role.lines().next().unwrap_or_default();
        let url = at(&[roles, role].concat())?;
        let (status, answer) = self.send(&url, "GET", &by, "").await?;
        self.json(&url, status, &answer)
    }

    async fn container(&self, url: &str) -> Result<Credentials, String> {
        let url = Url::of(url)?;
        let token = match (self.variable)("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(file) => Some(read(Path::new(&file))?),
            None => (self.variable)("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        };
        let token = token.as_deref().map(str::trim);
        if token.is_some_and(|token| !token.bytes().all(|b| (b' '..=b'~').contains(&b))) {
            return Err("the authorization token of the container is no line of text".to_owned());
        }
        let by = token.map(|token| format!("Authorization: {token}\r\n"));
        let (status, answer) = self.send(&url, "GET", &by.unwrap_or_default(), "").await?;
        self.json(&url, status, &answer)
    }

    fn json(&self, url: &Url, status: u16, answer: &[u8]) -> Result<Credentials, String> {
        match Credentials::of_json(answer) {
            Some(credentials) if status == 200 => Ok(credentials),
            _ => Err(format!(
                "{url} answers {status} without credentials; has this machine a role?"
            )),
        }
    }

    /// The text of an answer, which must be a single word or lines of them.
    async fn text(&self, url: &Url, method: &str, fields: &str) -> Result<String, String> {
        let (status, answer) = self.send(url, method, fields, "").await?;
        let text = String::from_utf8(answer).unwrap_or_default();
        let is_word = !text.trim().is_empty()
            && text
                .trim()
                .bytes()
                .all(|b| b.is_ascii_graphic() || b == b'\n');
        match status == 200 && is_word {
            true => Ok(text.trim().to_owned()),
            false => Err(format!("{url} answers {status}; has this machine a role?")),
        }
    }

    /// The status and body of an answer.
    async fn send(
        &self,
        url: &Url,
        method: &str,
        fields: &str,
        body: &str,
    ) -> Result<(u16, Vec<u8>), String> {
        let host = url.at.as_authority();
        let head = format!(
            "{method} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n",
            url.target
        );
        let bytes = [&head, fields, "\r\n", body].concat();
        let access = Destinations {
            loopback: true,
            link_local: true,
            ..Destinations::default()
        };
        let request = Request {
            to: &url.at,
            access: &access,
            method,
            bytes: bytes.as_bytes(),
            signer: None,
            limits: self.limits,
            within: WITHIN,
        };
        let failed = |error| format!("{url}: {error}");
        let answer = request.send(self.context).await.map_err(failed)?;
        let status = answer.head.status;
        let body = answer.body(ANSWER_BYTES_MAX).await.map_err(failed)?;
        Ok((
            status,
            body.ok_or_else(|| format!("the answer of {url} is too long"))?,
        ))
    }
}

/// The URL of a container's credentials; `None`: this is no container.
fn container_url(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    relative.map(|path| [CONTAINER, &path].concat()).or(full)
}

/// A URL of a source.
struct Url {
    at: Destination,
    target: String,
}

impl Url {
    fn of(text: &str) -> Result<Url, String> {
        let parsed = || {
            let (scheme, behind) = text.split_once("://")?;
            let tls = match scheme {
                "https" => true,
                "http" => false,
                _ => return None,
            };
            let end = behind.find('/').unwrap_or(behind.len());
            let (authority, target) = behind.split_at(end);
            let is_target = target.bytes().all(|b| b.is_ascii_graphic());
            let Authority { host, port } = Authority::parse(authority).filter(|_| is_target)?;
            Some(Url {
                at: Destination {
                    tls,
                    host: host.to_ascii_lowercase().into(),
                    port: port.unwrap_or(if tls { 443 } else { 80 }),
                    member: None,
                    terms: None,
                    http2: None,
                },
                target: if target.is_empty() {
                    "/".to_owned()
                } else {
                    target.to_owned()
                },
            })
        };
        parsed().ok_or_else(|| "a URL for credentials is not one of http:// or https://".to_owned())
    }
}

/// Without the path, which may be secret.
impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.at)
    }
}

#[cfg(test)]
mod tests;
