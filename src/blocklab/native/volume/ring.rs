//! A node's memory, and the split virtqueue in it (virtio 1.2, 2.7). What a node writes there is not trusted: every
//! address is checked, and no index leads out of its table.

use std::fs::File;
use std::io;
use std::sync::atomic::{fence, AtomicU16, Ordering};

use crate::sys::{Mapping, Piece};

const PAGE: u64 = 4096;

struct Region {
    guest: u64,
    user: u64,
    bytes: u64,
    /// Where the region begins in the mapping.
    skip: usize,
    mapping: Mapping,
}

/// What a node shared of its memory.
#[derive(Default)]
pub struct Memory {
    regions: Vec<Region>,
}

// SAFETY: the mappings stay where they are as long as this lives; what stands in them is a device's buffers, which
// the node does not touch while a request is under way.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    /// Add a region of `bytes` at `offset` of a file, which the node knows by two addresses.
    pub fn add(&mut self, file: &File, guest: u64, user: u64, bytes: u64, offset: u64) -> io::Result<()> {
        let skip = offset % PAGE;
        let mapping =
            Mapping::new(file, offset - skip, bytes.checked_add(skip).ok_or(io::ErrorKind::InvalidData)?)?;
        self.regions.push(Region { guest, user, bytes, skip: skip as usize, mapping });
        Ok(())
    }

    /// Where a range of guest addresses is in our own memory; None where it is not all in one region.
    pub fn guest(&self, at: u64, bytes: u64) -> Option<*mut u8> {
        self.find(|region| region.guest, at, bytes)
    }

    /// Likewise, for addresses of the process that shares its memory.
    pub fn user(&self, at: u64, bytes: u64) -> Option<*mut u8> {
        self.find(|region| region.user, at, bytes)
    }

    fn find(&self, start: fn(&Region) -> u64, at: u64, bytes: u64) -> Option<*mut u8> {
        self.regions.iter().find_map(|region| {
            let from = at.checked_sub(start(region))?;
            // SAFETY: within the mapping, as the condition says.
            (from <= region.bytes && bytes <= region.bytes - from)
                .then(|| unsafe { region.mapping.start().add(region.skip + from as usize) })
        })
    }
}

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
const NO_INTERRUPT: u16 = 1;
const DESCRIPTOR: u64 = 16;

/// A buffer of a request: what the node wants to be read, and what it wants to be written.
#[derive(Debug)]
pub struct Chain {
    pub head: u16,
    pub readable: Vec<Piece>,
    pub writable: Vec<Piece>,
    /// An address in it is none, or it makes no sense.
    pub broken: bool,
    /// Its last piece, if that can be written: where a status belongs, also of a broken chain.
    pub end: Option<Piece>,
}

// SAFETY: as for `Memory`, which whoever sends one holds on to.
unsafe impl Send for Chain {}

/// Addresses of our own, each checked to hold the whole table.
struct Tables {
    descriptors: *mut u8,
    available: *mut u8,
    used: *mut u8,
}

#[derive(Default)]
pub struct Ring {
    size: u16,
    tables: Option<Tables>,
    next: u16,
    given: u16,
    /// `given` when the node was last rung.
    rung: u16,
    pub event_index: bool,
}

/// SAFETY for all three: `at` is 2-byte aligned within a checked table.
unsafe fn load(at: *mut u8, order: Ordering) -> u16 {
    unsafe { AtomicU16::from_ptr(at as *mut u16) }.load(order)
}

unsafe fn store(at: *mut u8, value: u16, order: Ordering) {
    unsafe { AtomicU16::from_ptr(at as *mut u16) }.store(value, order);
}

unsafe fn word<const N: usize>(at: *mut u8) -> [u8; N] {
    unsafe { std::ptr::read_volatile(at as *const [u8; N]) }
}

impl Ring {
    pub fn ready(&self) -> bool {
        self.tables.is_some()
    }

    pub fn stop(&mut self) {
        self.tables = None;
    }

    pub fn resize(&mut self, size: u32) -> bool {
        self.tables = None;
        self.size = size as u16;
        size.is_power_of_two() && size <= 32768
    }

    /// Where the node goes on to offer buffers.
    pub fn rebase(&mut self, next: u16) {
        self.next = next;
    }

    pub fn next(&self) -> u16 {
        self.next
    }

    /// Take the three tables, by the addresses of the process that shares its memory; false where they are none.
    pub fn place(&mut self, memory: &Memory, descriptors: u64, available: u64, used: u64) -> bool {
        let size = u64::from(self.size);
        let found = (
            memory.user(descriptors, DESCRIPTOR * size),
            memory.user(available, 6 + 2 * size),
            memory.user(used, 6 + 8 * size),
        );
        let (Some(descriptors), Some(available), Some(used)) = found else { return false };
        if size == 0 || descriptors as usize % 16 > 0 || available as usize % 2 > 0 || used as usize % 4 > 0 {
            return false;
        }
        // SAFETY: just checked; a node that connects again may go on with a ring that is in use.
        self.given = unsafe { load(used.add(2), Ordering::Acquire) };
        self.rung = self.given;
        self.tables = Some(Tables { descriptors, available, used });
        true
    }

