//! Connections in memory behave as those of TCP.

use std::{io::ErrorKind, net::SocketAddr};

use proxy::simulation::{Socket, pair, reset_when_closed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn both() -> (Socket, Socket) {
    let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
    pair(at(1), at(2), 4)
}

#[tokio::test]
async fn a_writer_waits_for_its_reader_and_an_end_is_seen() {
    let (mut one, mut other) = both();
    assert_eq!(one.try_write(b"squids").unwrap(), 4);
    assert_eq!(
        one.try_write(b"ds").unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    let mut four = [0; 4];
    other.read_exact(&mut four).await.unwrap();
    one.write_all(b"ds").await.unwrap();
    one.shutdown().await.unwrap();
    let mut rest = Vec::new();
    other.read_to_end(&mut rest).await.unwrap();
    assert_eq!((&four, &*rest), (b"squi", &b"ds"[..]));
}

#[tokio::test]
async fn unread_bytes_and_a_wish_make_a_reset() {
    for wish in [false, true] {
        let (mut one, mut other) = both();
        other.write_all(b"lost").await.unwrap();
        if wish {
            other.read_exact(&mut [0; 0]).await.unwrap();
            reset_when_closed(&other);
        } else {
            one.write_all(b"x").await.unwrap();
        }
        drop(other);
        let error = one.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}
