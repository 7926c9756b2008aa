//! Presets of mirrors: `preset = "pypi"` in a `[[listener]]` stands for routes and rules that a person could have written.
//!
//! A preset is text: it is written out as the blocks of a configuration file, read like one, and added after the operator's own blocks. So
//! the operator's own rules come first, and `loligo check` can print the preset ([`written_out`]). No host is built in.
//!
//! | preset | `upstream` | immutable | the rest |
//! |---|---|---|---|
//! | `apt` | the archive | `pool`, `by-hash` | a minute |
//! | `pypi` | the index; the file server, if it is another | files | ten minutes |
//! | `npm` | the registry | tarballs | five minutes |
//! | `cargo` | the sparse index; where crates are, if it is elsewhere | crates | five minutes |
//! | `go` | a module proxy | versions, the checksum database's tiles | a minute |
//! | `oci` | a registry | what is named by its digest | a minute |
//!
//! Immutable paths are fresh for a year; the rest is revalidated, and served for a month more if the origin fails.

use std::path::Path;

use proxy::plan::OriginUrl;

use super::file;
use super::problem::{Place, Problem};
use super::raw::{Block, Given, Raw, Value};
use super::values;

/// The part of a preset that differs from the others.
struct Preset {
    name: &'static str,
    /// The most upstreams.
    upstreams: usize,
    /// Needs `public` if there are so many upstreams.
    public_from: usize,
    write: fn(&Wish) -> Written,
}

/// The settings that a preset gets from its listener.
struct Wish {
    upstreams: Vec<OriginUrl>,
    /// Empty, or without a `/` at its end.
    public: String,
}

/// The routes and rules that a preset stands for.
struct Written {
    /// Lines of the first route, besides its origin.
    route: Vec<String>,
    /// The path that leads to the second upstream.
    files: &'static str,
    /// Patterns of paths whose content never changes.
    immutable: &'static [&'static str],
    /// How long other paths are fresh.
    ttl: &'static str,
}

const PRESETS: [Preset; 6] = [
    Preset {
        name: "apt",
        upstreams: 1,
        public_from: usize::MAX,
        write: |_| Written {
            route: Vec::new(),
            files: "",
            immutable: &["/pool", "*/pool/*", "*/by-hash/*"],
            ttl: "1m",
        },
    },
    Preset {
        name: "pypi",
        upstreams: 2,
        public_from: usize::MAX,
        write: |wish| Written {
            route: match wish.upstreams.get(1) {
                // pip and other clients resolve a link without a host on the same host.
                Some(files) => replacing(&format!("{files}/"), "/-/files/"),
                None => Vec::new(),
            },
            files: "/-/files",
            immutable: &["/-/files", "*.whl", "*.tar.gz", "*.zip", "*.metadata"],
            ttl: "10m",
        },
    },
    Preset {
        name: "npm",
        upstreams: 1,
        public_from: 1,
        write: |wish| Written {
            route: replacing(
                &format!("{}/", wish.upstreams[0]),
                &format!("{}/", wish.public),
            ),
            files: "",
            immutable: &["*/-/*.tgz"],
            ttl: "5m",
        },
    },
    Preset {
        name: "cargo",
        upstreams: 2,
        public_from: 2,
        write: |wish| Written {
            route: match wish.upstreams.get(1) {
                Some(crates) => {
                    replacing(&crates.to_string(), &format!("{}/-/crates", wish.public))
                }
                None => Vec::new(),
            },
            files: "/-/crates",
            immutable: &["/-/crates", "*.crate", "*/download"],
            ttl: "5m",
        },
    },
    Preset {
        name: "go",
        upstreams: 1,
        public_from: usize::MAX,
        write: |_| Written {
            route: Vec::new(),
            files: "",
            // Clients request `.info` for branches, too; names of branches do not match these patterns.
            immutable: &[
                "*/@v/v*.*.*.info",
                "*/@v/v*.*.*.mod",
                "*/@v/v*.*.*.zip",
                "/sumdb/*/lookup/*",
                "/sumdb/*/tile/*",
            ],
            ttl: "1m",
        },
    },
    Preset {
        name: "oci",
        upstreams: 1,
        public_from: usize::MAX,
        write: |_| Written {
            route: vec!["verify-digest = true".to_owned()],
            files: "",
            immutable: &["/v2/*/blobs/sha256:*", "/v2/*/manifests/sha256:*"],
            ttl: "1m",
        },
    },
];

/// Lines of a route that replaces a text.
fn replacing(from: &str, to: &str) -> Vec<String> {
    vec![format!(
        "replace-host = {{ from = \"{from}\", to = \"{to}\" }}"
    )]
}

/// Settings of a listener that are for its preset.
const KEYS: [&str; 5] = [
    "listener.preset",
    "listener.upstream",
    "listener.public",
    "listener.follow-redirects",
    "listener.token-hosts",
];

/// Settings of these that go into routes as written.
const PASSED_ON: [(&str, &str); 2] = [
    (
        "listener.follow-redirects",
        "listener.route.follow-redirects",
    ),
    ("listener.token-hosts", "listener.route.token-hosts"),
];

