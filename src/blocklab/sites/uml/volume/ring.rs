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
    /// An address in it is none.
    pub broken: bool,
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
        let mut chain = Chain { head, readable: Vec::new(), writable: Vec::new(), broken: true };
        let (mut table, mut count, mut at) = (tables.descriptors, self.size, head);
        let mut inside = false;
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
            let Some(here) = memory.guest(address, bytes) else { return chain };
            if flags & INDIRECT != 0 {
                if inside || bytes % DESCRIPTOR != 0 || bytes / DESCRIPTOR > 32768 || flags & NEXT != 0 {
                    return chain;
                }
                (table, count, at, inside) = (here, (bytes / DESCRIPTOR) as u16, 0, true);
                continue;
            }
            let piece = Piece { at: here, bytes: bytes as usize };
            match flags & WRITE {
                0 => chain.readable.push(piece),
                _ => chain.writable.push(piece),
            }
            if flags & NEXT == 0 {
                chain.broken = false;
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
mod tests {
    use super::*;

    /// A node's memory of 64 KiB with a ring of 8: descriptors at 0, available at 256, used at 512.
    struct Node {
        memory: Memory,
        ring: Ring,
    }

    const BASE: u64 = 0x10_0000;

    fn node() -> Node {
        let path = std::env::temp_dir().join(format!(
            "ring-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(1 << 16).unwrap();
        let mut memory = Memory::default();
        memory.add(&file, BASE, BASE, 1 << 16, 0).unwrap();
        let mut ring = Ring::default();
        assert!(ring.resize(8));
        assert!(ring.place(&memory, BASE, BASE + 256, BASE + 512));
        Node { memory, ring }
    }

    impl Node {
        fn put(&self, at: u64, bytes: &[u8]) {
            let to = self.memory.guest(BASE + at, bytes.len() as u64).unwrap();
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }

        fn describe(&self, table: u64, index: u64, address: u64, bytes: u32, flags: u16, next: u16) {
            let mut raw = [0; 16];
            raw[0..8].copy_from_slice(&address.to_le_bytes());
            raw[8..12].copy_from_slice(&bytes.to_le_bytes());
            raw[12..14].copy_from_slice(&flags.to_le_bytes());
            raw[14..16].copy_from_slice(&next.to_le_bytes());
            self.put(table + 16 * index, &raw);
        }

        fn offer(&self, heads: &[u16], index: u16) {
            for (at, head) in heads.iter().enumerate() {
                self.put(260 + 2 * at as u64, &head.to_le_bytes());
            }
            self.put(258, &index.to_le_bytes());
        }
    }

    #[test]
    fn a_chain_is_taken_and_given_back() {
        let mut node = node();
        node.describe(0, 0, BASE + 4096, 16, NEXT, 3);
        node.describe(0, 3, BASE + 8192, 512, NEXT | WRITE, 5);
        node.describe(0, 5, BASE + 4200, 1, WRITE, 0);
        assert!(!node.ring.arm());
        node.offer(&[0], 1);
        assert!(node.ring.arm());
        let chain = node.ring.take(&node.memory).unwrap().unwrap();
        assert!(!chain.broken && chain.head == 0 && chain.readable.len() == 1 && chain.writable.len() == 2);
        assert!(node.ring.take(&node.memory).unwrap().is_none());
        node.ring.give(0, 513);
        assert!(node.ring.must_ring() && !node.ring.must_ring());
        let used: [u8; 12] = unsafe { word(node.memory.guest(BASE + 512, 12).unwrap()) };
        assert_eq!(used, [0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 0, 0]);
    }

    #[test]
    fn an_indirect_table_is_followed_once() {
        let mut node = node();
        node.describe(0, 1, BASE + 1024, 32, INDIRECT, 0);
        node.describe(1024, 0, BASE + 4096, 16, NEXT, 1);
        node.describe(1024, 1, BASE + 4200, 1, WRITE, 0);
        node.describe(0, 2, BASE + 2048, 16, INDIRECT, 0);
        node.describe(2048, 0, BASE + 2048, 16, INDIRECT, 0);
        node.offer(&[1, 2], 2);
        assert!(!node.ring.take(&node.memory).unwrap().unwrap().broken);
        assert!(node.ring.take(&node.memory).unwrap().unwrap().broken);
    }

    #[test]
    fn nonsense_of_a_node_leads_nowhere() {
        let mut node = node();
        // A circle; an address that is none; one that begins inside and ends outside; a next that is too large.
        node.describe(0, 0, BASE, 16, NEXT, 0);
        node.describe(0, 1, 5, 16, 0, 0);
        node.describe(0, 2, BASE + 65535, 2, 0, 0);
        node.describe(0, 3, BASE, 16, NEXT, 8);
        node.describe(0, 4, u64::MAX, u32::MAX, 0, 0);
        node.offer(&[0, 1, 2, 3, 4], 5);
        for _ in 0..5 {
            assert!(node.ring.take(&node.memory).unwrap().unwrap().broken);
        }
        node.offer(&[9, 9, 9, 9, 9, 9], 6);
        assert!(node.ring.take(&node.memory).is_err());
        node.offer(&[0], 600);
        assert!(node.ring.take(&node.memory).is_err());
        let Node { memory, mut ring } = node;
        assert!(
            !ring.place(&memory, BASE, BASE + 65530, BASE + 512)
                && !ring.place(&memory, BASE + 1, BASE, BASE)
        );
        assert!(!ring.resize(3) && !ring.resize(0));
    }
}
