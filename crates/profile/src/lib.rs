//! The record kept of every request, its file format, the access log
