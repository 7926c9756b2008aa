//! The `loligo` command. All of it is in the library, so that other programs can read its command line, too.
#![forbid(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    loligo::run(std::env::args_os().skip(1))
}
