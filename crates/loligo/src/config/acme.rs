//! The certificate that is ordered from an authority, and the listeners that show it.
//!
//! Rules kept here, and nowhere else:
//!   A1  an order has its names, and a place for its state
//!   A2  the authority can check the names by connecting to them: no wildcards, no addresses
//!   A3  a listener shows the certificate exactly if one is ordered

use std::net::IpAddr;

use proxy::plan::{Acme, Listener};

use super::problem::Problem;
use super::raw::{Block, Given};
use super::values;

/// The URL of an ACME directory: https, or http on this machine.
pub fn directory(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let wrong = || format!("{text:?} is no URL of a directory; write https://HOST/PATH");
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let (authority, path) = rest.split_once('/').ok_or_else(wrong)?;
    let (host, _) = values::split_authority(authority).ok_or_else(wrong)?;
    let address: Option<IpAddr> = host.parse().ok();
    let is_here = host == "localhost" || address.is_some_and(|it| it.is_loopback());
    let is_plain_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    match scheme {
        _ if host.is_empty() || !is_plain_text(authority) || !is_plain_text(path) => Err(wrong()),
        "https" => Ok(text.to_owned()),
        "http" if is_here => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

/// An e-mail address.
pub fn contact(given: &Given) -> Result<Option<String>, String> {
    let text = values::text(given)?;
    if text == "none" {
        return Ok(None);
    }
    let text = text.strip_prefix("mailto:").unwrap_or(text);
    let is_address = |(to, at): (&str, &str)| !to.is_empty() && !at.is_empty();
    let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    match text.split_once('@').is_some_and(is_address) && is_printable {
        true => Ok(Some(text.to_owned())),
        false => Err(format!("{text:?} is no e-mail address")),
    }
}

/// Checks the settings of the order; `None`: nothing is ordered.
pub fn settle(acme: Acme, whole: &Block, problems: &mut Vec<Problem>) -> Option<Acme> {
    const KEYS: [&str; 3] = ["acme.names", "acme.state", "acme.contact"];
    if !whole.says("acme.directory") {
        let given = KEYS.iter().find_map(|key| whole.find(key));
        let message = "is for certificates that are ordered: set acme.directory";
        problems.extend(given.map(|given| given.problem(message)));
        return None;
    }
    // A1
    for (key, is_missing, form) in [
        ("acme.names", acme.names.is_empty(), "[\"example.org\"]"),
        (
            "acme.state",
            acme.state.as_os_str().is_empty(),
            "\"/var/lib/loligo/acme\"",
        ),
    ] {
        if is_missing && !whole.says(key) {
            let message = format!("needs {key}, such as {key} = {form}");
            problems.push(whole.problem("acme.directory", message));
        }
    }
    if acme.names.len() > Acme::NAMES_MAX {
        let message = format!("at most {} names", Acme::NAMES_MAX);
        problems.push(whole.problem("acme.names", message));
    }
    // A2
    let is_unfit = |name: &&String| {
        name.contains('*') || !name.contains('.') || name.parse::<IpAddr>().is_ok()
    };
    if let Some(name) = acme.names.iter().find(is_unfit) {
        let message = format!(
            "{name:?} cannot be looked at by connecting to it; name hosts, without wildcards, such as www.example.org"
        );
        problems.push(whole.problem("acme.names", message));
    }
    Some(acme)
}

/// Gives the certificate to the listeners that show it.
pub fn give(
    acme: &Option<Acme>,
    listeners: &mut [Listener],
    blocks: &[Block],
    whole: &Block,
    problems: &mut Vec<Problem>,
) {
    let mut is_shown = false;
    for (number, listener) in listeners.iter_mut().enumerate() {
        let Some(tls) = listener.tls.as_mut().filter(|tls| tls.is_acme) else {
            continue;
        };
        is_shown = true;
        match acme {
            Some(acme) => tls.certificates.insert(0, acme.certificate()),
            // A3
            None => {
                let message = "needs acme.directory: whom to order the certificate from";
                let block = blocks.get(number).unwrap_or(whole);
                problems.push(block.problem("listener.tls", message));
            }
        }
    }
    if acme.is_some() && !is_shown {
        let message =
            "nobody shows the certificate; say tls = \"acme\" of the listener at port 443";
        problems.push(whole.problem("acme.directory", message));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::settle;
    use super::*;

    const ACME: &str = "[acme]\ndirectory = \"https://ca.example/dir\"\nnames = [\"a.example\", \"b.example\"]\n\
                        contact = \"mailto:me@a.example\"\nstate = \"/var/lib/x\"\n";

    #[test]
    fn the_listener_shows_what_is_ordered() {
        let text = format!("[[listener]]\ntls = \"acme\"\n{ACME}");
        let plan = settle(&text).unwrap().plan;
        let acme = plan.acme.as_ref().unwrap();
        assert_eq!(acme.contact.as_deref(), Some("me@a.example"));
        assert_eq!(acme.names, ["a.example", "b.example"]);
        let tls = plan.listeners[0].tls.as_ref().unwrap();
        assert_eq!(tls.certificates, [acme.certificate()]);
    }

    #[test]
    fn what_cannot_be_is_told_with_its_line() {
        for (text, line, part) in [
            ("[[listener]]\ntls = \"acme\"\n", 2, "needs acme.directory"),
            (ACME, 2, "nobody shows"),
            (
                "[[listener]]\ntls = \"acme\"\n[acme]\ndirectory = \"http://ca.example/dir\"\n",
                4,
                "https://HOST",
            ),
            (
                "[[listener]]\ntls = \"acme\"\n[acme]\ndirectory = \"https://ca.example/dir\"\nstate = \"/x\"\n",
                4,
                "needs acme.names",
            ),
            (
                "[[listener]]\ntls = \"acme\"\n[acme]\ndirectory = \"https://ca.example/dir\"\nstate = \"/x\"\nnames = \"*.a.example\"\n",
                6,
                "",
            ),
            (
                "[acme]\ncontact = \"me@a.example\"\n",
                2,
                "set acme.directory",
            ),
        ] {
            let problems = settle(text).expect_err("it is wrong");
            let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
            let place = format!(":{line}: ");
            let is_told = |line: &String| line.contains(&place) && line.contains(part);
            assert!(told.iter().any(is_told), "{told:?}");
        }
    }
}
