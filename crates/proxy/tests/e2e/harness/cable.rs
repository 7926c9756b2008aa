//! A way to an address that can be stopped, also in the middle of what comes back, or cut there.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How soon a carrier looks whether it may go on.
const TURN: Duration = Duration::from_millis(2);

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    is_stopped: AtomicBool,
    /// So many bytes still come back before it is cut, or stopped; 0: any number.
    left: AtomicU64,
    stopped_after: AtomicU64,
    sockets: Mutex<Vec<TcpStream>>,
}

impl State {
    fn sockets(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way. It lasts as long as the process.
pub struct Cable(Arc<State>);

impl Cable {
    /// From an address to another.
    pub fn lay(from: SocketAddr, to: SocketAddr) -> Cable {
        let listener = TcpListener::bind(from).unwrap();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for inward in listener.incoming() {
                let (Ok(inward), Ok(outward)) = (inward, TcpStream::connect(to)) else {
                    continue;
                };
                if shared.is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let copies = [&inward, &outward].map(|socket| socket.try_clone().unwrap());
                shared.sockets().extend(copies);
                let back = (outward.try_clone().unwrap(), inward.try_clone().unwrap());
                let states = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || carry(inward, outward, &states.0, false));
                thread::spawn(move || carry(back.0, back.1, &states.1, true));
            }
        });
        Cable(state)
    }

    /// Carries nothing more, and says nothing of it.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Carries again, also if it was to stop later.
    pub fn mend(&self) {
        let _no_carrier_decides = self.0.sockets();
        self.0.stopped_after.store(0, Ordering::SeqCst);
        self.0.is_stopped.store(false, Ordering::SeqCst);
        self.0.is_cut.store(false, Ordering::SeqCst);
    }

    /// Stops once so many more bytes have come back.
    pub fn stop_after(&self, bytes: u64) {
        self.0.stopped_after.store(bytes, Ordering::SeqCst);
    }

    /// Cuts all connections once so many more bytes have come back.
    pub fn cut_after(&self, bytes: u64) {
        self.0.left.store(bytes, Ordering::SeqCst);
    }
}

/// Has it run out, with these bytes?
fn runs_out(left: &AtomicU64, read: u64) -> bool {
    let before = left.load(Ordering::SeqCst);
    left.store(before.saturating_sub(read), Ordering::SeqCst);
    before > 0 && before <= read
}

fn end(state: &State) {
    for socket in state.sockets().drain(..) {
        let _ = socket.shutdown(Shutdown::Both);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &State, is_back: bool) {
    let mut piece = [0; 4 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        while state.is_stopped.load(Ordering::SeqCst) {
            thread::sleep(TURN);
        }
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
        if is_back {
            let _nobody_mends = state.sockets();
            if runs_out(&state.stopped_after, read as u64) {
                state.is_stopped.store(true, Ordering::SeqCst);
            }
        }
        if is_back && runs_out(&state.left, read as u64) {
            state.is_cut.store(true, Ordering::SeqCst);
            end(state);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
