//! What a route does for its origin beyond passing requests on, so that a mirror keeps all of it.
//!
//! | | |
//! |---|---|
//! | redirects | followed to the hosts that the operator names; the answer is stored under the client's URL (`redirect`), its ETag with a mark of where it lies (`mark`) |
//! | texts | one text in bodies replaced by another: where an index names its file server (`replace`) |
//! | digests | a body is checked against the digest in its path (`verify`) |
//! | tokens | the 401 of a registry is answered with a token that everybody gets (`token`) |
//!
//! All of it happens between the origin and everything else: what is told to clients, and what is stored, is the answer as changed here. So
//! a change is made once for each fetch. The key has a tag that names the changes (`request::key`), so a changed setting is a miss.
//!
//! Bodies are replaced only as they are, not compressed: the origin is asked for `identity`, and for whole bodies. A body that comes
//! compressed all the same is passed on, but not stored.
//!
//! The ETag of a replaced body is weak: the body is another one than the origin's, but means the same. Origins compare weakly in
//! If-None-Match (RFC 9110 §13.1.2), so revalidating works, and nobody puts parts of both together.
//!
//! Redirects and tokens lead only to hosts on the operator's lists, and never to this machine or a link-local address unless the list has
//! the address itself. From https nothing leads to http.
//!
//! What the answers on the way forbid becomes part of the last one's fields (`httpcache::bind`), so that whoever stores, shares or validates it obeys
//! that as well.
//!
//! | file | story |
//! |---|---|
//! | `settings` | what a route says, ready for use: all that the rest of the proxy knows |
//! | `asking` | the request, redirects and tokens on its way |
//! | `treating` | the last head as it goes on |
//! | `filter` | the body as it goes on |
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
