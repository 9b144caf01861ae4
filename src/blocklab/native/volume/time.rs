//! User Mode Linux's time protocol (include/uapi/linux/um_timetravel.h), with the memory that all share: there stand
//! the time, until when the node that runs may go on by itself, and when each of the others wants to run. So a turn
//! takes two messages: the node is told to run, and says that it waits. Of all nodes one runs at a time, and nothing
//! depends on how fast it does.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::clock::Nanos;
use crate::sys::{self, Mapping};

const ACK: u32 = 0;
pub const START: u32 = 1;
pub const WAIT: u32 = 3;
const RUN: u32 = 6;
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
}

impl Line {
    pub fn new(stream: UnixStream) -> Line {
        Line { stream }
    }

    /// The next message. A node that is gone is `UnexpectedEof`.
    pub fn read(&mut self) -> io::Result<Message> {
        let mut raw = [0; BYTES];
        self.stream.read_exact(&mut raw)?;
        let word = |at: usize| u32::from_ne_bytes(raw[at..at + 4].try_into().unwrap());
        Ok(Message { op: word(0), seq: word(4), time: u64::from_ne_bytes(raw[8..].try_into().unwrap()) })
    }

    /// Answer a message; `time` is part of some answers.
    pub fn answer(&mut self, seq: u32, time: Nanos) -> io::Result<()> {
        self.stream.write_all(&raw(ACK, seq, time))
    }

    /// Answer a node's first message: the shared memory, and its place in it. It takes a second file for a log.
    pub fn admit(&mut self, seq: u32, place: usize, shared: &Shared) -> io::Result<()> {
        let file = shared.file.as_raw_fd();
        sys::send(self.stream.as_raw_fd(), &raw(ACK, seq, place as u64), [file, file])
    }

    /// Have the node run. There is no answer.
    pub fn run(&mut self, now: Nanos) -> io::Result<()> {
        self.stream.write_all(&raw(RUN, 0, now))
    }
}

fn raw(op: u32, seq: u32, time: Nanos) -> [u8; BYTES] {
    let mut raw = [0; BYTES];
    raw[0..4].copy_from_slice(&op.to_ne_bytes());
    raw[4..8].copy_from_slice(&seq.to_ne_bytes());
    raw[8..].copy_from_slice(&time.to_ne_bytes());
    raw
}

// struct um_timetravel_schedshm: where its fields stand, then 128 bytes for each who takes part.
const VERSION: u32 = 2;
const LENGTH: usize = 4;
const FREE_UNTIL: usize = 8;
const NOW: usize = 16;
const RUNNING: usize = 24;
const MOST: usize = 26;
const HEAD: usize = 4096;
const PLACE: usize = 128;
// union um_timetravel_schedshm_client
const CAN: usize = 0;
const FLAGS: usize = 4;
const REQUEST: usize = 8;
const CAN_SHARE: u32 = 1;
const WANTS_TO_RUN: u32 = 1;

/// The place of this program, which is the one that runs where no node does. Nodes have those after it.
const OWN: usize = 0;

/// The memory that all share. Whoever has the turn writes to it, and whoever is called; messages are between any two
/// of them, so none sees half of what another one wrote.
pub struct Shared {
    file: File,
    mapping: Mapping,
}

impl Shared {
    pub fn new(nodes: usize) -> io::Result<Shared> {
        let bytes = HEAD + PLACE * (nodes + 1);
        let file = sys::memory("time", bytes as u64)?;
        let shared = Shared { mapping: Mapping::new(&file, 0, bytes as u64)?, file };
        shared.put(0, VERSION);
        shared.put(LENGTH, bytes as u32);
        shared.put(MOST, (nodes + 1) as u16);
        // Without it those that are called while this runs would ask by message.
        shared.put(HEAD + PLACE * OWN + CAN, CAN_SHARE);
        Ok(shared)
    }

    /// The place of a node.
    pub fn place(node: usize) -> usize {
        node + 1
    }

    fn put<T>(&self, at: usize, value: T) {
        // SAFETY: `at` is one of the places above, within the mapping and aligned.
        unsafe { self.mapping.start().add(at).cast::<T>().write_volatile(value) };
    }

    fn get<T>(&self, at: usize) -> T {
        // SAFETY: as for `put`; any bytes are a value of the whole numbers that are read.
        unsafe { self.mapping.start().add(at).cast::<T>().read_volatile() }
    }

    fn at(node: usize, field: usize) -> usize {
        HEAD + PLACE * Shared::place(node) + field
    }

    /// What the node that runs has last said that it is.
    pub fn now(&self) -> Nanos {
        self.get(NOW)
    }

    /// Give a node the turn, up to `free`.
    pub fn give(&self, node: usize, now: Nanos, free: Nanos) {
        self.forget(node);
        self.put(NOW, now);
        self.limit(free);
        self.put(RUNNING, Shared::place(node) as u16);
    }

    /// No node runs.
    pub fn take(&self, now: Nanos) {
        self.put(NOW, now);
        self.put(RUNNING, OWN as u16);
    }

    /// Until when the node that runs may go on by itself.
    pub fn limit(&self, free: Nanos) {
        self.put(FREE_UNTIL, free);
    }

    /// When a node wants to run.
    pub fn request(&self, node: usize) -> Option<Nanos> {
        let wants = self.get::<u32>(Shared::at(node, FLAGS)) & WANTS_TO_RUN != 0;
        wants.then(|| self.get(Shared::at(node, REQUEST)))
    }

    /// Ask for a turn in a node's name.
    pub fn ask(&self, node: usize, time: Nanos) {
        self.put(Shared::at(node, REQUEST), time);
        self.put(Shared::at(node, FLAGS), WANTS_TO_RUN);
    }

    /// A node wants nothing.
    pub fn forget(&self, node: usize) {
        self.put(Shared::at(node, FLAGS), 0u32);
    }
}
