//! User Mode Linux's time protocol (include/uapi/linux/um_timetravel.h): a node asks for the virtual time at which it
//! wants to run next, waits, and is told to run. Each message has an answer, so of all nodes one runs at a time, and
//! nothing depends on how fast it does.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use crate::clock::Nanos;

pub const ACK: u32 = 0;
pub const START: u32 = 1;
pub const REQUEST: u32 = 2;
pub const WAIT: u32 = 3;
pub const GET: u32 = 4;
pub const UPDATE: u32 = 5;
pub const RUN: u32 = 6;
pub const FREE_UNTIL: u32 = 7;
pub const GET_TIME_OF_DAY: u32 = 8;
pub const BROADCAST: u32 = 9;

/// op, seq, time
const BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    pub op: u32,
    pub seq: u32,
    pub time: Nanos,
}

/// A node's end of the clock.
pub struct Line {
    pub stream: UnixStream,
    seq: u32,
}

impl Line {
    pub fn new(stream: UnixStream) -> Line {
        Line { stream, seq: 0 }
    }

    /// The next message. A node that is gone is `UnexpectedEof`.
    pub fn read(&mut self) -> io::Result<Message> {
        let mut raw = [0; BYTES];
        self.stream.read_exact(&mut raw)?;
        let word = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().unwrap());
        Ok(Message { op: word(0), seq: word(4), time: u64::from_ne_bytes(raw[8..].try_into().unwrap()) })
    }

    fn write(&mut self, message: Message) -> io::Result<()> {
        let mut raw = [0; BYTES];
        raw[0..4].copy_from_slice(&message.op.to_ne_bytes());
        raw[4..8].copy_from_slice(&message.seq.to_ne_bytes());
        raw[8..].copy_from_slice(&message.time.to_ne_bytes());
        self.stream.write_all(&raw)
    }

    /// Answer a message; `time` is part of some answers.
    pub fn answer(&mut self, seq: u32, time: Nanos) -> io::Result<()> {
        self.write(Message { op: ACK, seq, time })
    }

    /// Tell the node something that it has to acknowledge; the sequence number of its acknowledgement.
    pub fn tell(&mut self, op: u32, time: Nanos) -> io::Result<u32> {
        self.seq = self.seq.wrapping_add(1);
        self.write(Message { op, seq: self.seq, time })?;
        Ok(self.seq)
    }
}
