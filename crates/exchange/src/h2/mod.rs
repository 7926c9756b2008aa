//! HTTP/2 to clients (RFC 9113). The crate `http2` interprets the frames; this folder has sockets, tasks and time.
//!
//! ```text
//!            one task a connection                         one task a stream
//!   socket ─> read ─> events ─┬─> fresh in memory: answered here
//!                             └─> everything else ───────> Exchange, as over HTTP/1
//!   socket <─ write <─ a turn of frames <──── Link <─────── head, pieces, end
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `serve` | the connection's task: reads, writes, deadlines, its end |
//! | `requests` | from events to answers and tasks |
//! | `link` | the state that the connection and its streams share |
//! | `held` | received and untaken bytes of a request's body |
//! | `stream` | the task of a stream: from disk, or the long way |
//! | `head` | a request's head in the form of HTTP/1.1 |
//! | `block` | an answer's head as a block of fields |
//! | `hit` | how hits are sent ([`crate::hit`]) |
//! | `tunnel` | a stream as two flows of bytes, after CONNECT |
//! | `websocket` | the WebSocket handshake with an HTTP/1.1 origin (RFC 8441) |
//!
//! Not known here: how a request is answered ([`crate::request`]), how a head is encoded (`http2`).

pub(crate) mod block;
pub(crate) mod head;
mod held;
mod hit;
pub(crate) mod link;
mod requests;
pub mod serve;
mod stream;
pub(crate) mod tunnel;
pub mod websocket;