/// The name of a preset.
pub fn name(given: &Given) -> Result<&'static str, String> {
    let names = PRESETS.each_ref().map(|preset| (preset.name, preset.name));
    values::word(given, &names)
}

/// URLs of upstreams.
pub fn upstreams(given: &Given) -> Result<Vec<OriginUrl>, String> {
    let one = |text: String| {
        values::origin(&Given {
            value: Value::Text(text),
            ..given.clone()
        })
    };
    values::list(given)?.into_iter().map(one).collect()
}

/// The configuration with every preset written out; problems with presets go to `problems`.
pub fn expand(raw: &Raw, problems: &mut Vec<Problem>) -> Raw {
    let mut raw = raw.clone();
    for block in &mut raw.listeners {
        let text = text_of(block, problems);
        let places = block.given.iter();
        let own_places: Vec<_> = places
            .map(|given| (given.key.clone(), given.place.clone()))
            .collect();
        block
            .given
            .retain(|given| !KEYS.contains(&given.key.as_str()));
        let Some((given, text)) = text else { continue };
        let read = match file::parse(&text, Path::new("preset")) {
            Ok(read) => read,
            Err(problem) => {
                problems.push(given.problem(problem.to_string()));
                continue;
            }
        };
        let mut blocks: Vec<_> = read.listeners.into_iter().flat_map(|l| l.routes).collect();
        for route in &mut blocks {
            move_to(route, &given.place);
            for (own, written) in PASSED_ON {
                let own = own_places.iter().find(|(key, _)| key == own);
                let to = route.given.iter_mut().find(|given| given.key == written);
                if let (Some((_, place)), Some(to)) = (own, to) {
                    to.place = place.clone();
                }
            }
        }
        block.routes.extend(blocks);
        let mut rules = read.rules;
        rules
            .iter_mut()
            .for_each(|rule| move_to(rule, &given.place));
        raw.rules.extend(rules);
    }
    raw
}

/// The presets of a configuration as text: the place of each setting, and the blocks it stands for.
pub fn written_out(raw: &Raw) -> Vec<(String, String)> {
    let texts = raw.listeners.iter().filter_map(|block| {
        let (given, text) = text_of(block, &mut Vec::new())?;
        Some((
            format!("preset = {}{}", given.value, given.place.words()),
            text,
        ))
    });
    texts.collect()
}

/// Moves the settings of a preset to the line of `preset`, for messages, except those written by hand ([`PASSED_ON`]).
fn move_to(block: &mut Block, place: &Place) {
    block.place = place.clone();
    for given in &mut block.given {
        given.place = place.clone();
    }
}

