//! Parses credentials as their sources write them: an INI file, JSON of a metadata service, XML of the security token service.
//!
//! Not known here: the source. Nothing of the credentials is ever logged: errors contain no bytes that were read.

use std::fmt;

use serde::Deserialize;

/// An access key with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: String,
    /// Belongs to temporary keys.
    pub session_token: Option<String>,
    /// When they end, seconds since 1970.
    pub until_unix_s: Option<u64>,
}

/// Prints none of the fields.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// The JSON of an instance or a container.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Json {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl Credentials {
    /// Credentials without an end; `None`: one of the values is empty, or has characters that a field cannot carry.
    pub fn new(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Option<Self> {
        let is_text = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        let session_token = session_token.filter(|token| !token.is_empty());
        let all = [Some(access_key), Some(secret_key), session_token];
        let is_well = all.iter().flatten().all(|text| is_text(text));
        // `/` and `,` separate the parts of Authorization.
        (is_well && !access_key.contains(['/', ','])).then(|| Credentials {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: session_token.map(str::to_owned),
            until_unix_s: None,
        })
    }

    fn ending(self, until: Option<&str>) -> Option<Credentials> {
        let Some(until) = until else {
            return Some(self);
        };
        let until: jiff::Timestamp = until.parse().ok()?;
        Some(Credentials {
            until_unix_s: Some(until.as_second().try_into().ok()?),
            ..self
        })
    }

    /// From a file of the AWS command line: the section `[default]`, or else the only section. A comment line is parsed as a pair with an
    /// unknown name, and so ignored.
    ///
    /// # Errors
    /// What the file lacks.
    pub fn of_file(text: &str) -> Result<Credentials, &'static str> {
        const ID: &str = "aws_access_key_id";
        const SECRET: &str = "aws_secret_access_key";
        let mut sections: Vec<(&str, Vec<(&str, &str)>)> = vec![("default", Vec::new())];
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[') {
                let name = name.split(']').next().unwrap_or_default().trim();
                sections.push((name, Vec::new()));
            } else if let Some((name, value)) = line.split_once('=')
                && let Some((_, pairs)) = sections.last_mut()
            {
                pairs.push((name.trim(), value.trim()));
            }
        }
        sections.retain(|(_, pairs)| pairs.iter().any(|(name, _)| *name == ID));
        let of_default = sections.iter().find(|(name, _)| *name == "default");
        let (_, pairs) = match (of_default, &sections[..]) {
            (Some(section), _) | (None, [section]) => section,
            (None, []) => return Err("has no aws_access_key_id"),
            (None, _) => return Err("has several profiles, and none of them is [default]"),
        };
        let value = |of: &str| pairs.iter().find(|(name, _)| *name == of).map(|it| it.1);
        let secret = value(SECRET).ok_or("has no aws_secret_access_key")?;
        let token = value("aws_session_token");
        Credentials::new(value(ID).unwrap_or_default(), secret, token)
            .ok_or("has a key that is empty, or has characters that no key has")
    }

    /// From the JSON of an instance or a container.
    pub fn of_json(text: &[u8]) -> Option<Credentials> {
        let json: Json = serde_json::from_slice(text).ok()?;
        let (id, secret) = (&json.access_key_id, &json.secret_access_key);
        Credentials::new(id, secret, json.token.as_deref())?.ending(json.expiration.as_deref())
    }

    /// From the XML of `AssumeRoleWithWebIdentity`.
    pub fn of_xml(text: &str) -> Option<Credentials> {
        let inner = element(text, "Credentials")?;
        let id = element(inner, "AccessKeyId")?;
        let secret = element(inner, "SecretAccessKey")?;
        let token = element(inner, "SessionToken");
        Credentials::new(id, secret, token)?.ending(element(inner, "Expiration"))
    }
}

/// The content of the first element with this name. Not general XML: the elements looked for have neither attributes nor entities.
pub fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = behind.split_once(&format!("</{name}>"))?;
    Some(inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_the_command_line_reads_it() {
        let of = |text: &str| Credentials::of_file(text).map(|it| it.access_key);
        let pair = "aws_access_key_id = ID\naws_secret_access_key=se/cr+et=\n";
        assert_eq!(of(pair).as_deref(), Ok("ID"));
        let named = format!("# a comment\n[minio]\n{pair}");
        assert_eq!(of(&named).as_deref(), Ok("ID"), "the only one");
        let both = format!("{named}[default]\n{}", pair.replace("ID", "OTHER"));
        assert_eq!(of(&both).as_deref(), Ok("OTHER"));
        let session = Credentials::of_file(&format!("{pair}aws_session_token = tok\n")).unwrap();
        assert_eq!(session.secret_key, "se/cr+et=");
        assert_eq!(session.session_token.as_deref(), Some("tok"));
        let empty = Credentials::of_file(&format!("{pair}aws_session_token =\n")).unwrap();
        assert_eq!(empty.session_token, None);
        let two = format!("{named}[other]\n{pair}");
        for (text, why) in [
            ("", "has no aws_access_key_id"),
            ("aws_access_key_id = ID", "aws_secret_access_key"),
            (&two, "several profiles"),
            ("aws_access_key_id =\naws_secret_access_key = x", "empty"),
            (
                "aws_access_key_id = a\naws_secret_access_key = b c",
                "characters",
            ),
            (
                "aws_access_key_id = a/b\naws_secret_access_key = b",
                "characters",
            ),
        ] {
            assert!(of(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn what_services_say_is_read_with_its_end() {
        let json = br#"{"Code":"Success","AccessKeyId":"ID","SecretAccessKey":"s","Token":"t","Expiration":"2026-11-28T20:00:00Z"}"#;
        let of_json = Credentials::of_json(json).unwrap();
        assert_eq!(of_json.until_unix_s, Some(1_795_896_000));
        let xml = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\n<AccessKeyId>ID</AccessKeyId>\
             <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2026-11-28T20:00:00Z</Expiration>\
             </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
        assert_eq!(Credentials::of_xml(xml), Some(of_json));
        assert_eq!(Credentials::of_xml(&xml.replace("ID", "")), None);
        assert_eq!(Credentials::of_json(b"{\"Code\":\"Failed\"}"), None);
        let late = String::from_utf8_lossy(json).replace("2026-", "soon");
        assert_eq!(Credentials::of_json(late.as_bytes()), None);
    }

    #[test]
    fn nothing_of_them_is_printed() {
        let credentials = Credentials::new("ID", "secret", Some("token")).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials");
    }
}
