//! What to keep: replacement policies and watermarks
