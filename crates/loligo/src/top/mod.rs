//! `loligo top`: the activity of a running proxy, on a terminal.
//!
//! ```text
//! ask (a thread) --/live--> state <--keys-- terminal
//!                             |
//!                             +--> draw (on a terminal), text (anywhere else)
//! ```
//!
//! A thread asks the proxy once a second, so that keys work even if the proxy hangs. `state` holds the data to show, `draw` turns it
//! into a screen, and both are tested without a terminal. Without a terminal, or with `--once`, the figures are printed once as text.
//!
//! Exit status: 0; 1 the proxy does not answer (only without a screen), or the terminal failed; 2 the address is malformed.

pub mod ask;
mod draw;
mod live;
mod state;
mod tables;
mod text;
pub mod words;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::TopFlags;
use crate::settle::EXIT_UNREADABLE;
use ask::Place;
use live::Live;
use state::{Key, State};

/// The time between two requests to the proxy.
const STEP: Duration = Duration::from_secs(1);
/// The longest wait for a key between two checks for answers.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Lines of a page.
const PAGE: usize = 10;

/// The result of a request: the figures, or an error message.
type Answer = Result<Live, String>;

/// Shows the proxy until the user quits.
pub fn run(flags: &TopFlags) -> ExitCode {
    let place = match Place::parse(flags.url.as_deref().unwrap_or(ask::URL)) {
        Ok(place) => place,
        Err(why) => {
            eprintln!("loligo: {why}");
            return ExitCode::from(EXIT_UNREADABLE);
        }
    };
    if flags.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return print(&place);
    }
    match show(&place) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loligo: the terminal failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(place: &Place) -> ExitCode {
    match place.ask() {
        Ok(live) => {
            commands::print(&text::text(&place.url(), &live));
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("loligo: {why}");
            ExitCode::FAILURE
        }
    }
}

fn show(place: &Place) -> io::Result<()> {
    let answers = asked_again_and_again(place.clone())?;
    let mut terminal = ratatui::try_init()?;
    let done = look(&mut terminal, State::new(place.url()), &answers);
    // Restore even after a failure, or the shell would stay in raw mode.
    ratatui::try_restore()?;
    done
}

/// Starts a thread that asks until the receiver is dropped. At most one answer waits.
fn asked_again_and_again(place: Place) -> io::Result<Receiver<Answer>> {
    let (sender, answers) = sync_channel(1);
    thread::Builder::new().name("ask".into()).spawn(move || {
        while sender.send(place.ask()).is_ok() {
            thread::sleep(STEP);
        }
    })?;
    Ok(answers)
}

fn look(
    terminal: &mut DefaultTerminal,
    mut state: State,
    answers: &Receiver<Answer>,
) -> io::Result<()> {
    while !state.is_over {
        terminal.draw(|frame| draw::draw(&state, frame))?;
        let mut is_changed = false;
        while !is_changed {
            for answer in answers.try_iter() {
                state.answered(answer);
                is_changed = true;
            }
            if event::poll(KEY_WAIT)? {
                if let Event::Key(key) = event::read()?
                    && let Some(key) = key_of(key)
                {
                    state.pressed(key);
                }
                // Other events, such as a new size of the window, need a redraw, too.
                is_changed = true;
            }
        }
    }
    Ok(())
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Char('q'),
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Tab | KeyCode::Right => Key::Next,
        KeyCode::BackTab | KeyCode::Left => Key::Previous,
        KeyCode::Up => Key::Up(1),
        KeyCode::Down => Key::Down(1),
        KeyCode::PageUp => Key::Up(PAGE),
        KeyCode::PageDown => Key::Down(PAGE),
        KeyCode::Home => Key::Home,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
