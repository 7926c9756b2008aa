//! Development tasks: ci, tidy, rivals, bench, fuzz-smoke
fn main() {}
