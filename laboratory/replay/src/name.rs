//! A request and its name: `/WORLD/sSERVER/oOBJECT.VERSION/BYTES`.
//!
//! A new version has a new name, because a cache cannot see a new version behind an old name. The previous version stays in the cache
//! until it is evicted.
//!
//! Each replay has its own world, so that responses stored in an earlier replay are never used.

/// A request of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Number of the object.
    pub object: u32,
    /// Number of its server, which is part of its name.
    pub server: u32,
    /// Version of the object.
    pub version: u32,
    /// Length of this version.
    pub size_bytes: u32,
}

impl Ask {
    /// The path of its URL.
    pub fn path(&self, world: &str) -> String {
        format!(
            "/{world}/s{}/o{}.{}/{}",
            self.server, self.object, self.version, self.size_bytes
        )
    }

    /// World and request of a request target, in origin form or absolute form.
    pub fn of(target: &str) -> Option<(&str, Ask)> {
        let path = match target.strip_prefix("http://") {
            Some(rest) => &rest[rest.find('/')?..],
            None => target,
        };
        let mut parts = path.strip_prefix('/')?.split('/');
        let world = parts.next()?;
        let server = parts.next()?.strip_prefix('s')?;
        let (object, version) = parts.next()?.strip_prefix('o')?.split_once('.')?;
        let size_bytes = parts.next()?;
        if parts.next().is_some() {
            return None;
        }
        let ask = Ask {
            object: object.parse().ok()?,
            server: server.parse().ok()?,
            version: version.parse().ok()?,
            size_bytes: size_bytes.parse().ok()?,
        };
        Some((world, ask))
    }

    /// Its ETag, without quotes.
    pub fn tag(&self) -> String {
        format!("{}.{}.{}", self.object, self.version, self.size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_request() {
        let ask = Ask {
            object: 4_000_000_000,
            server: 3,
            version: 12,
            size_bytes: 0,
        };
        let path = ask.path("w1");
        assert_eq!(path, "/w1/s3/o4000000000.12/0");
        assert_eq!(Ask::of(&path), Some(("w1", ask)));
        let absolute = format!("http://127.0.0.1:80{path}");
        assert_eq!(Ask::of(&absolute), Some(("w1", ask)));
        for other in [
            "",
            "/",
            "http://a",
            "/w1/s3/o4/0",
            "/w/s1/o1.1/1/1",
            "/w/s1/o1.1/x",
        ] {
            assert_eq!(Ask::of(other), None, "{other}");
        }
    }
}
