//! `loligo store`: making, reading and emptying a store that no proxy has open.
//!
//! | command | file | opens |
//! |---|---|---|
//! | init | `init` | alone, to write |
//! | inspect | `inspect` | to read |
//! | ls | `ls`, `reading` | to read |
//! | get | `get` | to read |
//! | verify | `verify` | to read |
//! | rm | `rm` | alone, to write |
//!
//! Commands that read use `store::Inspection`, which cannot write, on a device opened for reading: the store does not change. `opened` opens
//! stores, `stored` converts keys to URLs and back, `show` formats values. Results go to standard output; progress, warnings and errors go to
//! standard error (`output`). There are no colours.

mod args;
mod get;
mod init;
mod inspect;
mod ls;
mod opened;
mod output;
mod reading;
mod rm;
mod show;
mod stored;
mod verify;

use std::process::ExitCode;

pub use args::{STORE_HELP, StoreCommand};

/// Runs one command.
pub fn run(command: &StoreCommand) -> ExitCode {
    let done = match command {
        StoreCommand::Init(flags) => init::init(flags),
        StoreCommand::Inspect(flags) => inspect::inspect(flags),
        StoreCommand::Ls(flags) => ls::ls(flags),
        StoreCommand::Get(flags) => get::get(flags),
        StoreCommand::Verify(flags) => verify::verify(flags),
        StoreCommand::Rm(flags) => rm::rm(flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("loligo: {}", failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}