    /// Whether the node has offered what was not taken yet.
    pub fn pending(&self) -> bool {
        // SAFETY: within the table.
        self.tables
            .as_ref()
            .is_some_and(|tables| unsafe { load(tables.available.add(2), Ordering::Acquire) != self.next })
    }

    /// The next request; `Err` when the ring makes no sense.
    pub fn take(&mut self, memory: &Memory) -> Result<Option<Chain>, &'static str> {
        let Some(tables) = &self.tables else { return Ok(None) };
        // SAFETY: the index is taken modulo the table's size.
        let (offered, head) = unsafe {
            let offered = load(tables.available.add(2), Ordering::Acquire);
            (
                offered,
                load(tables.available.add(4 + 2 * usize::from(self.next % self.size)), Ordering::Relaxed),
            )
        };
        if offered == self.next {
            return Ok(None);
        }
        if offered.wrapping_sub(self.next) > self.size || head >= self.size {
            return Err("the ring's indices make no sense");
        }
        self.next = self.next.wrapping_add(1);
        Ok(Some(self.chain(tables, memory, head)))
    }

    fn chain(&self, tables: &Tables, memory: &Memory, head: u16) -> Chain {
        let mut chain = Chain { head, readable: Vec::new(), writable: Vec::new(), broken: true, end: None };
        let (mut table, mut count, mut at) = (tables.descriptors, self.size, head);
        let (mut inside, mut missing) = (false, false);
        // A chain in a circle ends with the budget.
        for _ in 0..2 * u32::from(self.size) {
            if at >= count {
                return chain;
            }
            // SAFETY: `at` is below the table's size.
            let raw: [u8; 16] = unsafe { word(table.add(16 * usize::from(at))) };
            let address = u64::from_le_bytes(raw[0..8].try_into().unwrap());
            let bytes = u64::from(u32::from_le_bytes(raw[8..12].try_into().unwrap()));
            let flags = u16::from_le_bytes([raw[12], raw[13]]);
            let here = memory.guest(address, bytes);
            if flags & INDIRECT != 0 {
                let Some(here) = here else { return chain };
                if inside || bytes % DESCRIPTOR != 0 || bytes / DESCRIPTOR > 32768 || flags & NEXT != 0 {
                    return chain;
                }
                (table, count, at, inside) = (here, (bytes / DESCRIPTOR) as u16, 0, true);
                continue;
            }
            missing |= here.is_none();
            let piece = here.map(|at| Piece { at, bytes: bytes as usize });
            match flags & WRITE {
                0 => chain.readable.extend(piece),
                _ => chain.writable.extend(piece),
            }
            if flags & NEXT == 0 {
                chain.broken = missing;
                chain.end = piece.filter(|piece| flags & WRITE != 0 && piece.bytes > 0);
                return chain;
            }
            at = u16::from_le_bytes([raw[14], raw[15]]);
        }
        chain
    }

    /// Give a buffer back of which `written` bytes were written.
    pub fn give(&mut self, head: u16, written: u32) {
        let Some(tables) = &self.tables else { return };
        let at = 4 + 8 * usize::from(self.given % self.size);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the index is taken modulo the table's size; the entry is 4-byte aligned.
        unsafe {
            let entry = tables.used.add(at) as *mut u32;
            std::ptr::write_volatile(entry, u32::from(head).to_le());
            std::ptr::write_volatile(entry.add(1), written.to_le());
            store(tables.used.add(2), self.given, Ordering::Release);
        }
    }

    /// Whether the node wants to be rung for what it was given since the last ring.
    pub fn must_ring(&mut self) -> bool {
        let Some(tables) = &self.tables else { return false };
        if self.rung == self.given {
            return false;
        }
        // The index that was just stored has to be seen before the node's wish is read.
        fence(Ordering::SeqCst);
        // SAFETY: both fields are within the table.
        let wanted = unsafe {
            match self.event_index {
                true => {
                    let event = load(tables.available.add(4 + 2 * usize::from(self.size)), Ordering::Relaxed);
                    let (since, all) = (self.given.wrapping_sub(event), self.given.wrapping_sub(self.rung));
                    since.wrapping_sub(1) < all
                }
                false => load(tables.available, Ordering::Relaxed) & NO_INTERRUPT == 0,
            }
        };
        self.rung = self.given;
        wanted
    }

    /// Ask to be kicked for the next request; whether there is one already.
    pub fn arm(&mut self) -> bool {
        let Some(tables) = &self.tables else { return false };
        // SAFETY: the field is within the table. Without the event index the node kicks for each request anyway.
        unsafe { store(tables.used.add(4 + 8 * usize::from(self.size)), self.next, Ordering::Relaxed) };
        fence(Ordering::SeqCst);
        self.pending()
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
