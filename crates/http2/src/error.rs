//! Faults of the peer by name, and the error codes sent for them.
//!
//! A [`Fault`] names one mistake or excess of a peer. Its row gives its error code and its reach: `stream` faults end one
//! stream with RST_STREAM (or 431), `connection` faults end the connection with GOAWAY. Each is counted in [`Counts`].
//!
//! Source: RFC 9113 §5.4 and §7.

use std::fmt;

/// An error code of HTTP/2 (RFC 9113 §7). Codes that are not in the registry are legal and mean nothing in particular.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ErrorCode(pub u32);

#[allow(missing_docs)]
impl ErrorCode {
    pub const NO_ERROR: Self = Self(0x0);
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    pub const INTERNAL_ERROR: Self = Self(0x2);
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    pub const STREAM_CLOSED: Self = Self(0x5);
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    pub const REFUSED_STREAM: Self = Self(0x7);
    pub const CANCEL: Self = Self(0x8);
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    pub const CONNECT_ERROR: Self = Self(0xa);
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);
}

/// Its name in the registry.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "code {}", self.0),
        }
    }
}

macro_rules! faults {
    ($($reach:ident $name:ident $code:ident $reason:literal)*) => {
        /// A fault of the peer that ends a stream or the connection.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Fault {
            $(#[doc = concat!($reason, " (", stringify!($reach), ", ", stringify!($code), ")")] $name,)*
        }

        impl Fault {
            /// Every fault, in the order of the table.
            pub const ALL: &'static [Fault] = &[$(Fault::$name,)*];

            /// The error code sent to the peer.
            pub const fn code(self) -> ErrorCode {
                match self { $(Self::$name => ErrorCode::$code,)* }
            }

            /// A few words for a log line, without bytes from the peer.
            pub const fn reason(self) -> &'static str {
                match self { $(Self::$name => $reason,)* }
            }

            /// Does it end the connection, not only a stream?
            pub const fn ends_connection(self) -> bool {
                match self { $(Self::$name => is_connection!($reach),)* }
            }
        }
    };
}

macro_rules! is_connection {
    (connection) => {
        true
    };
    (stream) => {
        false
    };
}

