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

/// Take the last byte's place off pieces.
fn last(pieces: &mut Vec<Piece>) -> Option<*mut u8> {
    pieces.retain(|piece| piece.bytes > 0);
    let piece = pieces.last_mut()?;
    piece.bytes -= 1;
    // SAFETY: the byte that was just cut off.
    Some(unsafe { piece.at.add(piece.bytes) })
}

fn total(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.bytes as u64).sum()
}

impl Request {
    /// What `chain` asks of a volume of `size` bytes.
    pub fn parse(chain: Chain, size: u64) -> Parsed {
        let Chain { head, mut readable, mut writable, broken } = chain;
        if broken {
            return Parsed::Hopeless;
        }
        let Some(status) = last(&mut writable).map(Status) else { return Parsed::Hopeless };
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
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn piece(bytes: &mut [u8]) -> Piece {
        Piece { at: bytes.as_mut_ptr(), bytes: bytes.len() }
    }

    fn head(code: u32, sector: u64) -> Vec<u8> {
        [&code.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat()
    }

    fn volume(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("volume-{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file
    }

    /// Sends one request; the status.
    fn ask(file: &File, code: u32, sector: u64, out: &mut [u8], into: &mut [u8]) -> u8 {
        let (mut head, mut status) = (head(code, sector), [9]);
        let chain = Chain {
            head: 0,
            readable: vec![piece(&mut head[..7]), piece(&mut head[7..]), piece(out)],
            writable: vec![piece(into), piece(&mut status)],
            broken: false,
        };
        // `head[..7]` and `head[7..]` stand for a head in two pieces.
        match Request::parse(chain, 1 << 20) {
            Parsed::Good(request) => request.carry_out(file),
            Parsed::Bad(_, code) => code,
            Parsed::Hopeless => 255,
        }
    }

    fn segment(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    }

    #[test]
    fn what_is_written_is_read_until_it_is_discarded() {
        let file = volume("data");
        let mut data: Vec<u8> = (0..8192).map(|each| each as u8 | 1).collect();
        assert_eq!(ask(&file, 1, 16, &mut data, &mut []), OK);
        assert_eq!(ask(&file, 4, 0, &mut [], &mut []), OK);
        let mut found = vec![0; 8192];
        assert_eq!(ask(&file, 0, 16, &mut [], &mut found), OK);
        assert_eq!(found, data);
        // Discard of the first page, zeroes in half of the second one, with and without leave to unmap.
        assert_eq!(ask(&file, 11, 0, &mut segment(16, 8, 0), &mut []), OK);
        assert_eq!(ask(&file, 13, 0, &mut segment(24, 2, 0), &mut []), OK);
        assert_eq!(ask(&file, 13, 0, &mut segment(26, 2, 1), &mut []), OK);
        assert_eq!(ask(&file, 0, 16, &mut [], &mut found), OK);
        assert!(found[..6144].iter().all(|byte| *byte == 0) && found[6144..] == data[6144..]);
        assert!(sys::has_hole(&file, 8192, 4096) && !sys::has_hole(&file, 12288, 4096));
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    }

    #[test]
    fn what_lies_outside_is_refused() {
        let file = volume("outside");
        let mut page = vec![1; 4096];
        assert_eq!(ask(&file, 1, 2041, &mut page, &mut []), FAILED);
        assert_eq!(ask(&file, 0, u64::MAX, &mut [], &mut page), FAILED);
        assert_eq!(ask(&file, 0, 0, &mut [], &mut page[..100]), FAILED);
        assert_eq!(ask(&file, 11, 0, &mut segment(2047, 2, 0), &mut []), FAILED);
        assert_eq!(ask(&file, 13, 0, &mut segment(u64::MAX, u32::MAX, 0), &mut []), FAILED);
        assert_eq!(ask(&file, 11, 0, &mut page[..15], &mut []), FAILED);
        assert_eq!(ask(&file, 77, 0, &mut [], &mut []), UNKNOWN);
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        let mut end = [0; 1];
        assert_eq!(file.read_at(&mut end, 1 << 20).unwrap(), 0);
    }

    #[test]
    fn a_request_without_room_for_a_status_is_hopeless() {
        let mut head = head(0, 0);
        let chain = Chain { head: 3, readable: vec![piece(&mut head)], writable: vec![], broken: false };
        assert!(matches!(Request::parse(chain, 512), Parsed::Hopeless));
        let mut id = [1; 20];
        assert_eq!(ask(&volume("id"), 8, 0, &mut [], &mut id), OK);
        assert_eq!(&id, SERIAL);
    }
}
