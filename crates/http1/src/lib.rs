//! HTTP/1.1 messages without I/O: heads, framing, chunked coding
