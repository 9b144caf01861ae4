//! The vhost-user protocol (QEMU's documentation, "Vhost-user Protocol"), as far as a block device's one queue needs it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::ring::{Memory, Ring};
use crate::sys;

pub const SECTOR: u64 = 512;
const QUEUE_SIZE: u32 = 256;
// virtio-blk's own features, then those of every virtio device and of vhost-user.
const SEG_MAX: u64 = 1 << 2;
const BLOCK_SIZE: u64 = 1 << 6;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;
const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
const EVENT_INDEX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
// There is no write cache, as a cloud volume has none: no feature FLUSH, so a node's kernel sends no flushes.
const FEATURES: u64 = SEG_MAX
    | BLOCK_SIZE
    | DISCARD
    | WRITE_ZEROES
    | INDIRECT_DESCRIPTORS
    | EVENT_INDEX
    | PROTOCOL_FEATURES
    | VERSION_1;
/// Of the protocol itself: REPLY_ACK and CONFIG.
const PROTOCOL: u64 = 1 << 3 | 1 << 9;

const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
const HEAD: usize = 12;
const LARGEST: usize = 4096;
/// A node that stops in the middle of a message is not waited for: another one may share the volume.
const PATIENCE: Duration = Duration::from_secs(1);

/// A node's end of the volume.
pub struct Connection {
    pub stream: UnixStream,
    pub memory: Arc<Memory>,
    pub ring: Ring,
    /// The node writes to it when there is a request.
    pub kick: Option<File>,
    /// We write to it when a request is done.
    call: Option<File>,
    enabled: bool,
    sectors: u64,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn number(bytes: &[u8], at: usize) -> io::Result<u64> {
    let raw = bytes.get(at..at + 8).ok_or_else(|| bad("a message is too short"))?;
    Ok(u64::from_le_bytes(raw.try_into().unwrap()))
}

fn half(bytes: &[u8], at: usize) -> io::Result<u32> {
    let raw = bytes.get(at..at + 4).ok_or_else(|| bad("a message is too short"))?;
    Ok(u32::from_le_bytes(raw.try_into().unwrap()))
}

impl Connection {
    pub fn new(stream: UnixStream, bytes: u64) -> io::Result<Connection> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream,
            memory: Arc::default(),
            ring: Ring::default(),
            kick: None,
            call: None,
            enabled: true,
            sectors: bytes / SECTOR,
        })
    }

    pub fn live(&self) -> bool {
        self.enabled && self.kick.is_some() && self.ring.ready()
    }

    /// Ring the node, if it wants to hear of what it was given.
    pub fn ring_node(&mut self) {
        if self.ring.must_ring() {
            if let Some(call) = &mut self.call {
                // At most as many rings as requests are ever unread, so this cannot fill a pipe.
                let _ = call.write_all(&1u64.to_ne_bytes());
            }
        }
    }

    /// Take a kick off, so that the next one is seen.
    pub fn kicked(&mut self) {
        if let Some(kick) = &mut self.kick {
            let _ = kick.read(&mut [0; 8]);
        }
    }

    /// Carry out the message that is there. An error ends the connection; a node that is gone is `UnexpectedEof`.
    pub fn serve(&mut self) -> io::Result<()> {
        let mut head = [0; HEAD];
        let (read, mut files) = sys::receive(self.stream.as_raw_fd(), &mut head)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.stream.read_exact(&mut head[read..])?;
        let (request, flags, size) = (half(&head, 0)?, half(&head, 4)?, half(&head, 8)? as usize);
        if size > LARGEST {
            return Err(bad("a message is too long"));
        }
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body)?;
        let files: Vec<File> = files.drain(..).map(File::from).collect();
        match self.answer(request, &body, files)? {
            Some(answer) => self.reply(request, &answer),
            None if flags & NEED_REPLY != 0 => self.reply(request, &0u64.to_le_bytes()),
            None => Ok(()),
        }
    }

    fn reply(&mut self, request: u32, body: &[u8]) -> io::Result<()> {
        let words = [request, 1 | REPLY, body.len() as u32];
        let mut message: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        message.extend(body);
        self.stream.write_all(&message)
    }

    fn answer(&mut self, request: u32, body: &[u8], files: Vec<File>) -> io::Result<Option<Vec<u8>>> {
        let whole = |value: u64| Ok(Some(value.to_le_bytes().to_vec()));
        match request {
            1 => return whole(FEATURES),                                      // GET_FEATURES
            2 => self.ring.event_index = number(body, 0)? & EVENT_INDEX != 0, // SET_FEATURES
            3 => {}                                                           // SET_OWNER
            4 | 34 => self.stop(),                                            // RESET_OWNER, RESET_DEVICE
            5 => self.share(body, files)?,                                    // SET_MEM_TABLE
            8 if half(body, 4)? > QUEUE_SIZE || !self.ring.resize(half(body, 4)?) => {
                return Err(bad("no size of a queue")); // SET_VRING_NUM
            }
            8 => {}
            9 => {
                // SET_VRING_ADDR: index, flags, descriptors, used, available, log
                let (descriptors, used, available) = (number(body, 8)?, number(body, 16)?, number(body, 24)?);
                if !self.ring.place(&self.memory, descriptors, available, used) {
                    return Err(bad("a queue outside of the memory"));
                }
            }
            10 => self.ring.rebase(half(body, 4)? as u16), // SET_VRING_BASE
            11 => {
                // GET_VRING_BASE stops the queue.
                let index = half(body, 0)?;
                let next = u32::from(self.ring.next());
                self.stop();
                return Ok(Some([index.to_le_bytes(), next.to_le_bytes()].concat()));
            }
            12 => self.kick = files.into_iter().next(), // SET_VRING_KICK
            13 => self.call = files.into_iter().next(), // SET_VRING_CALL
            14 => {}                                    // SET_VRING_ERR
            15 => return whole(PROTOCOL),               // GET_PROTOCOL_FEATURES
            16 => {}                                    // SET_PROTOCOL_FEATURES
            17 => return whole(1),                      // GET_QUEUE_NUM
            18 => self.enabled = half(body, 4)? != 0,   // SET_VRING_ENABLE
            24 => {
                // GET_CONFIG: offset, size, flags, and room for what is asked for
                let (offset, size) = (half(body, 0)? as usize, half(body, 4)? as usize);
                let mut answer = body.get(..12).ok_or_else(|| bad("a message is too short"))?.to_vec();
                let config = self.config();
                answer.extend(
                    (offset..offset.saturating_add(size).min(LARGEST)).map(|at| config.get(at).unwrap_or(&0)),
                );
                return Ok(Some(answer));
            }
            25 => {} // SET_CONFIG: nothing there can be written
            other => return Err(bad(&format!("request {other} is unknown"))),
        }
        Ok(None)
    }

    fn stop(&mut self) {
        self.ring.stop();
        self.kick = None;
    }

    fn share(&mut self, body: &[u8], files: Vec<File>) -> io::Result<()> {
        self.ring.stop();
        let count = half(body, 0)? as usize;
        if count != files.len() {
            return Err(bad("regions and files differ in number"));
        }
        let mut memory = Memory::default();
        for (index, file) in files.iter().enumerate() {
            let at = 8 + 32 * index;
            let [guest, bytes, user, offset] =
                [number(body, at)?, number(body, at + 8)?, number(body, at + 16)?, number(body, at + 24)?];
            memory.add(file, guest, user, bytes, offset)?;
        }
        self.memory = Arc::new(memory);
        Ok(())
    }

    /// struct virtio_blk_config (virtio 1.2, 5.2.4).
    fn config(&self) -> [u8; 60] {
        // The most that a request can name is a u32 of sectors; whole pages below 2 GiB.
        let most = (i32::MAX as u32 / 4096 * 4096) / SECTOR as u32;
        let mut config = [0; 60];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.sectors.to_le_bytes());
        put(12, &(QUEUE_SIZE / 2 - 2).to_le_bytes()); // seg_max
        put(20, &(SECTOR as u32).to_le_bytes()); // blk_size
        put(34, &1u16.to_le_bytes()); // num_queues
        put(36, &most.to_le_bytes()); // max_discard_sectors
        put(40, &1u32.to_le_bytes()); // max_discard_seg
        put(44, &8u32.to_le_bytes()); // discard_sector_alignment: a page
        put(48, &most.to_le_bytes()); // max_write_zeroes_sectors
        put(52, &1u32.to_le_bytes()); // max_write_zeroes_seg
        put(56, &[1]); // write_zeroes_may_unmap
        config
    }
}
