//! `loligo explain`: how the rules of a configuration would treat a request.
//!
//! Not known here: how rules are evaluated (`proxy::explain`).

use std::process::ExitCode;
use std::time::SystemTime;

use commands::print;
use proxy::explain::{Asking, explain};
use proxy::plan::Minute;

use crate::cli::{ExplainFlags, Flags};

use crate::settle::settle;

/// Prints the explanation.
pub fn run(flags: &ExplainFlags) -> ExitCode {
    let asking = match asking(flags) {
        Ok(asking) => asking,
        Err(why) => {
            eprintln!("loligo: {why}");
            return ExitCode::from(2);
        }
    };
    let of_serve = Flags {
        config: flags.config.clone(),
        ..Flags::default()
    };
    let settled = match settle(&of_serve) {
        Ok((settled, _)) => settled,
        Err(code) => return code,
    };
    match explain(&settled.plan, &asking) {
        Ok(explained) if flags.json => match serde_json::to_string_pretty(&explained) {
            Ok(json) => print(&(json + "\n")),
            Err(error) => {
                eprintln!("loligo: {error}");
                return ExitCode::FAILURE;
            }
        },
        Ok(explained) => print(&explained.to_string()),
        Err(why) => {
            eprintln!("loligo: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn asking(flags: &ExplainFlags) -> Result<Asking, String> {
    let (method, url) = match &flags.request[..] {
        [url] => ("GET", url),
        [method, url] => (method.as_str(), url),
        _ => return Err("expected a method and a URL".to_owned()),
    };
    let field = |field: &String| {
        let (name, value) = field
            .split_once(':')
            .ok_or_else(|| format!("--header \"{field}\": expected \"NAME: VALUE\""))?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    let at = flags.time.as_ref().map(|text| {
        Minute::parse(text).ok_or_else(|| {
            format!("--time \"{text}\": expected a day and an hour such as \"We 09:30\"")
        })
    });
    Ok(Asking {
        method: method.to_owned(),
        url: url.clone(),
        client: flags.client,
        listener: flags.listener.clone(),
        fields: flags
            .header
            .iter()
            .map(field)
            .collect::<Result<_, String>>()?,
        at: at.transpose()?,
        now: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    })
}
