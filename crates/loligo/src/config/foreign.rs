//! Explains why a text is not TOML: it is another program's configuration, or has a common slip.
//!
//! Used only for a text that could not be parsed, so a wrong guess does no harm.

/// How many lines are searched for words of other programs.
const LINES_MAX: usize = 500;

struct Program {
    name: &'static str,
    help: &'static str,
    /// Words with which lines of its configuration begin.
    words: &'static [&'static str],
    /// Do these lines end with `{` or `;`?
    has_braces: bool,
}

const PROGRAMS: [Program; 5] = [
    Program {
        name: "Squid",
        help: "docs/guide.md says under \"Move from Squid\" what each directive becomes",
        words: &[
            "acl",
            "cache_dir",
            "cache_mem",
            "cache_peer",
            "http_access",
            "http_port",
            "refresh_pattern",
        ],
        has_braces: false,
    },
    Program {
        name: "nginx",
        help: "docs/guide.md says under \"Move from nginx\" what each directive becomes",
        words: &[
            "events",
            "http",
            "listen",
            "location",
            "proxy_pass",
            "server",
            "upstream",
            "worker_processes",
        ],
        has_braces: true,
    },
    Program {
        name: "Varnish",
        help: "docs/guide.md says under \"Move from Varnish\" what each part becomes",
        words: &["vcl", "sub", "backend", "import"],
        has_braces: true,
    },
    Program {
        name: "HAProxy",
        help: "docs/guide.md has examples, docs/configuration.md every setting",
        words: &["backend", "defaults", "frontend", "global"],
        has_braces: false,
    },
    Program {
        name: "Apache",
        help: "docs/guide.md has examples, docs/configuration.md every setting",
        words: &["<VirtualHost", "CacheEnable", "LoadModule", "ProxyPass"],
        has_braces: false,
    },
];

/// Blocks that may repeat, which some people write with one pair of brackets.
const REPEAT: [&str; 7] = [
    "store", "listener", "upstream", "parent", "sibling", "rule", "limit",
];

const QUOTES: [char; 8] = ['“', '”', '„', '‟', '‘', '’', '«', '»'];

/// Explains why a text is not TOML. `at`: where the parser stopped; `said`: its message.
pub fn why_no_toml(text: &str, at: usize, said: &str) -> String {
    if let Some(Program { name, help, .. }) = whose(text) {
        return format!("this is a configuration of {name}, and Loligo's is in TOML; {help}");
    }
    let line = line_at(text, at);
    if let Some(quote) = line.chars().find(|c| QUOTES.contains(c)) {
        return format!(
            "not TOML: {quote} is a quotation mark of typography, which word processors put in; write \" in its place"
        );
    }
    let begins = |head: &str| text.lines().any(|line| line.trim_start().starts_with(head));
    let doubled = REPEAT.iter().find(|name| {
        let line = line.trim_start().trim_start_matches('[');
        line.starts_with(&format!("{name}]")) && begins(&format!("[{name}]"))
    });
    match doubled {
        Some(name) => format!(
            "not TOML: where there are several, each begins with [[{name}]], the first one, too; here is a [{name}] with one pair of brackets"
        ),
        None => format!("not TOML: {}", said.trim()),
    }
}

/// The program to which most lines belong, if any do.
fn whose(text: &str) -> Option<&'static Program> {
    let lines = || text.lines().map(str::trim).take(LINES_MAX);
    let count = |program: &&Program| lines().filter(|line| program.wrote(line)).count();
    let likely = PROGRAMS.iter().max_by_key(count)?;
    (count(&likely) > 0).then_some(likely)
}

impl Program {
    fn wrote(&self, line: &str) -> bool {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| self.words.contains(&word))
            // A line with `=` would be TOML.
            && words.next() != Some("=")
            && line.ends_with(['{', ';']) == self.has_braces
    }
}

fn line_at(text: &str, at: usize) -> &str {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[begin..].lines().next().unwrap_or_default()
}
