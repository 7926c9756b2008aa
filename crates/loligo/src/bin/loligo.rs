//! The `loligo` command. All of it is in the library, so that its command line can be asked from outside, too.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    loligo::run()
}
