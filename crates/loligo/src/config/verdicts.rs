//! How the decisions of a rule and its changes of fields are read.
//!
//! Not known here: conditions, and checks of several settings together (`rules`).

use std::fs;

use proxy::plan::{Bounds, Canned, Edit, How, Rule, Side, Text, Unit};

use super::conditions::{table, words};
use super::raw::{Given, Value};
use super::values::{self, is_token};

/// `true`, or a sentence for the client.
pub fn deny(given: &Given) -> Result<Option<String>, String> {
    match &given.value {
        Value::Switch(true) => Ok(None),
        Value::Text(text) if !text.is_empty() && text.len() <= 1000 => Ok(Some(text.clone())),
        _ => Err("expected true, or a sentence for whoever is refused".to_owned()),
    }
}

/// `true`; no other value is possible.
pub fn allow(given: &Given) -> Result<bool, String> {
    match values::switch(given)? {
        true => Ok(true),
        false => Err("expected true; to refuse, write deny = true".to_owned()),
    }
}

/// `{ status = 204 }`, `{ status = 200, body = "…", content-type = "…" }`, `{ status = 503, file = "…" }`.
pub fn answer(given: &Given) -> Result<Canned, String> {
    let entries = table(given, "{ status = 200, body = \"ok\" }")?;
    let mut canned = Canned {
        status: 200,
        body: Default::default(),
        content_type: None,
    };
    let mut has_body = false;
    for (key, value) in entries {
        let one = Given {
            value: value.clone(),
            ..given.clone()
        };
        let at = |why: String| format!("{key}: {why}");
        match key.as_str() {
            "status" => canned.status = status(&one, 200, 599).map_err(at)?,
            "body" | "file" if has_body => return Err("has body or file, not both".to_owned()),
            "body" => {
                let text = values::text(&one).map_err(at)?;
                (canned.body, has_body) = (text.as_bytes().to_vec().into(), true);
            }
            "file" => {
                let path = values::path(&one).map_err(at)?;
                let body = fs::read(&path).map_err(|error| {
                    let path = path.display();
                    at(format!(
                        "{path}: {error}; name a file that this user may read"
                    ))
                })?;
                (canned.body, has_body) = (body.into(), true);
            }
            "content-type" => {
                let text = values::text(&one).map_err(at)?;
                let is_type = text.contains('/') && text.bytes().all(|b| (b' '..0x7f).contains(&b));
                if !is_type || text.len() > Rule::VALUE_BYTES_MAX {
                    return Err(at("expected a media type such as \"text/html\"".to_owned()));
                }
                canned.content_type = Some(text.to_owned());
            }
            _ => {
                return Err(format!(
                    "there is no \"{key}\" here; there are status, body, file, content-type"
                ));
            }
        }
    }
    if canned.body.len() > Canned::BODY_BYTES_MAX {
        return Err(format!(
            "a body has at most {} bytes",
            Canned::BODY_BYTES_MAX
        ));
    }
    if has_body && !Canned::has_body(canned.status) {
        return Err(format!(
            "an answer with status {} has no body",
            canned.status
        ));
    }
    if canned.content_type.is_none() && has_body {
        canned.content_type = Some("text/plain; charset=utf-8".to_owned());
    }
    Ok(canned)
}

/// The URL of a redirect.
pub fn redirect(given: &Given) -> Result<Text, String> {
    let text = values::text(given)?;
    let begins = ["http://", "https://", "/", "${scheme}://"];
    if !begins.iter().any(|begin| text.starts_with(begin)) || text.contains(char::is_whitespace) {
        return Err(
            "expected a URL such as \"https://${host}${path}${query}\", or a path".to_owned(),
        );
    }
    Text::parse(text, false)
}

pub fn redirect_status(given: &Given) -> Result<u16, String> {
    match status(given, 301, 308) {
        Ok(status @ (301..=303 | 307 | 308)) => Ok(status),
        _ => Err("expected 301, 302, 303, 307 or 308".to_owned()),
    }
}

fn status(given: &Given, min: u64, max: u64) -> Result<u16, String> {
    let bounds = Bounds {
        unit: Unit::Count,
        min,
        default: min,
        max,
    };
    values::number(given, bounds).map(|status| status as u16)
}

/// A name for people, in logs and metrics.
pub fn name(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/ ".contains(&byte);
    let most = Rule::NAME_BYTES_MAX;
    if text.is_empty() || text.len() > most || text.trim() != text || !text.bytes().all(is_good) {
        return Err(format!(
            "expected at most {most} letters, digits, spaces, dashes, dots, slashes and colons"
        ));
    }
    Ok(text.to_owned())
}

fn changes(given: &Given, side: Side, how: fn(Text) -> How) -> Result<Vec<Edit>, String> {
    let entries = table(given, "{ X-Name = \"value\" }")?;
    let edit = |(name, value): &(String, Value)| {
        checked(side, name)?;
        let Value::Text(text) = value else {
            return Err(format!("{name}: expected text in quotes"));
        };
        let text = Text::parse(text, side == Side::Response);
        let text = text.map_err(|why| format!("{name}: {why}"))?;
        Ok(Edit {
            name: name.clone(),
            how: how(text),
        })
    };
    entries.iter().map(edit).collect()
}

fn checked(side: Side, name: &str) -> Result<(), String> {
    if !is_token(name) || name.len() > Rule::VALUE_BYTES_MAX {
        return Err(format!("\"{name}\" is no name of a field"));
    }
    match Edit::refusal(side, name) {
        Some(why) => Err(format!("{name} {why}")),
        None => Ok(()),
    }
}

fn removals(given: &Given, side: Side) -> Result<Vec<Edit>, String> {
    let edit = |name: &String| {
        // Fields that describe the body may be removed from responses, but not changed.
        let may_go = ["ETag", "Last-Modified", "Accept-Ranges"];
        let may_go = may_go.iter().any(|it| it.eq_ignore_ascii_case(name));
        if side != Side::Response || !may_go {
            checked(side, name)?;
        }
        Ok(Edit {
            name: name.clone(),
            how: How::Remove,
        })
    };
    words(given)?.iter().map(edit).collect()
}

pub fn request_set(given: &Given) -> Result<Vec<Edit>, String> {
    changes(given, Side::Request, How::Set)
}

pub fn request_add(given: &Given) -> Result<Vec<Edit>, String> {
    changes(given, Side::Request, How::Add)
}

pub fn request_remove(given: &Given) -> Result<Vec<Edit>, String> {
    removals(given, Side::Request)
}

pub fn response_set(given: &Given) -> Result<Vec<Edit>, String> {
    changes(given, Side::Response, How::Set)
}

pub fn response_add(given: &Given) -> Result<Vec<Edit>, String> {
    changes(given, Side::Response, How::Add)
}

pub fn response_remove(given: &Given) -> Result<Vec<Edit>, String> {
    removals(given, Side::Response)
}
