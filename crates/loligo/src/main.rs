//! The loligo command
fn main() {}
