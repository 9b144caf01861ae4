//! A virtio-blk request (virtio 1.2, 5.2.6): what a node asks for, and doing it on the sparse file.

use std::fs::File;
use std::io;

use crate::ring::Chain;
use crate::sys::{self, Piece};
use crate::vhost::SECTOR;

pub const OK: u8 = 0;
pub const FAILED: u8 = 1;
pub const UNKNOWN: u8 = 2;

const SERIAL: &[u8; 20] = b"blocklab\0\0\0\0\0\0\0\0\0\0\0\0";
const HEAD: usize = 16;
/// Of one discard: sector, sectors, flags.
const SEGMENT: usize = 16;
const MOST_SEGMENTS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Id,
    Discard,
    Zeroes,
}

#[derive(Debug)]
pub struct Request {
    pub head: u16,
    pub kind: Kind,
    pub offset: u64,
    /// Of the volume: read, written, discarded or made zeroes.
    pub bytes: u64,
    /// The node's memory: from where or to where.
    data: Vec<Piece>,
    /// Of discards: offset, bytes, and whether the blocks may go.
    ranges: Vec<(u64, u64, bool)>,
    pub status: Status,
}

// SAFETY: whoever sends one holds on to the memory that it points into.
unsafe impl Send for Request {}

/// Where the node wants the status to be.
#[derive(Clone, Copy, Debug)]
pub struct Status(*mut u8);

impl Status {
    pub fn write(self, code: u8) {
        // SAFETY: a byte of the node's memory, which is mapped as long as its connection lives.
        unsafe { std::ptr::write_volatile(self.0, code) };
    }
}

/// What a chain turned out to be.
pub enum Parsed {
    Good(Request),
    /// To be answered at once with this code.
    Bad(Status, u8),
    /// There is not even a place for the status.
    Hopeless,
}

/// Take `bytes` off the front of pieces; None where there are fewer.
fn front(pieces: &mut Vec<Piece>, bytes: usize) -> Option<Vec<u8>> {
    let mut taken = Vec::with_capacity(bytes);
    for piece in pieces.iter_mut() {
        let step = piece.bytes.min(bytes - taken.len());
        // SAFETY: within the piece.
        unsafe {
            taken.extend_from_slice(std::slice::from_raw_parts(piece.at, step));
            piece.at = piece.at.add(step);
        }
        piece.bytes -= step;
    }
    pieces.retain(|piece| piece.bytes > 0);
    (taken.len() == bytes).then_some(taken)
}

/// Take the last byte off pieces: the status is no data.
fn shorten(pieces: &mut [Piece]) {
    if let Some(piece) = pieces.last_mut() {
        piece.bytes -= 1;
    }
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes as u64).sum()
}

impl Request {
    /// What `chain` asks of a volume of `size` bytes.
    pub fn parse(chain: Chain, size: u64) -> Parsed {
        let Chain { head, mut readable, mut writable, broken, end } = chain;
        // SAFETY: the piece's last byte; it has one at least.
        let Some(status) = end.map(|end| Status(unsafe { end.at.add(end.bytes - 1) })) else {
            return Parsed::Hopeless;
        };
        if broken {
            return Parsed::Bad(status, FAILED);
        }
        shorten(&mut writable);
        let Some(raw) = front(&mut readable, HEAD) else { return Parsed::Bad(status, FAILED) };
        let code = u32::from_le_bytes(raw[0..4].try_into().unwrap());
        let sector = u64::from_le_bytes(raw[8..16].try_into().unwrap());
        let offset = sector.saturating_mul(SECTOR);
        let mut request = Request {
            head,
            kind: Kind::Flush,
            offset,
            bytes: 0,
            data: Vec::new(),
            ranges: Vec::new(),
            status,
        };
        request.kind = match code {
            0 => Kind::Read,
            1 => Kind::Write,
            4 => Kind::Flush,
            8 => Kind::Id,
            11 => Kind::Discard,
            13 => Kind::Zeroes,
            _ => return Parsed::Bad(status, UNKNOWN),
        };
        match request.kind {
            Kind::Read | Kind::Id => request.data = writable,
            Kind::Write => request.data = readable,
            Kind::Discard | Kind::Zeroes => {
                let bytes = total(&readable) as usize;
                if bytes == 0 || bytes % SEGMENT > 0 || bytes > SEGMENT * MOST_SEGMENTS {
                    return Parsed::Bad(status, FAILED);
                }
                let raw = front(&mut readable, bytes).unwrap_or_default();
                for segment in raw.chunks_exact(SEGMENT) {
                    let offset = u64::from_le_bytes(segment[0..8].try_into().unwrap()).saturating_mul(SECTOR);
                    let bytes = u64::from(u32::from_le_bytes(segment[8..12].try_into().unwrap())) * SECTOR;
                    let unmap = request.kind == Kind::Discard || segment[12] & 1 != 0;
                    if offset.saturating_add(bytes) > size {
                        return Parsed::Bad(status, FAILED);
                    }
                    request.ranges.push((offset, bytes, unmap));
                    request.bytes += bytes;
                }
                request.offset = request.ranges[0].0;
            }
            Kind::Flush => {}
        }
        if matches!(request.kind, Kind::Read | Kind::Write) {
            request.bytes = total(&request.data);
            if request.bytes % SECTOR > 0 || offset.saturating_add(request.bytes) > size {
                return Parsed::Bad(status, FAILED);
            }
        }
        Parsed::Good(request)
    }

    /// Ranges of the volume that it touches.
    pub fn touches(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let whole = matches!(self.kind, Kind::Read | Kind::Write).then_some((self.offset, self.bytes));
        whole.into_iter().chain(self.ranges.iter().map(|(offset, bytes, _)| (*offset, *bytes)))
    }

    /// Bytes of the node's memory that are written when all goes well, the status among them.
    pub fn written(&self) -> u32 {
        match self.kind {
            Kind::Read => self.bytes as u32 + 1,
            Kind::Id => SERIAL.len() as u32 + 1,
            _ => 1,
        }
    }

    /// Do it; the status for the node. virtio-blk knows but one error, so the log says which one it was.
    pub fn carry_out(&self, file: &File) -> u8 {
        match self.done(file) {
            Ok(()) => OK,
            Err(error) => {
                eprintln!("{:?} of {} bytes at {}: {error}", self.kind, self.bytes, self.offset);
                FAILED
            }
        }
    }

    fn done(&self, file: &File) -> io::Result<()> {
        match self.kind {
            Kind::Read => sys::transfer(file, &self.data, self.offset, false),
            Kind::Write => sys::transfer(file, &self.data, self.offset, true),
            Kind::Flush => sys::sync(file),
            Kind::Discard | Kind::Zeroes => self
                .ranges
                .iter()
                .try_for_each(|(offset, bytes, unmap)| sys::zero(file, *offset, *bytes, !unmap)),
            Kind::Id => {
                let mut left = &SERIAL[..];
                for piece in &self.data {
                    let step = piece.bytes.min(left.len());
                    // SAFETY: both ranges are valid for `step` bytes.
                    unsafe { std::ptr::copy_nonoverlapping(left.as_ptr(), piece.at, step) };
                    left = &left[step..];
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
