//! What network cards and consoles move: bytes out of a queue's buffers, and bytes into them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ring::{Memory, Ring};
use crate::sys::Piece;

/// struct virtio_net_hdr with `num_buffers` (virtio 1.2, 5.1.6).
pub const NET_HEAD: usize = 12;

/// Take all that a node offers to send, each without its first `head` bytes. `Err` when the ring makes no sense.
pub fn sent(ring: &mut Ring, memory: &Arc<Memory>, head: usize) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut found = Vec::new();
    while let Some(chain) = ring.take(memory)? {
        let mut bytes = Vec::new();
        for piece in &chain.readable {
            // SAFETY: `Memory` checked the piece, and the node waits while we look.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.at, piece.bytes) });
        }
        if !chain.broken && bytes.len() >= head {
            found.push(bytes.split_off(head));
        }
        ring.give(chain.head, 0);
    }
    ring.arm();
    Ok(found)
}

/// Put frames into the buffers that a node offers, each with a card's head; what finds none stays. `Err` when the ring
/// makes no sense.
pub fn receive(ring: &mut Ring, memory: &Arc<Memory>, frames: &mut VecDeque<Vec<u8>>) -> Result<(), &'static str> {
    while !frames.is_empty() {
        let Some(chain) = ring.take(memory)? else { break };
        let Some(frame) = frames.pop_front() else { break };
        let mut bytes = [0; NET_HEAD].to_vec();
        bytes[10] = 1; // num_buffers
        bytes.extend(frame);
        // A frame that does not fit is lost, as on a wire.
        let filled = if chain.broken { 0 } else { fill(&chain.writable, &bytes) };
        ring.give(chain.head, if filled == bytes.len() { filled as u32 } else { 0 });
    }
    ring.arm();
    Ok(())
}

/// Put bytes into the buffers that a node offers; what finds no room stays.
pub fn typed(ring: &mut Ring, memory: &Arc<Memory>, bytes: &mut VecDeque<u8>) -> Result<(), &'static str> {
    while !bytes.is_empty() {
        let Some(chain) = ring.take(memory)? else { break };
        let filled = if chain.broken { 0 } else { fill(&chain.writable, bytes.make_contiguous()) };
        bytes.drain(..filled);
        ring.give(chain.head, filled as u32);
    }
    ring.arm();
    Ok(())
}

fn fill(pieces: &[Piece], bytes: &[u8]) -> usize {
    let mut at = 0;
    for piece in pieces {
        let step = piece.bytes.min(bytes.len() - at);
        // SAFETY: `Memory` checked the piece; `step` is within it and within `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes[at..].as_ptr(), piece.at, step) };
        at += step;
    }
    at
}
