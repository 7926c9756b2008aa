//! Frames on a link: whole ones out of a stream, and whole ones into it.
//!
//! A frame begins with its length, four bytes, little-endian; what is in it is `hints::frames`' business.
//!
//! Limits: [`FRAME_BYTES_MAX`]; a longer one ends the link. [`WRITTEN_WITHIN`] for writing one.

use std::{io, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use hints::frames::Frame;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
/// The longest frame, its length included.
pub const FRAME_BYTES_MAX: usize = LENGTH_BYTES + hints::frames::FRAME_BYTES_MAX;
/// The longest write of one frame; a member that takes none for so long is gone.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

/// The frames that come in over a stream.
pub struct Incoming<R> {
    stream: R,
    input: BytesMut,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// Nothing has come yet.
    pub fn new(stream: R) -> Self {
        Incoming {
            stream,
            input: BytesMut::new(),
        }
    }

    /// The next frame, its length included. Nothing is lost if the wait is given up.
    ///
    /// # Errors
    /// The stream has ended, or what comes is no frame (`InvalidData`).
    pub async fn next(&mut self) -> io::Result<Bytes> {
        loop {
            if let Some(frame) = self.whole()? {
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn whole(&mut self) -> io::Result<Option<Bytes>> {
        let Some(length) = self.input.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = LENGTH_BYTES.saturating_add(u32::from_le_bytes(*length) as usize);
        if length > FRAME_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.input.len() < length {
            self.input.reserve(length - self.input.len());
            return Ok(None);
        }
        let frame = self.input.split_to(length).freeze();
        if !self.input.has_remaining() {
            // A burst does not keep its room for ever.
            self.input = BytesMut::new();
        }
        Ok(Some(frame))
    }
}

/// What a whole frame says.
///
/// # Errors
/// Nothing that a member says (`InvalidData`).
pub fn decode(frame: &[u8]) -> io::Result<Frame> {
    match Frame::decode(frame) {
        Ok(Some((said, bytes))) if bytes == frame.len() => Ok(said),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
        Err(unreadable) => Err(io::Error::new(io::ErrorKind::InvalidData, unreadable)),
    }
}

/// Writes a frame.
///
/// # Errors
/// The stream has ended, or takes nothing.
pub async fn write<W: AsyncWrite + Unpin>(stream: &mut W, frame: &[u8]) -> io::Result<()> {
    debug_assert!(frame.len() <= FRAME_BYTES_MAX);
    match timeout(WRITTEN_WITHIN, stream.write_all(frame)).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_whole_however_they_are_cut() {
        let frame = |body: &[u8]| [&(body.len() as u32).to_le_bytes()[..], body].concat();
        let all = [frame(b"one"), frame(b""), frame(&[7; 5000])].concat();
        for step in [1, 3, 4096, all.len()] {
            let (mut to, from) = tokio::io::duplex(64);
            let mut incoming = Incoming::new(from);
            let all = all.clone();
            let write = async move {
                for part in all.chunks(step) {
                    to.write_all(part).await.unwrap();
                }
            };
            let read = async {
                for body in [&b"one"[..], b"", &[7; 5000]] {
                    assert_eq!(incoming.next().await.unwrap(), frame(body));
                }
                incoming.next().await.unwrap_err().kind()
            };
            let ((), end) = tokio::join!(write, read);
            assert_eq!(end, io::ErrorKind::UnexpectedEof, "{step}");
        }
    }

    #[tokio::test]
    async fn a_frame_too_long_is_none() {
        let bytes = [0xff; 8];
        let mut incoming = Incoming::new(&bytes[..]);
        let error = incoming.next().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
