//! A client that sends what it is told, byte for byte.

use std::net::{SocketAddr, TcpStream};

use super::{
    way::Duct,
    wire::{End, Response, Wire},
};

/// One connection to a proxy.
pub struct Client {
    pub wire: Wire,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client {
            wire: Wire::over(Duct::connect(address).unwrap()),
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Client {
        assert!(self.wire.send(bytes), "the proxy takes no more bytes");
        self
    }

    /// Sends a request with these fields beside Host.
    pub fn ask(&mut self, method: &str, target: &str, fields: &[&str]) -> &mut Client {
        self.send(request(method, target, fields, ""))
    }

    /// A complete response to `method`.
    #[track_caller]
    pub fn read(&mut self, method: &str) -> Response {
        let response = self.read_whatever(method);
        assert_eq!(response.cut, None, "cut: {:?}", response.fields);
        response
    }

    /// A response that may be cut.
    #[track_caller]
    pub fn read_whatever(&mut self, method: &str) -> Response {
        let mut response = self.read_head();
        self.wire.response_body(method, &mut response);
        response
    }

    #[track_caller]
    pub fn read_head(&mut self) -> Response {
        match self.wire.response_head() {
            Ok(head) => head,
            Err(end) => panic!("no response: {end:?}"),
        }
    }

    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.ask("GET", target, &[]).read("GET")
    }

    /// So many raw bytes.
    #[track_caller]
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let (bytes, cut) = self.wire.exactly(len);
        assert_eq!(cut, None, "after {} bytes of {len}", bytes.len());
        bytes
    }

    /// The proxy has closed, and said nothing more.
    #[track_caller]
    pub fn expect_close(&mut self) {
        let (rest, end) = self.wire.read_to_end();
        assert_eq!(
            (String::from_utf8_lossy(&rest).as_ref(), end),
            ("", End::Closed)
        );
    }

    /// The answer ends here, whichever way.
    pub fn expect_cut(&mut self) {
        let (rest, _) = self.wire.read_to_end();
        assert_eq!(rest.len(), 0, "nothing more was to come");
    }

    /// Says that it has finished sending.
    pub fn finish_sending(&mut self) {
        self.wire.finish_sending();
    }

    /// Leaves without a word: the other side sees a reset.
    pub fn vanish(self) {
        reset(self.wire.stream());
    }
}

/// Makes dropping the socket a reset.
pub fn reset(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
}

/// A request; `test.example` is its Host unless the fields hold one.
pub fn request(method: &str, target: &str, fields: &[&str], body: &str) -> String {
    let mut out = format!("{method} {target} HTTP/1.1\r\n");
    if !fields
        .iter()
        .any(|f| f.to_ascii_lowercase().starts_with("host:"))
    {
        out += "Host: test.example\r\n";
    }
    for field in fields {
        out += field;
        out += "\r\n";
    }
    out + "\r\n" + body
}
