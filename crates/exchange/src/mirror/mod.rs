//! Mirrored routes: work on the origin's answers that lets a mirror store all of them.
//!
//! | | |
//! |---|---|
//! | redirects | followed to configured hosts; the answer is stored under the client's URL (`redirect`), its ETag gets a mark of its place (`mark`) |
//! | texts | one text in bodies is replaced by another, e.g. the file server's name in an index (`replace`) |
//! | digests | a body is checked against the digest in its path (`verify`) |
//! | tokens | a registry's 401 is answered with a token that every client gets (`token`) |
//!
//! All of this happens between the origin and the rest of the proxy: clients get, and the store keeps, the changed answer. So a change
//! is made once a fetch. The key has a tag that names the changes (`rules::key`), so a changed setting makes stored answers misses.
//!
//! Text is replaced only in uncompressed bodies: the origin is asked for `identity` and for whole bodies. A body that arrives compressed
//! nevertheless is passed on, but not stored.
//!
//! The ETag of a body with replaced text becomes weak: the body differs from the origin's, but means the same. Origins compare weakly in
//! If-None-Match (RFC 9110 §13.1.2), so revalidation works, and no cache combines parts of both bodies.
//!
//! Redirects and tokens lead only to hosts on the operator's lists, and never to this machine or a link-local address unless the list
//! contains that address itself. A redirect from https to http is not followed.
//!
//! Restrictions of the answers on the way are added to the last answer's fields (`httpcache::bind`), so that storing, sharing and
//! validating obey them.
//!
//! | file | contents |
//! |---|---|
//! | `settings` | a route's settings, ready for use: the only part that the rest of the proxy uses |
//! | `asking` | the request, with redirects and tokens |
//! | `treating` | changes to the last head |
//! | `filter` | changes to the body |
//!
//! Not known here: caching, clients. Limits: those of [`plan::Mirroring`]; tokens as in `token`.

pub mod asking;
mod filter;
mod mark;
mod redirect;
mod replace;
pub mod settings;
mod token;
mod treating;
mod verify;