faults! {
    // Malformed or misplaced frames.
    connection Preface PROTOCOL_ERROR "no HTTP/2 preface"
    connection FrameTooLarge FRAME_SIZE_ERROR "frame longer than allowed"
    connection FrameLength FRAME_SIZE_ERROR "frame of a length that its type does not have"
    connection FrameOnWrongStream PROTOCOL_ERROR "frame on a stream where its type cannot be"
    connection StreamIdle PROTOCOL_ERROR "frame on a stream that was never opened"
    connection StreamIdReused PROTOCOL_ERROR "stream identifier not above the last one"
    connection HeadersOnClosed STREAM_CLOSED "HEADERS on a closed stream"
    connection FirstFrame PROTOCOL_ERROR "first frame is not SETTINGS"
    connection SettingValue PROTOCOL_ERROR "setting out of range"
    connection SettingWindow FLOW_CONTROL_ERROR "initial window above 2^31-1"
    connection Push PROTOCOL_ERROR "PUSH_PROMISE that was not allowed"
    connection ContinuationExpected PROTOCOL_ERROR "field block interrupted"
    connection ContinuationUnexpected PROTOCOL_ERROR "CONTINUATION without a field block"
    connection Padding PROTOCOL_ERROR "padding longer than the frame"
    connection Compression COMPRESSION_ERROR "field block that HPACK cannot read"
    connection WindowZeroConnection PROTOCOL_ERROR "WINDOW_UPDATE of 0 on the connection"
    connection WindowOverflowConnection FLOW_CONTROL_ERROR "connection window above 2^31-1"
    connection WindowExceededConnection FLOW_CONTROL_ERROR "more DATA than the connection's window"
    connection PriorityUpdate PROTOCOL_ERROR "PRIORITY_UPDATE of no request stream, or of too many"
    // Legal, but too much.
    connection BlockTooLarge ENHANCE_YOUR_CALM "field block too large"
    connection ContinuationFlood ENHANCE_YOUR_CALM "too many or empty CONTINUATION frames"
    connection ResetFlood ENHANCE_YOUR_CALM "too many streams reset"
    connection UselessFrames ENHANCE_YOUR_CALM "too many frames that carry nothing"
    connection SmallFrames ENHANCE_YOUR_CALM "too many small DATA frames that nobody takes"
    connection DataBehindReset FLOW_CONTROL_ERROR "more DATA than the window of a stream that is gone"
    connection TinyWindows ENHANCE_YOUR_CALM "windows that allow only tiny frames"
    // Too slow.
    connection PrefaceTimeout NO_ERROR "preface or SETTINGS did not come in time"
    connection BlockTimeout NO_ERROR "field block not complete in time"
    connection SettingsTimeout SETTINGS_TIMEOUT "SETTINGS not acknowledged in time"
    connection WindowStalled ENHANCE_YOUR_CALM "the connection's window lets too little of the answers through"
    // Faults that end only a stream.
    stream Refused REFUSED_STREAM "more streams than allowed"
    stream DataOnClosed STREAM_CLOSED "DATA on a closed stream"
    stream HeadersAfterEnd STREAM_CLOSED "HEADERS after the end of the stream"
    stream WindowZero PROTOCOL_ERROR "WINDOW_UPDATE of 0"
    stream WindowOverflow FLOW_CONTROL_ERROR "stream window above 2^31-1"
    stream WindowExceeded FLOW_CONTROL_ERROR "more DATA than the stream's window"
    stream PriorityLength FRAME_SIZE_ERROR "PRIORITY that is not 5 bytes long"
    stream SelfDependency PROTOCOL_ERROR "stream that depends on itself"
    stream Stalled CANCEL "too little of the answer taken in time"
    stream SmallOfStream ENHANCE_YOUR_CALM "too many small DATA frames behind the end of the answer"
    // Malformed messages (RFC 9113 §8.1.1).
    stream FieldName PROTOCOL_ERROR "malformed field name"
    stream FieldValue PROTOCOL_ERROR "malformed field value"
    stream PseudoUnknown PROTOCOL_ERROR "unknown pseudo-field"
    stream PseudoRepeated PROTOCOL_ERROR "repeated pseudo-field"
    stream PseudoAfterField PROTOCOL_ERROR "pseudo-field behind other fields, or in trailers"
    stream PseudoMissing PROTOCOL_ERROR "missing pseudo-field"
    stream ConnectionField PROTOCOL_ERROR "field that belongs to a connection"
    stream Te PROTOCOL_ERROR "TE other than trailers"
    stream Method PROTOCOL_ERROR "malformed method"
    stream Scheme PROTOCOL_ERROR "scheme other than http and https"
    stream Path PROTOCOL_ERROR "malformed path"
    stream Authority PROTOCOL_ERROR "malformed authority"
    stream AuthorityMissing PROTOCOL_ERROR "neither :authority nor Host"
    stream HostDiffers PROTOCOL_ERROR "Host repeated, or unlike :authority"
    stream Connect PROTOCOL_ERROR "malformed CONNECT"
    stream ContentLength PROTOCOL_ERROR "invalid or repeated Content-Length"
    stream LengthDiffers PROTOCOL_ERROR "content unlike Content-Length"
    stream TrailersNotLast PROTOCOL_ERROR "trailers that do not end the stream"
    stream Status PROTOCOL_ERROR "malformed :status, or 101"
    stream HeadMissing PROTOCOL_ERROR "content or an end without a final head"
    // Answered with 431.
    stream HeadTooLarge NO_ERROR "head too large"
    stream TooManyFields NO_ERROR "too many fields"
}

impl Fault {
    /// The status with which a request with this fault is answered; `None`: it is reset.
    //= rfc9113 §10.5.1   a server that gets a larger field block than it wants to handle can send 431
    pub const fn status(self) -> Option<u16> {
        match self {
            Self::HeadTooLarge | Self::TooManyFields => Some(431),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Fault {}

/// How often each fault occurred on a connection.
#[derive(Clone, Debug)]
pub struct Counts([u32; Fault::ALL.len()]);

impl Counts {
    pub(crate) const fn new() -> Self {
        Self([0; Fault::ALL.len()])
    }

    pub(crate) fn add(&mut self, fault: Fault) {
        let count = &mut self.0[fault as usize];
        *count = count.saturating_add(1);
    }

    /// How often this fault occurred.
    pub fn of(&self, fault: Fault) -> u32 {
        self.0[fault as usize]
    }

    /// The faults that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u32)> + '_ {
        let all = Fault::ALL.iter().map(|&fault| (fault, self.of(fault)));
        all.filter(|&(_, count)| count > 0)
    }
}