/// The text that a listener's preset stands for.
fn text_of(block: &Block, problems: &mut Vec<Problem>) -> Option<(Given, String)> {
    let Some(given) = block.find("listener.preset").cloned() else {
        for key in &KEYS[1..] {
            let message =
                "belongs to a preset; write preset = \"pypi\" or another, or write it into a route";
            problems.extend(block.find(key).map(|given| given.problem(message)));
        }
        return None;
    };
    let read = || {
        let name = name(&given).map_err(|why| given.problem(why))?;
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let preset = preset.expect("`name` knows the presets");
        let Some(urls) = block.find("listener.upstream") else {
            let message =
                "where is it? write upstream = \"https://HOST\", the URL of what is mirrored";
            return Err(given.problem(message));
        };
        let upstreams = upstreams(urls).map_err(|why| urls.problem(why))?;
        if upstreams.is_empty() || upstreams.len() > preset.upstreams {
            let many = match preset.upstreams {
                1 => "one URL".to_owned(),
                most => format!("one to {most} URLs"),
            };
            let message = format!("the preset {name} takes {many}; see docs/mirrors.md");
            return Err(urls.problem(message));
        }
        let public = match block.find("listener.public") {
            Some(public) => values::origin(public)
                .map_err(|why| public.problem(why))?
                .to_string(),
            None if upstreams.len() >= preset.public_from => {
                let message = "clients follow whole URLs: write public = \"http://HOST:PORT\", the URL by which they know this listener";
                return Err(given.problem(message));
            }
            None => String::new(),
        };
        let wish = Wish { upstreams, public };
        Ok(text(preset, &wish, block))
    };
    match read() {
        Ok(text) => Some((given.clone(), text)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn text(preset: &Preset, wish: &Wish, block: &Block) -> String {
    let written = (preset.write)(wish);
    let given = |key: &str| {
        block
            .find(&format!("listener.{key}"))
            .map(|given| &given.value)
    };
    let mut lines = vec!["[[listener]]".to_owned()];
    for (at, upstream) in wish.upstreams.iter().enumerate() {
        lines.push("[[listener.route]]".to_owned());
        if at > 0 {
            lines.push(format!("path = \"{0}\"\nstrip = \"{0}\"", written.files));
        }
        lines.push(format!("origin = \"{upstream}\"\npass-host = false"));
        if at == 0 {
            lines.extend(written.route.iter().cloned());
        }
        if let Some(hosts) = given("follow-redirects") {
            lines.push(format!("follow-redirects = {hosts}"));
        }
        match (given("token-hosts"), preset.name) {
            (Some(hosts), _) => lines.push(format!("token-hosts = {hosts}")),
            (None, "oci") => lines.push("token-hosts = []".to_owned()),
            (None, _) => {}
        }
        lines.push(String::new());
    }
    let listener = listener_word(block);
    let immutable = Value::List(
        (written.immutable.iter())
            .map(|path| Value::Text((*path).to_owned()))
            .collect(),
    );
    lines.push(format!(
        "[[rule]]\nlistener = {listener}\npath = {immutable}\nttl = \"365d\"\nstale-if-error = \"365d\"\n"
    ));
    lines.push(format!(
        "[[rule]]\nlistener = {listener}\nttl = \"{}\"\nstale-if-error = \"30d\"\n",
        written.ttl
    ));
    lines.join("\n")
}

/// How a rule names this listener: by its name, or by its address.
fn listener_word(block: &Block) -> Value {
    let name = block.find("listener.name").map(|given| given.value.clone());
    let address = || {
        let given = block.find("listener.address")?;
        let address = values::socket_address(given).ok()?;
        Some(Value::Text(address.to_string()))
    };
    let word = name.or_else(address);
    word.unwrap_or_else(|| Value::Text(values::LISTEN.to_string()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proxy::plan::Role;

    use crate::config::testing::{raw, settle};

    use super::*;

    #[test]
    fn a_preset_is_text_that_a_person_could_write() {
        let raw = raw(
            "[[listener]]\nname = \"py\"\npreset = \"pypi\"\nupstream = [\"https://index.example\", \"https://files.example/x/\"]\n",
        )
        .unwrap();
        let [(place, text)] = &written_out(&raw)[..] else {
            panic!("one preset");
        };
        assert_eq!(place, "preset = \"pypi\" in line 3");
        expect![[r#"
            [[listener]]
            [[listener.route]]
            origin = "https://index.example"
            pass-host = false
            replace-host = { from = "https://files.example/x/", to = "/-/files/" }

            [[listener.route]]
            path = "/-/files"
            strip = "/-/files"
            origin = "https://files.example/x"
            pass-host = false

            [[rule]]
            listener = "py"
            path = ["/-/files", "*.whl", "*.tar.gz", "*.zip", "*.metadata"]
            ttl = "365d"
            stale-if-error = "365d"

            [[rule]]
            listener = "py"
            ttl = "10m"
            stale-if-error = "30d"
        "#]]
        .assert_eq(text);
    }

    #[test]
    fn every_preset_becomes_a_plan() {
        for preset in &PRESETS {
            for upstreams in 1..=preset.upstreams {
                let urls = ["\"https://a.example/x\"", "\"http://b.example:81\""];
                let public = match upstreams >= preset.public_from {
                    true => "public = \"http://mirror.example:8080\"\n",
                    false => "",
                };
                let text = format!(
                    "[[listener]]\naddress = 3200\npreset = \"{}\"\nupstream = [{}]\n{public}follow-redirects = \"*.cdn.example\"\n[[listener]]\naddress = 3201\n",
                    preset.name,
                    urls[..upstreams].join(", ")
                );
                let settled = settle(&text).unwrap_or_else(|problems| panic!("{problems:?}"));
                assert_eq!(settled.notes, Vec::<String>::new());
                let plan = settled.plan;
                let Role::Reverse(routes) = &plan.listeners[0].role else {
                    panic!("{}: a reverse listener", preset.name);
                };
                assert_eq!(routes.len(), upstreams);
                assert!(
                    routes
                        .iter()
                        .all(|route| !route.pass_host && route.mirror.follow.len() == 1)
                );
                assert_eq!(
                    routes.last().unwrap().mirror.tokens.is_some(),
                    preset.name == "oci"
                );
                assert!(plan.rules.iter().all(|rule| rule.when.listeners == [0]));
                assert_eq!(plan.rules.len(), 2);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_told_where_it_was_written() {
        let told = |text: &str| {
            let problems = settle(text).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].to_string()
        };
        for (text, words) in [
            (
                "[[listener]]\npreset = \"pip\"\nupstream = \"http://a.example\"",
                ":2: listener.preset",
            ),
            ("[[listener]]\npreset = \"pypi\"", "where is it?"),
            (
                "[[listener]]\npreset = \"go\"\nupstream = [\"http://a\", \"http://b\"]",
                "takes one URL;",
            ),
            (
                "[[listener]]\npreset = \"npm\"\nupstream = \"http://a\"",
                "write public =",
            ),
            (
                "[[listener]]\norigin = \"http://a\"\nupstream = \"http://a\"",
                "belongs to a preset",
            ),
            (
                "[[listener]]\npreset = \"apt\"\nupstream = \"a\"",
                "the scheme is missing",
            ),
            (
                "[[listener]]\npreset = \"oci\"\nupstream = \"http://a\"\ntoken-hosts = \"a/b\"",
                "expected a host",
            ),
        ] {
            let said = told(text);
            assert!(said.contains(words), "{said}");
        }
    }
}
