//! Reads a trace and unpacks it: `.zst`, `.gz` and `.xz`, recognized by their first bytes, not by their names.
//!
//! A compressed file may consist of several in sequence, as `cat` makes them; they are read as one.
//!
//! Not known here: the format of the trace.
//! Limits: a zstd window of at most [`ZSTD_WINDOW_BYTES_MAX`], an xz dictionary of at most [`XZ_MEMORY_KIB_MAX`]; a file that needs
//! more is refused with an error while it is read.
//! Source: RFC 8878 section 3.1 (frames, skippable frames), RFC 1952 section 2.2 (members).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The window of `zstd --long=27`.
pub const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;
/// More than `xz -9` needs.
pub const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;
const BUFFER_BYTES: usize = 1 << 18;

const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const GZIP: [u8; 2] = [0x1F, 0x8B];
const XZ: [u8; 6] = [0xFD, b'7', b'z', b'X', b'Z', 0];

/// Opens a file; `-` is standard input.
///
/// # Errors
/// Errors of the system.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return unpacked(io::stdin().lock());
    }
    unpacked(File::open(path)?)
}

/// The bytes of a source, unpacked if they are packed.
///
/// # Errors
/// Errors of the source.
pub fn unpacked(source: impl Read + 'static) -> io::Result<Box<dyn BufRead>> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let start = source.fill_buf()?;
    Ok(if start.starts_with(&ZSTD) {
        buffered(Zstd {
            state: Frame::Between(source),
        })
    } else if start.starts_with(&GZIP) {
        buffered(MultiGzDecoder::new(source))
    } else if start.starts_with(&XZ) {
        buffered(XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB_MAX))
    } else {
        Box::new(source)
    })
}

fn buffered(source: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, source))
}

/// All frames of a file, one after the other.
struct Zstd<R: BufRead> {
    state: Frame<R>,
}

enum Frame<R: BufRead> {
    Between(R),
    Within(R, Box<FrameDecoder>),
    /// An error was returned; no further bytes follow.
    Broken,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, Frame::Broken) {
                Frame::Between(mut source) => {
                    if source.fill_buf()?.is_empty() {
                        self.state = Frame::Between(source);
                        return Ok(0);
                    }
                    self.state = begin(source)?;
                }
                Frame::Within(mut source, mut decoder) => {
                    while decoder.can_collect() == 0 && !decoder.is_finished() {
                        let one = BlockDecodingStrategy::UptoBlocks(1);
                        decoder
                            .decode_blocks(&mut source, one)
                            .map_err(io::Error::other)?;
                    }
                    let len = decoder.read(buffer)?;
                    if len == 0 && !buffer.is_empty() {
                        self.state = Frame::Between(source);
                        continue;
                    }
                    self.state = Frame::Within(source, decoder);
                    return Ok(len);
                }
                Frame::Broken => return Err(io::Error::other("the zstd frame is damaged")),
            }
        }
    }
}

/// Begins a frame.
fn begin<R: BufRead>(mut source: R) -> io::Result<Frame<R>> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
    match decoder.init(&mut source) {
        Ok(()) => Ok(Frame::Within(source, Box::new(decoder))),
        Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
            length,
            ..
        })) => {
            let skipped = io::copy(
                &mut source.by_ref().take(u64::from(length)),
                &mut io::sink(),
            )?;
            if skipped < u64::from(length) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(Frame::Between(source))
        }
        Err(e) => Err(io::Error::other(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write as _;

    fn text() -> Vec<u8> {
        (0..20_000)
            .flat_map(|n| format!("{n} abc\n").into_bytes())
            .collect()
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpacked(io::Cursor::new(bytes))?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn plain_and_packed_are_the_same() {
        let text = text();
        for packed in [text.clone(), zstd(&text), gzip(&text)] {
            assert!(read(packed).unwrap() == text);
        }
    }

    #[test]
    fn xz_is_read() {
        // "abc\n" as packed by xz 5.4.
        const ABC: [u8; 56] = [
            0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x00,
            0x21, 0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x03, 0x61,
            0x62, 0x63, 0x0a, 0x00, 0x4e, 0x81, 0x88, 0x47, 0x00, 0x01, 0x18, 0x04, 0x6b, 0xe9,
            0xf0, 0xa5, 0x90, 0x42, 0x99, 0x0d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
        ];
        assert_eq!(read(ABC.to_vec()).unwrap(), b"abc\n");
    }

    #[test]
    fn files_joined_by_cat_are_read_to_the_end() {
        let text = text();
        let skippable = [&[0x50, 0x2A, 0x4D, 0x18, 5, 0, 0, 0][..], b"12345"].concat();
        let joined = [zstd(&text), skippable, zstd(&text)].concat();
        assert!(read(joined).unwrap() == [&text[..], &text].concat());
        let joined = [gzip(&text), gzip(&text)].concat();
        assert!(read(joined).unwrap() == [&text[..], &text].concat());
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        for packed in [zstd(&text()), gzip(&text())] {
            let half = packed[..packed.len() / 2].to_vec();
            assert!(read(half).is_err());
        }
    }
}
