//! `loligo accelerate`: a front of a cluster, and where it would send a request.
//!
//! The configuration is that of `serve`. Two settings have other defaults: there is no store, and the cluster's front is on.
//!
//! Not known here: how requests are routed.

use std::process::ExitCode;

use proxy::plan::Plan;

use crate::cli::AccelerateFlags;
use crate::config::machine::Machine;
use crate::config::problem::Place;
use crate::config::raw::{Block, Given, Raw, Value};
use crate::top::ask::Place as Admin;

/// The place of the two settings in error messages.
const COMMAND: &str = "loligo accelerate";

/// Runs the front, or asks the running one (`--dry-run`).
pub fn run(command: AccelerateFlags) -> ExitCode {
    let machine = Machine::this();
    let (settled, raw) = match crate::settle::settle_with(&command.flags, &machine, add_own) {
        Ok(settled) => settled,
        Err(code) => return code,
    };
    if settled.plan.cluster.is_none() {
        eprintln!(
            "loligo: a front needs a cluster: [cluster] with its members; loligo accelerate --help shows one"
        );
        return ExitCode::FAILURE;
    }
    match &command.dry_run {
        None => {
            let alone = proxy::Succession::default();
            crate::serve::serve(settled, raw, machine, command.flags, add_own, alone)
        }
        Some(url) => match ask(&settled.plan, url) {
            Ok(words) => {
                commands::print(&words);
                ExitCode::SUCCESS
            }
            Err(why) => {
                eprintln!("loligo: {why}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Adds the settings that differ from those of `serve`; stores in the file take precedence.
fn add_own(raw: &mut Raw) {
    if raw.stores.is_empty() {
        raw.stores.push(Block {
            place: Place::Flag(COMMAND),
            given: vec![Given::flag("store.path", COMMAND, "none")],
            ..Block::default()
        });
    }
    if let Some(cluster) = &mut raw.cluster {
        cluster.given.push(Given {
            key: "cluster.front".to_owned(),
            value: Value::Switch(true),
            place: Place::Flag(COMMAND),
        });
    }
}

/// Asks the front of this plan where it would send a request.
fn ask(plan: &Plan, url: &str) -> Result<String, String> {
    let Some(admin) = &plan.admin else {
        return Err("the front has no admin interface to be asked by: admin.address".to_owned());
    };
    let mut address = admin.address;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let place = Admin::parse(&address.to_string())?;
    let answer = place.get(&format!("/cluster/route?url={}", encoded(url)));
    let answer = answer.map_err(|why| format!("{why}. (The front is asked, so it must run.)"))?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The URL, percent-encoded as the value of a query.
fn encoded(url: &str) -> String {
    let one = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b':' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    url.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{into_plan, testing};

    #[test]
    fn a_url_in_a_query_keeps_its_own_query() {
        assert_eq!(encoded("http://a/b?c=d&e#f"), "http://a/b%3Fc%3Dd%26e%23f");
    }

    #[test]
    fn there_is_no_store_unless_one_is_given() {
        let mut raw = Raw::default();
        add_own(&mut raw);
        assert_eq!(raw.stores.len(), 1);
        assert_eq!(
            raw.stores[0].find("store.path").unwrap().value,
            Value::Text("none".into())
        );
        assert_eq!(raw.cluster, None, "there is no cluster");
        raw.stores = vec![Block::default()];
        add_own(&mut raw);
        assert_eq!(raw.stores, [Block::default()]);
    }

    #[test]
    fn a_file_needs_not_say_that_this_is_a_front() {
        let text = "[cluster]\naddress = \"127.0.0.1:3130\"\nkey-file = \"k\"\n\
                    [[cluster.member]]\naddress = \"127.0.0.2:3130\"\n";
        let mut raw = testing::raw(text).unwrap();
        add_own(&mut raw);
        let plan = into_plan(&raw, &testing::machine()).unwrap().plan;
        assert!(plan.cluster.is_some_and(|cluster| cluster.front));
        assert!(plan.stores.is_empty());
    }
}
