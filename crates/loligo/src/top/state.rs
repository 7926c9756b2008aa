//! The state of the screen, and how keys and answers change it.
//!
//! Not known here: terminals, sockets, time.

use crate::top::live::Live;
use crate::top::tables::Kind;

/// A key that has a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A letter or sign.
    Char(char),
    /// Go to the next table.
    Next,
    /// Go to the previous table.
    Previous,
    /// Scroll up by so many lines.
    Up(usize),
    /// Scroll down by so many lines.
    Down(usize),
    /// Go to the first line.
    Home,
    /// Leave the help.
    Escape,
}

/// The state of the screen.
pub struct State {
    /// The proxy that is shown.
    pub url: String,
    /// The table that is shown.
    pub shown: Kind,
    /// How many lines of the table are above the screen.
    pub scrolled: usize,
    /// The figures do not change while this is true.
    pub is_paused: bool,
    /// The help is shown.
    pub helps: bool,
    /// The last answer.
    pub live: Option<Live>,
    /// Why the last request had no answer, and how many in a row had none.
    pub trouble: Option<(String, u32)>,
    /// The user has quit.
    pub is_over: bool,
    sorts: [usize; Kind::ALL.len()],
}

impl State {
    /// The state before the first answer.
    pub fn new(url: String) -> State {
        State {
            url,
            shown: Kind::Hosts,
            scrolled: 0,
            is_paused: false,
            helps: false,
            live: None,
            trouble: None,
            is_over: false,
            sorts: [0; Kind::ALL.len()],
        }
    }

    /// The index of the shown table's sort in [`Kind::sorts`].
    pub fn sort(&self) -> usize {
        self.sorts[self.shown as usize]
    }

    /// Takes an answer, or why there is none.
    pub fn answered(&mut self, answer: Result<Live, String>) {
        match answer {
            Ok(live) => {
                self.trouble = None;
                if self.is_paused && self.live.is_some() {
                    return;
                }
                // If names are not counted, begin with the table of origins; later answers do not switch the table.
                if self.live.is_none() && self.shown == Kind::Hosts && live.top.is_none() {
                    self.shown = Kind::Origins;
                }
                // A table disappears when the proxy no longer has data for it.
                if !Kind::shown(Some(&live)).contains(&self.shown) {
                    self.shown = Kind::Origins;
                }
                self.live = Some(live);
            }
            Err(why) => {
                let tries = self.trouble.as_ref().map_or(0, |(_, tries)| *tries);
                self.trouble = Some((why, tries.saturating_add(1)));
            }
        }
    }

    /// Takes a key.
    pub fn pressed(&mut self, key: Key) {
        if self.helps {
            // Any key leaves the help, and q quits.
            self.helps = false;
            self.is_over = key == Key::Char('q');
            return;
        }
        let tabs = Kind::shown(self.live.as_ref());
        let shown = tabs.iter().position(|kind| *kind == self.shown);
        let (shown, tabs) = (shown.unwrap_or(0), tabs.len());
        match key {
            Key::Char('q') => self.is_over = true,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('?' | 'h') => self.helps = true,
            Key::Char('s') => {
                self.sorts[self.shown as usize] += 1;
                self.sorts[self.shown as usize] %= self.shown.sorts().len();
                self.scrolled = 0;
            }
            Key::Char(digit @ '1'..='7') => self.show(digit as usize - '1' as usize),
            Key::Next => self.show((shown + 1) % tabs),
            Key::Previous => self.show((shown + tabs - 1) % tabs),
            Key::Up(lines) => self.scrolled = self.scrolled.saturating_sub(lines),
            // The drawing stops at the last line.
            Key::Down(lines) => self.scrolled = self.scrolled.saturating_add(lines),
            Key::Home => self.scrolled = 0,
            Key::Escape | Key::Char(_) => {}
        }
    }

    fn show(&mut self, tab: usize) {
        if let Some(kind) = Kind::shown(self.live.as_ref()).get(tab) {
            self.shown = *kind;
            self.scrolled = 0;
        }
    }
}
