//! Hosts whose malformed answers are accepted.

/// Origins of a forward listener that may send malformed heads which are refused from all other origins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LenientHosts {
    /// Lines may end in LF alone.
    pub bare_lf: bool,
    /// Field lines may be folded.
    pub folding: bool,
    /// These origins: names in lower case, `*.suffix` for every name below it, addresses.
    pub hosts: Vec<String>,
}

impl LenientHosts {
    /// Is this host, in lower case, one of them?
    pub fn has(&self, host: &str) -> bool {
        self.hosts.iter().any(|one| match one.strip_prefix('*') {
            Some(below) => host.len() > below.len() && host.ends_with(below),
            None => one == host,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_what_is_below_them() {
        let hosts = vec!["a.example".to_owned(), "*.b.example".to_owned()];
        let lenient = LenientHosts {
            hosts,
            ..LenientHosts::default()
        };
        for host in ["a.example", "x.b.example", "x.y.b.example"] {
            assert!(lenient.has(host), "{host}");
        }
        for host in ["x.a.example", "b.example", ".b.example", "xb.example", ""] {
            assert!(!lenient.has(host), "{host}");
        }
    }
}
