//! Tunnels: two byte streams joined, after CONNECT or a 101 Switching Protocols.
//!
//! Each direction reads a piece, writes it, and only then reads again, so a slow receiver holds its sender back through TCP, and at
//! most `PIECE_BYTES_MAX` wait in between. An idle tunnel holds no buffer: a piece is read onto the stack, and only bytes that the
//! receiver does not take at once are kept.
//!
//! Ends:
//! - A side finishes sending (FIN, close_notify): the end is passed on, and the other direction continues
//!   (half-close; RFC 9110 §9.3.6 requires that everything sent before the end is delivered).
//! - A side stops taking bytes: only that direction ends, so that bytes it sent before it closed still arrive.
//! - Reading from a stream fails: the tunnel ends.
//! - No bytes in either direction for the idle time-out: the tunnel ends.
//!
//! Not known here: HTTP, access rules. The caller closes both sides by dropping them.

use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use base::mistakes::{Mistake, makes};
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};

/// The size of a piece, and so the most bytes that wait for one receiver (besides the leftover at the start).
const PIECE_BYTES_MAX: usize = 16 * 1024;
/// Pieces that one direction moves before the other direction and the worker's other tasks run.
const PIECES_PER_TURN_MAX: usize = 8;

/// The direction of a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Up.
    ClientToOrigin,
    /// Down.
    OriginToClient,
}

/// Why a tunnel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// Both sides had finished.
    Finished,
    /// Nothing moved for the idle time-out.
    Idle,
    /// The client's connection broke.
    ClientLost(io::ErrorKind),
    /// The origin's connection broke.
    OriginLost(io::ErrorKind),
}

/// The bytes that the receivers' sockets took, and the first error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelEnd {
    /// Up, leftover included.
    pub client_to_origin_bytes: u64,
    /// Down, leftover included.
    pub origin_to_client_bytes: u64,
    /// Why the tunnel ended.
    pub reason: EndReason,
}

/// Joins both streams until the end. The leftovers are bytes already read from each side and not passed on yet. `on_bytes` is
/// called for every write, for the gauges.
pub async fn splice<C, O>(
    mut client: C,
    client_leftover: &[u8],
    mut origin: O,
    origin_leftover: &[u8],
    idle_timeout: Duration,
    mut on_bytes: impl FnMut(Direction, u64),
) -> TunnelEnd
where
    C: AsyncRead + AsyncWrite + Unpin,
    O: AsyncRead + AsyncWrite + Unpin,
{
    let mut up = Half::new(client_leftover);
    let mut down = Half::new(origin_leftover);
    let mut moved = Instant::now();
    let mut sleep = pin!(sleep_until(moved + idle_timeout));

    let reason = poll_fn(|cx| {
        let (up_before, down_before) = (up.bytes, down.bytes);
        let up_turn = up.poll_turn(cx, &mut client, &mut origin);
        let down_turn = down.poll_turn(cx, &mut origin, &mut client);

        let (up_bytes, down_bytes) = (up.bytes - up_before, down.bytes - down_before);
        if up_bytes > 0 {
            on_bytes(Direction::ClientToOrigin, up_bytes);
        }
        if down_bytes > 0 {
            on_bytes(Direction::OriginToClient, down_bytes);
        }
        if up_bytes + down_bytes > 0 {
            moved = Instant::now();
        }

        match (up_turn, down_turn) {
            (Turn::ReadFailed(kind), _) => return Poll::Ready(EndReason::ClientLost(kind)),
            (_, Turn::ReadFailed(kind)) => return Poll::Ready(EndReason::OriginLost(kind)),
            (Turn::Done, _) | (_, Turn::Done) if makes(Mistake::EndBoth) => {
                return Poll::Ready(EndReason::Finished);
            }
            (Turn::Done, Turn::Done) => {
                return Poll::Ready(match (up.broken, down.broken) {
                    (Some(kind), _) => EndReason::OriginLost(kind),
                    (_, Some(kind)) => EndReason::ClientLost(kind),
                    (None, None) => EndReason::Finished,
                });
            }
            (Turn::Used, _) | (_, Turn::Used) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            (Turn::Waiting | Turn::Done, Turn::Waiting | Turn::Done) => {}
        }
        // The timer is not reset with every byte; when it fires, it is set to the remaining time.
        while sleep.as_mut().poll(cx).is_ready() {
            let due = moved + idle_timeout;
            if due <= Instant::now() {
                return Poll::Ready(EndReason::Idle);
            }
            sleep.as_mut().reset(due);
        }
        Poll::Pending
    })
    .await;

    TunnelEnd {
        client_to_origin_bytes: up.bytes,
        origin_to_client_bytes: down.bytes,
        reason,
    }
}

