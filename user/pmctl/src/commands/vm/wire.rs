// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between pmctl on the host and pmctl in the virtual machine. A message has a byte for its kind, four bytes for
//! the length of its payload (little-endian), and the payload. All messages go through one serial port of the machine,
//! which is a socket on the host.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::task::{GuestEnd, GuestFile, GuestTask, TerminalSize};

/// The largest size of a payload in bytes. Arguments and variables, which need not be UTF-8, are encoded as numbers of up to
/// 4 characters for each byte.
const MAX_MESSAGE_LENGTH: usize = 1 << 24;
/// The largest number of bytes of a stream that are read or sent at once.
pub(super) const CHUNK_SIZE: usize = 1 << 16;
/// The size of a message's kind and length in bytes.
const HEADER_SIZE: usize = 5;
/// The kind of [`Message::Data`].
const DATA: u8 = b'D';

/// A stream of bytes from one side to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard input of the command, which may be its terminal.
    Input,
    Output,
    Error,
    /// Output of the command's terminal.
    Terminal,
    /// Content of the file that was announced last.
    File,
}

/// All streams. In messages, a stream is its index here.
const STREAMS: [Stream; 5] = [
    Stream::Input,
    Stream::Output,
    Stream::Error,
    Stream::Terminal,
    Stream::File,
];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The machine has booted (to the host).
    Ready,
    /// The command to run (to the guest).
    Start(GuestTask),
    /// The command runs (to the host).
    Started,
    /// Bytes of a stream.
    Data(Stream, Vec<u8>),
    /// The sender has no more of this stream.
    End(Stream),
    /// The receiver takes no more of this stream.
    Closed(Stream),
    /// The last bytes of input were written to the command's pipe or terminal (to the host).
    InputWritten,
    /// A signal for the command (to the guest).
    Signal(i32),
    /// A new size of the terminal (to the guest).
    Resize(TerminalSize),
    /// Asks for the time (to the host).
    AskTime,
    /// The time since 1970 (to the guest).
    Time(Duration),
    /// A file of the task, whose content follows, or the reason why it is missing (to the host).
    File(GuestFile),
    /// The command has ended (to the host). It is the last message.
    Ended(GuestEnd),
    /// The guest can't run the command, for this reason (to the host). It is the last message.
    Failed(String),
}

impl Message {
    /// Encodes the message.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let (kind, payload) = match self {
            Self::Ready => (b'r', Vec::new()),
            Self::Start(task) => (b'S', to_json(task)?),
            Self::Started => (b's', Vec::new()),
            Self::Data(stream, bytes) => {
                (DATA, [&[stream_number(*stream)], bytes.as_slice()].concat())
            }
            Self::End(stream) => (b'E', vec![stream_number(*stream)]),
            Self::Closed(stream) => (b'C', vec![stream_number(*stream)]),
            Self::InputWritten => (b'T', Vec::new()),
            Self::Signal(number) => (b'K', to_json(number)?),
            Self::Resize(size) => (b'R', to_json(size)?),
            Self::AskTime => (b't', Vec::new()),
            Self::Time(time) => (b'Z', to_json(time)?),
            Self::File(file) => (b'F', to_json(file)?),
            Self::Ended(ended) => (b'X', to_json(ended)?),
            Self::Failed(reason) => (b'!', to_json(reason)?),
        };
        Ok([&header(kind, payload.len())?[..], &payload].concat())
    }

    /// Decodes a message of this kind with this payload.
    fn decode(kind: u8, payload: &[u8]) -> io::Result<Self> {
        Ok(match (kind, payload) {
            (b'r', []) => Self::Ready,
            (b'S', _) => Self::Start(from_json(payload)?),
            (b's', []) => Self::Started,
            (DATA, [number, bytes @ ..]) => Self::Data(stream_of_number(*number)?, bytes.to_vec()),
            (b'E', [number]) => Self::End(stream_of_number(*number)?),
            (b'C', [number]) => Self::Closed(stream_of_number(*number)?),
            (b'T', []) => Self::InputWritten,
            (b'K', _) => Self::Signal(from_json(payload)?),
            (b'R', _) => Self::Resize(from_json(payload)?),
            (b't', []) => Self::AskTime,
            (b'Z', _) => Self::Time(from_json(payload)?),
            (b'F', _) => Self::File(from_json(payload)?),
            (b'X', _) => Self::Ended(from_json(payload)?),
            (b'!', _) => Self::Failed(from_json(payload)?),
            _ => return Err(malformed_error()),
        })
    }
}

/// Returns the header of a message of this kind with a payload of `length` bytes.
fn header(kind: u8, length: usize) -> io::Result<[u8; HEADER_SIZE]> {
    if length > MAX_MESSAGE_LENGTH {
        return Err(io::Error::other(
            "the command's arguments and variables are too long for the virtual machine: together they may have 4 MB",
        ));
    }
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    Ok([kind, a, b, c, d])
}

fn stream_number(stream: Stream) -> u8 {
    let index = STREAMS.iter().position(|other| *other == stream);
    index
        .and_then(|index| u8::try_from(index).ok())
        .unwrap_or(u8::MAX)
}

fn stream_of_number(number: u8) -> io::Result<Stream> {
    STREAMS
        .get(usize::from(number))
        .copied()
        .ok_or_else(malformed_error)
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::from)
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|_| malformed_error())
}

fn malformed_error() -> io::Error {
    io::Error::other(
        "an unknown message between pmctl and the virtual machine: they are of different versions. Install pmctl and the files \
         of its virtual machine from one release.",
    )
}

