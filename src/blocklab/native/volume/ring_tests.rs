//! Tests of `ring.rs`, which the image's build leaves out.

use super::*;

/// A node's memory of 64 KiB with a ring of 8: descriptors at 0, available at 256, used at 512.
struct Node {
    memory: Memory,
    ring: Ring,
}

const BASE: u64 = 0x10_0000;

fn node() -> Node {
    let path =
        std::env::temp_dir().join(format!("ring-{}-{:?}", std::process::id(), std::thread::current().id()));
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
    // What lies outside is refused at the place for the status, if there is one.
    node.describe(0, 5, BASE + 65535, 2, NEXT, 6);
    node.describe(0, 6, BASE + 64, 1, WRITE, 0);
    node.offer(&[5], 1);
    let chain = node.ring.take(&node.memory).unwrap().unwrap();
    assert!(chain.broken && chain.end.is_some());
    node.ring.rebase(0);
    // A circle; an address that is none; one that begins inside and ends outside; a next that is too large.
    node.describe(0, 0, BASE, 16, NEXT, 0);
    node.describe(0, 1, 5, 16, 0, 0);
    node.describe(0, 2, BASE + 65535, 2, 0, 0);
    node.describe(0, 3, BASE, 16, NEXT, 8);
    node.describe(0, 4, u64::MAX, u32::MAX, 0, 0);
    node.offer(&[0, 1, 2, 3, 4], 5);
    for _ in 0..5 {
        let chain = node.ring.take(&node.memory).unwrap().unwrap();
        assert!(chain.broken && chain.end.is_none());
    }
    node.offer(&[9, 9, 9, 9, 9, 9], 6);
    assert!(node.ring.take(&node.memory).is_err());
    node.offer(&[0], 600);
    assert!(node.ring.take(&node.memory).is_err());
    let Node { memory, mut ring } = node;
    assert!(
        !ring.place(&memory, BASE, BASE + 65530, BASE + 512) && !ring.place(&memory, BASE + 1, BASE, BASE)
    );
    assert!(!ring.resize(3) && !ring.resize(0));
}
