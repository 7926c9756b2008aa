//! How many bytes written to a TCP socket are not yet acknowledged.
//!
//! It lives in this crate because the system call has no safe wrapper.

use std::{ffi::c_int, io, os::fd::AsFd};

use rustix::ioctl::{Getter, Opcode, ioctl};

/// SIOCOUTQ, which has the number of TIOCOUTQ.
#[cfg(not(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "sparc64"
)))]
const SIOCOUTQ: Opcode = 0x5411;
#[cfg(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc64"
))]
const SIOCOUTQ: Opcode = 0x4004_7473;
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
const SIOCOUTQ: Opcode = 0x7472;

/// Bytes that were written to a TCP socket and are not acknowledged.
///
/// # Errors
/// It is no TCP socket.
pub fn unacknowledged_bytes(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: SIOCOUTQ writes one C int to where it is told, and `Getter` points it to one.
    let count = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new()) }?;
    Ok(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use super::*;

    #[test]
    fn what_the_other_side_has_taken_is_no_longer_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        assert_eq!(unacknowledged_bytes(&here).unwrap(), 0);
        here.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(n) = here.write(&[0; 65_536]) {
            written += n;
        }
        let before = unacknowledged_bytes(&here).unwrap();
        assert!(before > 0 && before <= written as u64);
        there.read_exact(&mut vec![0; written]).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while unacknowledged_bytes(&here).unwrap() > 0 {
            assert!(Instant::now() < until, "it is acknowledged");
        }
    }
}