/// One side of the connection.
pub(super) struct Channel<F> {
    /// The socket or port, which is non-blocking.
    pub(super) file: F,
    /// Bytes that were received and not decoded yet.
    incoming: Vec<u8>,
    /// Bytes that are to be sent.
    outgoing: VecDeque<u8>,
    /// The buffer for reading. The buffer is kept, since clearing a new one for each read takes long in the virtual
    /// machine.
    chunk: Vec<u8>,
}

impl<F: Read + Write> Channel<F> {
    pub(super) fn new(file: F) -> Self {
        Self {
            file,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            chunk: vec![0; CHUNK_SIZE],
        }
    }

    /// Queues a message, and sends as much of the queue as possible without blocking.
    pub(super) fn send(&mut self, message: &Message) -> io::Result<()> {
        self.outgoing.extend(message.encode()?);
        self.flush()
    }

    /// Queues a [`Message::Data`] without copying the bytes into a message, and sends as much as possible without blocking.
    pub(super) fn send_data(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        self.outgoing.extend(header(DATA, bytes.len() + 1)?);
        self.outgoing.push_back(stream_number(stream));
        self.outgoing.extend(bytes);
        self.flush()
    }

    /// Sends as much of the queue as possible without blocking.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.file.write(self.outgoing.as_slices().0) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => drop(self.outgoing.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether bytes wait to be sent.
    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns whether so many bytes wait to be sent that no more should be queued.
    pub(super) fn is_full(&self) -> bool {
        self.outgoing.len() > 4 * CHUNK_SIZE
    }

    /// Returns the next message; `None` if it has not come yet.
    ///
    /// # Errors
    /// `UnexpectedEof` if the other side has closed the connection; an error if a message can't be decoded.
    pub(super) fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(message) = self.decode_next()? {
                return Ok(Some(message));
            }
            match self.file.read(&mut self.chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.incoming.extend_from_slice(&self.chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Decodes the next message, if all of it was received.
    fn decode_next(&mut self) -> io::Result<Option<Message>> {
        let Some((header, rest)) = self.incoming.split_first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        let [kind, length @ ..] = *header;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE_LENGTH {
            return Err(malformed_error());
        }
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let message = Message::decode(kind, payload)?;
        self.incoming.drain(..HEADER_SIZE + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::commands::vm::task::GuestContent;

    fn pair() -> (Channel<UnixStream>, Channel<UnixStream>) {
        let (a, b) = UnixStream::pair().expect("a socket pair can be made");
        for end in [&a, &b] {
            end.set_nonblocking(true).expect("it is a socket");
        }
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let size = TerminalSize {
            rows: 24,
            columns: 80,
        };
        let guest_end = GuestEnd {
            code: 3,
            ..GuestEnd::default()
        };
        let messages = [
            Message::Ready,
            Message::Started,
            Message::Data(Stream::Error, b"a\0b".to_vec()),
            Message::Data(Stream::Output, Vec::new()),
            Message::End(Stream::Input),
            Message::Closed(Stream::Terminal),
            Message::InputWritten,
            Message::Signal(15),
            Message::Resize(size),
            Message::AskTime,
            Message::Time(Duration::new(1, 999_999_999)),
            Message::File(GuestFile {
                index: 0,
                content: GuestContent::Missing("no such file".to_owned()),
            }),
            Message::File(GuestFile {
                index: 1,
                content: GuestContent::Follows(0o755),
            }),
            Message::Ended(guest_end),
            Message::Failed("no".to_owned()),
        ];
        let (mut a, mut b) = pair();
        for message in &messages {
            a.send(message).expect("it fits");
        }
        for message in messages {
            assert_eq!(b.receive().expect("it is whole"), Some(message));
        }
        assert_eq!(b.receive().expect("nothing is wrong"), None);
        drop(a);
        assert!(b.receive().is_err());
    }

    #[test]
    fn arguments_may_be_as_long_as_the_error_says() {
        let start = |length: usize| {
            Message::Start(GuestTask {
                words: vec![OsString::from_vec(vec![0xff; length])],
                is_pmctl: false,
                directory: "/".into(),
                environment: Vec::new(),
                user: 0,
                group: 0,
                groups: Vec::new(),
                umask: 0,
                host_name: "host".into(),
                clock: None,
                randomize_addresses: true,
                is_terminal: [false; 3],
                has_keys: false,
                size: None,
                files: Vec::new(),
                shared_directories: Vec::new(),
            })
        };
        assert!(start(4_000_000).encode().is_ok());
        let error = start(5_000_000).encode().expect_err("it is too long");
        assert!(error.to_string().ends_with("4 MB"), "{error}");
    }

    #[test]
    fn messages_wait_for_room() {
        let (mut a, mut b) = pair();
        let bytes = vec![7; CHUNK_SIZE];
        let message = Message::Data(Stream::Output, bytes.clone());
        let mut sent_count = 0;
        while !a.is_full() {
            a.send_data(Stream::Output, &bytes).expect("it is queued");
            sent_count += 1;
        }
        let mut received_count = 0;
        while received_count < sent_count {
            if let Some(arrived) = b.receive().expect("it is whole") {
                assert_eq!(arrived, message);
                received_count += 1;
            }
            a.flush().expect("it is queued");
        }
        assert!(!a.has_outgoing());
    }

    #[test]
    fn malformed_messages_are_refused() {
        for bytes in [
            &[b'?', 0, 0, 0, 0][..],
            &[b'D', 0, 0, 0, 0],
            &[b'E', 1, 0, 0, 0, 9],
            &[b'D', 0, 0, 0, 0xff],
        ] {
            let (mut a, mut b) = pair();
            a.file.write_all(bytes).expect("it fits");
            assert!(b.receive().is_err(), "{bytes:?}");
        }
    }
}
