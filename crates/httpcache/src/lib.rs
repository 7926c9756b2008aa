//! RFC 9111 as functions of headers and time