/// One direction.
struct Half {
    /// Bytes read and not written yet.
    pending: Bytes,
    bytes: u64,
    /// Bytes were written since the last flush (TLS keeps bytes back).
    unflushed: bool,
    state: State,
    /// The receiver refused bytes, or their end.
    broken: Option<io::ErrorKind>,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    /// The sender has finished; the receiver must still be told.
    Ending,
    Done,
}

/// The result of one turn.
enum Turn {
    /// A waker is registered.
    Waiting,
    /// There is more to do, but it is the other direction's turn.
    Used,
    Done,
    ReadFailed(io::ErrorKind),
}

impl Half {
    fn new(leftover: &[u8]) -> Self {
        Self {
            pending: Bytes::copy_from_slice(leftover),
            bytes: 0,
            unflushed: false,
            state: State::Open,
            broken: None,
        }
    }

    fn poll_turn<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Turn
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        match self.poll_pieces(cx, from, to) {
            Ok(turn) => turn,
            Err(error) => {
                self.broken = Some(error.kind());
                self.state = State::Done;
                self.pending = Bytes::new();
                Turn::Done
            }
        }
    }

    /// `Err`: the receiver failed.
    fn poll_pieces<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> io::Result<Turn>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        for _ in 0..PIECES_PER_TURN_MAX {
            while !self.pending.is_empty() {
                let Poll::Ready(taken) = self.poll_take(cx, to, None)? else {
                    return Ok(Turn::Waiting);
                };
                self.pending.advance(taken);
            }
            match self.state {
                State::Done => return Ok(Turn::Done),
                State::Ending => {
                    let Poll::Ready(ended) = Pin::new(to).poll_shutdown(cx) else {
                        return Ok(Turn::Waiting);
                    };
                    self.state = State::Done;
                    return ended.map(|()| Turn::Done);
                }
                State::Open => {}
            }
            let mut piece = [const { MaybeUninit::uninit() }; PIECE_BYTES_MAX];
            let mut piece = ReadBuf::uninit(&mut piece);
            match Pin::new(&mut *from).poll_read(cx, &mut piece) {
                Poll::Pending => {
                    if self.unflushed && Pin::new(&mut *to).poll_flush(cx)?.is_ready() {
                        self.unflushed = false;
                    }
                    return Ok(Turn::Waiting);
                }
                Poll::Ready(Err(error)) => return Ok(Turn::ReadFailed(error.kind())),
                Poll::Ready(Ok(())) => {}
            }
            let mut rest = piece.filled();
            if rest.is_empty() {
                self.state = State::Ending;
            }
            while !rest.is_empty() {
                match self.poll_take(cx, to, Some(rest))? {
                    Poll::Ready(taken) => rest = &rest[taken..],
                    Poll::Pending => {
                        if !makes(Mistake::LoseUntaken) {
                            self.pending = Bytes::copy_from_slice(rest);
                        }
                        return Ok(Turn::Waiting);
                    }
                }
            }
        }
        Ok(Turn::Used)
    }

    /// Writes once, from `piece` or else from the pending bytes.
    fn poll_take<W>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        piece: Option<&[u8]>,
    ) -> io::Result<Poll<usize>>
    where
        W: AsyncWrite + Unpin,
    {
        match Pin::new(to).poll_write(cx, piece.unwrap_or(&self.pending)) {
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(taken)) => {
                self.bytes += taken as u64;
                self.unflushed = true;
                Ok(Poll::Ready(taken))
            }
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};

    const LONG: Duration = Duration::from_secs(20);

    /// Both ends of a connection over loopback.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (a, b) = tokio::join!(
            TcpStream::connect(listener.local_addr().unwrap()),
            listener.accept()
        );
        (a.unwrap(), b.unwrap().0)
    }

    async fn joined(client: TcpStream, origin: TcpStream) -> TunnelEnd {
        splice(client, b"", origin, b"", LONG, |_, _| ()).await
    }

    #[tokio::test]
    async fn bytes_go_both_ways_leftovers_first_and_are_counted() {
        let (mut client, client_side) = pair().await;
        let (mut origin, origin_side) = pair().await;
        let (up, down) = (Cell::new(0), Cell::new(0));
        let tunnel = splice(
            client_side,
            b"GET ",
            origin_side,
            b"HTTP",
            LONG,
            |direction, bytes| {
                let sum = if direction == Direction::ClientToOrigin {
                    &up
                } else {
                    &down
                };
                sum.set(sum.get() + bytes);
            },
        );
        let talk = async {
            client.write_all(b"/").await.unwrap();
            origin.write_all(b"/1.1").await.unwrap();
            let (mut request, mut answer) = ([0; 5], [0; 8]);
            origin.read_exact(&mut request).await.unwrap();
            client.read_exact(&mut answer).await.unwrap();
            assert_eq!((&request, &answer), (b"GET /", b"HTTP/1.1"));
            drop((client, origin));
        };
        let (end, ()) = tokio::join!(tunnel, talk);
        assert_eq!(
            (end.client_to_origin_bytes, end.origin_to_client_bytes),
            (5, 8)
        );
        assert_eq!((up.get(), down.get()), (5, 8));
        assert_eq!(end.reason, EndReason::Finished);
    }

    #[tokio::test]
    async fn a_client_that_finished_sending_still_gets_the_answer() {
        let (mut client, client_side) = pair().await;
        let (mut origin, origin_side) = pair().await;
        let talk = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut question = Vec::new();
            origin.read_to_end(&mut question).await.unwrap();
            origin.write_all(b"answer").await.unwrap();
            drop(origin);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            (question, answer)
        };
        let (end, (question, answer)) = tokio::join!(joined(client_side, origin_side), talk);
        assert_eq!(
            (&question[..], &answer[..]),
            (&b"question"[..], &b"answer"[..])
        );
        assert_eq!(end.reason, EndReason::Finished);
    }

    #[tokio::test]
    async fn an_origin_that_finished_sending_still_listens() {
        let (mut client, client_side) = pair().await;
        let (mut origin, origin_side) = pair().await;
        let talk = async {
            origin.shutdown().await.unwrap();
            assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
            client.write_all(b"late").await.unwrap();
            drop(client);
            let mut late = Vec::new();
            origin.read_to_end(&mut late).await.unwrap();
            late
        };
        let (end, late) = tokio::join!(joined(client_side, origin_side), talk);
        assert_eq!(late, b"late");
        assert_eq!(
            (end.client_to_origin_bytes, end.reason),
            (4, EndReason::Finished)
        );
    }

    #[tokio::test]
    async fn both_directions_move_at_once_through_full_sockets() {
        const EACH: usize = 4 << 20;
        fn pattern(seed: u8) -> impl Iterator<Item = u8> {
            (0..EACH).map(move |n| (n / 251) as u8 ^ seed)
        }
        async fn exchange(mut stream: TcpStream, sends: u8, expects: u8) {
            let body: Vec<u8> = pattern(sends).collect();
            let mut got = Vec::with_capacity(EACH);
            let (mut from, mut to) = stream.split();
            let write = async {
                to.write_all(&body).await.unwrap();
                to.shutdown().await.unwrap();
            };
            let (read, ()) = tokio::join!(from.read_to_end(&mut got), write);
            read.unwrap();
            assert!(
                got.into_iter().eq(pattern(expects)),
                "what arrives is what the other side sent"
            );
        }
        let (client, client_side) = pair().await;
        let (origin, origin_side) = pair().await;
        let (end, (), ()) = tokio::join!(
            joined(client_side, origin_side),
            exchange(client, 0x00, 0x55),
            exchange(origin, 0x55, 0x00)
        );
        assert_eq!(
            (end.client_to_origin_bytes, end.origin_to_client_bytes),
            (EACH as u64, EACH as u64)
        );
        assert_eq!(end.reason, EndReason::Finished);
    }

    #[tokio::test]
    async fn an_idle_tunnel_ends() {
        let (_client, client_side) = pair().await;
        let (_origin, origin_side) = pair().await;
        let short = Duration::from_millis(5);
        let end = splice(client_side, b"", origin_side, b"", short, |_, _| ()).await;
        assert_eq!(end.reason, EndReason::Idle);
    }

    #[tokio::test]
    async fn a_reset_client_ends_the_tunnel() {
        let (client, client_side) = pair().await;
        let (_origin, origin_side) = pair().await;
        client.set_zero_linger().unwrap();
        drop(client);
        let end = joined(client_side, origin_side).await;
        assert_eq!(
            end.reason,
            EndReason::ClientLost(io::ErrorKind::ConnectionReset)
        );
    }

    #[tokio::test]
    async fn the_last_words_of_an_origin_that_stopped_listening_arrive() {
        let (mut client, client_side) = duplex(64);
        let (mut origin, origin_side): (DuplexStream, DuplexStream) = duplex(64);
        origin.write_all(b"too large, bye").await.unwrap();
        drop(origin);
        let tunnel = splice(client_side, b"unwanted", origin_side, b"", LONG, |_, _| ());
        let talk = async {
            let mut words = Vec::new();
            client.read_to_end(&mut words).await.unwrap();
            words
        };
        let (end, words) = tokio::join!(tunnel, talk);
        assert_eq!(words, b"too large, bye");
        assert_eq!(end.reason, EndReason::OriginLost(io::ErrorKind::BrokenPipe));
    }
}
