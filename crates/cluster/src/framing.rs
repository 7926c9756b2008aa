//! Frames on a link: cuts a stream into whole frames, and writes whole frames.
//!
//! A frame begins with its length: four bytes, little-endian. `hints::frames` defines the rest.
//!
//! Limits: [`FRAME_BYTES_MAX`] a frame; a longer one ends the link. [`WRITTEN_WITHIN`] for writing a frame.

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
/// Time limit for writing one frame. A member that does not read for so long is taken for gone.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);

/// Reads frames from a stream.
pub struct Incoming<R> {
    stream: R,
    input: BytesMut,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// A reader with an empty buffer.
    pub fn new(stream: R) -> Self {
        Incoming {
            stream,
            input: BytesMut::new(),
        }
    }

    /// The next frame, its length included. Cancelling the future loses no bytes.
    ///
    /// # Errors
    /// The stream has ended, or its bytes are not a frame (`InvalidData`).
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
            // Release the memory that a burst of frames has taken.
            self.input = BytesMut::new();
        }
        Ok(Some(frame))
    }
}

/// Decodes a whole frame.
///
/// # Errors
/// The bytes are no frame that a member sends (`InvalidData`).
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
/// The stream has ended, or the peer has not read for [`WRITTEN_WITHIN`].
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
