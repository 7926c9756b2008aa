//! The link between a process and the one that replaces it: messages, and file descriptors with them.
//!
//! A message is four bytes of length, one byte with the number of its descriptors, and JSON. Both ends are processes of one user, one
//! started by the other with a socket pair that no other process can reach. A malformed message ends the upgrade.
//!
//! Blocking: each end has a thread for the link, and every wait has a limit. Not known here: the order of the messages.
//! Limits: [`MESSAGE_BYTES_MAX`]; [`DESCRIPTORS_MAX`] in one message.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use rustix::{
    cmsg_space,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use serde::{Deserialize, Serialize};

/// The longest message. The list of chunks that an old process still reads may be long: 65,536 entries of some twenty bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// The most descriptors of a message; the kernel permits 253.
pub const DESCRIPTORS_MAX: usize = 128;
/// The head of each message: its length, and the number of its descriptors.
const HEAD_BYTES: usize = 5;
/// How long the other end may take to read a message.
const SEND_MAX: Duration = Duration::from_secs(10);

/// A link.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    arrived: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

/// The result of waiting for a message.
#[derive(Debug)]
pub enum Came<T> {
    /// A message, with its descriptors.
    Message(T, Vec<OwnedFd>),
    /// The other end was closed: its process has ended, or has given up.
    End,
    /// Nothing came in time.
    Nothing,
}

impl Link {
    /// A link over this socket.
    pub fn new(stream: UnixStream) -> io::Result<Link> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SEND_MAX))?;
        Ok(Link {
            stream,
            arrived: Vec::new(),
            descriptors: VecDeque::new(),
        })
    }

    /// Sends a message, with at most [`DESCRIPTORS_MAX`] descriptors.
    ///
    /// # Errors
    /// The other end has gone, or does not read.
    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= DESCRIPTORS_MAX);
        let text = serde_json::to_vec(message)?;
        assert!(text.len() <= MESSAGE_BYTES_MAX, "{} bytes", text.len());
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        head[4] = descriptors.len() as u8;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let is_pushed = beside.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(is_pushed, "there is room for all of them");
        }
        let sent = sendmsg(
            &self.stream,
            &[IoSlice::new(&head)],
            &mut beside,
            SendFlags::NOSIGNAL,
        )?;
        let mut stream = &self.stream;
        stream.write_all(&head[sent..])?;
        stream.write_all(&text)
    }

    /// Waits for the next message, at most for `longest`.
    ///
    /// # Errors
    /// The bytes received are not a message.
    pub fn receive<T: for<'de> Deserialize<'de>>(
        &mut self,
        longest: Duration,
    ) -> io::Result<Came<T>> {
        let deadline = Instant::now() + longest;
        loop {
            if let Some((message, count)) = self.take()? {
                let descriptors: Vec<OwnedFd> = self
                    .descriptors
                    .drain(..count.min(self.descriptors.len()))
                    .collect();
                if descriptors.len() < count {
                    return Err(io::Error::other("descriptors are missing"));
                }
                return Ok(Came::Message(message, descriptors));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Came::Nothing);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.read() {
                Ok(0) => return Ok(Came::End),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(Came::Nothing);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(Came::End);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn take<T: for<'de> Deserialize<'de>>(&mut self) -> io::Result<Option<(T, usize)>> {
        let Some((head, rest)) = self.arrived.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let [a, b, c, d, count] = *head;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("a message is too long"));
        }
        let Some(text) = rest.get(..len) else {
            return Ok(None);
        };
        let message = serde_json::from_slice(text)?;
        self.arrived.drain(..HEAD_BYTES + len);
        Ok(Some((message, usize::from(count))))
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 << 10];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            &self.stream,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut beside,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.arrived.extend_from_slice(&bytes[..received.bytes]);
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, Seek as _},
        os::fd::AsFd as _,
    };

    fn pair() -> (Link, Link) {
        let (a, b) = UnixStream::pair().unwrap();
        (Link::new(a).unwrap(), Link::new(b).unwrap())
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn messages_come_in_order_each_with_its_descriptors() {
        let (from, mut to) = pair();
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let (one, two) = (file("one"), file("two"));
        let long = "x".repeat(100_000);
        let sending = std::thread::spawn(move || {
            from.send(&"a", &[one.as_fd()]).unwrap();
            from.send(&long, &[]).unwrap();
            from.send(&"b", &[two.as_fd(), one.as_fd()]).unwrap();
        });
        let mut next = || match to.receive::<String>(LONG).unwrap() {
            Came::Message(text, descriptors) => {
                let read = |fd: OwnedFd| {
                    let (mut file, mut text) = (std::fs::File::from(fd), String::new());
                    file.rewind().unwrap();
                    file.read_to_string(&mut text).unwrap();
                    text
                };
                let read: Vec<_> = descriptors.into_iter().map(read).collect();
                Some((text.len(), read.join(" ")))
            }
            Came::End => None,
            Came::Nothing => panic!("nothing came"),
        };
        assert_eq!(next(), Some((1, "one".to_owned())));
        assert_eq!(next(), Some((100_000, String::new())));
        assert_eq!(next(), Some((1, "two one".to_owned())));
        sending.join().unwrap();
        assert_eq!(next(), None);
    }

    #[test]
    fn what_is_no_message_is_an_error_and_nothing_is_waited_for_without_end() {
        let (from, mut to) = pair();
        let short = Duration::from_millis(1);
        assert!(matches!(to.receive::<String>(short), Ok(Came::Nothing)));
        let mut stream = &from.stream;
        stream.write_all(&[9, 0, 0]).unwrap();
        assert!(matches!(to.receive::<String>(short), Ok(Came::Nothing)));
        stream.write_all(&[0, 0]).unwrap();
        stream.write_all(b"no JSON {").unwrap();
        to.receive::<String>(LONG).unwrap_err();
        let (from, mut to) = pair();
        (&from.stream).write_all(&[255; 5]).unwrap();
        to.receive::<String>(LONG).unwrap_err();
        let (from, mut to) = pair();
        // The head announces a descriptor, but none comes.
        (&from.stream)
            .write_all(&[2, 0, 0, 0, 1, b'"', b'"'])
            .unwrap();
        to.receive::<String>(LONG).unwrap_err();
    }
}
