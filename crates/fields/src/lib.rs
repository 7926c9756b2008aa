//! HTTP fields as an ordered list with case-insensitive look-up
