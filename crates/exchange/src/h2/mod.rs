//! HTTP/2 to clients (RFC 9113). The crate `http2` decides what the frames mean; here are sockets, tasks and time.
//!
//! ```text
//!            one task a connection                         one task a stream
//!   socket ─> read ─> events ─┬─> fresh in memory: answered here
//!                             └─> everything else ───────> Exchange, as over HTTP/1
//!   socket <─ write <─ a turn of frames <──── Link <─────── head, pieces, end
//! ```
//!
//! | file | story |
//! |---|---|
//! | `serve` | the connection's task: reads, writes, deadlines, its end |
//! | `requests` | from events to answers and tasks |
//! | `link` | what the connection and its streams share |
//! | `held` | what came of a request's body and was not taken |
//! | `stream` | the task of a stream: from disk, or the long way |
//! | `head` | a request's head as the rest of the proxy has it |
//! | `block` | an answer's head as a block of fields |
//! | `hit` | how hits are sent ([`crate::hit`]) |
//! | `tunnel` | a stream as two flows of bytes, after CONNECT |
//! | `websocket` | the handshake of WebSocket with an HTTP/1.1 origin (RFC 8441) |
//!
//! Not known here: what is answered ([`crate::request`]), how a head is encoded (`http2`).

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
