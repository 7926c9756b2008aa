//! The `loligo-lab` command. Everything is in the library, so that other programs can use its command line too.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    loligo_lab::run()
}
