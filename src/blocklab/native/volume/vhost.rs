//! The vhost-user protocol (QEMU's documentation, "Vhost-user Protocol"), as far as a device of a node needs it: a
//! block device with one queue; for a virtual clock also a network card and a console with two, and notifications
//! that go over the sockets themselves, so that whoever sends one can wait until it was seen.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::ring::{Memory, Ring};
use crate::sys;

pub const SECTOR: u64 = 512;
const QUEUE_SIZE: u32 = 256;
// virtio-blk's own features, virtio-net's, then those of every virtio device and of vhost-user.
const SEG_MAX: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;
const MTU: u64 = 1 << 3;
const MAC: u64 = 1 << 5;
const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
const EVENT_INDEX: u64 = 1 << 29;
const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;
const FEATURES: u64 = INDIRECT_DESCRIPTORS | EVENT_INDEX | PROTOCOL_FEATURES | VERSION_1;
// Of the protocol itself.
const REPLY_ACK: u64 = 1 << 3;
const BACK_CHANNEL: u64 = 1 << 5;
const CONFIG: u64 = 1 << 9;
const IN_BAND: u64 = 1 << 14;

const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;
const HEAD: usize = 12;
const LARGEST: usize = 4096;
/// What the node sends in band when there is something in a ring, and we when we gave something back.
const KICK: u32 = 35;
const CALL: u32 = 4;
/// A node that stops in the middle of a message is not waited for: another one may share the volume.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a node finds at a socket.
#[derive(Clone, Debug)]
pub enum Device {
    Block { bytes: u64, read_only: bool },
    /// Frames of at most `mtu` bytes of payload.
    Net { mac: [u8; 6], mtu: u16 },
    Console,
}

impl Device {
    fn queues(&self) -> usize {
        match self {
            Device::Block { .. } => 1,
            Device::Net { .. } | Device::Console => 2,
        }
    }

    fn features(&self) -> u64 {
        FEATURES
            | match self {
                // There is no write cache, as a cloud volume has none: no feature FLUSH, so a node's kernel sends no
                // flushes.
                Device::Block { read_only, .. } => {
                    SEG_MAX | BLOCK_SIZE | if *read_only { READ_ONLY } else { DISCARD | WRITE_ZEROES }
                }
                Device::Net { .. } => MAC | MTU,
                Device::Console => 0,
            }
    }

    /// The device's configuration (virtio 1.2, 5.1.4 and 5.2.4).
    fn config(&self) -> [u8; 60] {
        let mut config = [0; 60];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Device::Block { bytes, .. } => {
                // The most that a request can name is a u32 of sectors; whole pages below 2 GiB.
                let most = (i32::MAX as u32 / 4096 * 4096) / SECTOR as u32;
                put(0, &(bytes / SECTOR).to_le_bytes());
                put(12, &(QUEUE_SIZE / 2 - 2).to_le_bytes()); // seg_max
                put(20, &(SECTOR as u32).to_le_bytes()); // blk_size
                put(34, &1u16.to_le_bytes()); // num_queues
                put(36, &most.to_le_bytes()); // max_discard_sectors
                put(40, &1u32.to_le_bytes()); // max_discard_seg
                put(44, &8u32.to_le_bytes()); // discard_sector_alignment: a page
                put(48, &most.to_le_bytes()); // max_write_zeroes_sectors
                put(52, &1u32.to_le_bytes()); // max_write_zeroes_seg
                put(56, &[1]); // write_zeroes_may_unmap
            }
            Device::Net { mac, mtu } => {
                put(0, mac);
                put(10, &mtu.to_le_bytes());
            }
            Device::Console => {}
        }
        config
    }
}

/// One of a device's queues.
pub struct Queue {
    pub ring: Ring,
    /// The node writes to it when there is a request.
    pub kick: Option<File>,
    /// We write to it when a request is done.
    call: Option<File>,
    enabled: bool,
}

/// A node's end of a device.
pub struct Connection {
    pub stream: UnixStream,
    pub memory: Arc<Memory>,
    pub queues: Vec<Queue>,
    /// Where in-band calls go, and their answers come from.
    pub back: Option<UnixStream>,
    device: Device,
    in_band: bool,
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

impl Queue {
    fn new() -> Queue {
        Queue { ring: Ring::default(), kick: None, call: None, enabled: true }
    }

    fn stop(&mut self) {
        self.ring.stop();
        self.kick = None;
    }
}

impl Connection {
    /// `in_band`: kicks and calls go over the sockets, as a virtual clock wants it.
    pub fn new(stream: UnixStream, device: Device, in_band: bool) -> io::Result<Connection> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let queues = (0..device.queues()).map(|_| Queue::new()).collect();
        Ok(Connection { stream, memory: Arc::default(), queues, back: None, device, in_band })
    }

    /// Whether a queue's requests are to be taken.
    pub fn live(&self, index: usize) -> bool {
        let queue = &self.queues[index];
        queue.enabled && queue.ring.ready() && (self.in_band || queue.kick.is_some())
    }

    /// Ring the node, if it wants to hear of what a queue gave it.
    pub fn ring_node(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        if queue.ring.must_ring() {
            if let Some(call) = &mut queue.call {
                // At most as many rings as requests are ever unread, so this cannot fill a pipe.
                let _ = call.write_all(&1u64.to_ne_bytes());
            }
        }
    }

    /// Call the node in band, for a queue; its answer comes over `back`, for `answered`.
    pub fn call(&mut self, index: usize) -> io::Result<()> {
        let back = self.back.as_mut().ok_or_else(|| bad("there is no way back"))?;
        let words = [CALL, VERSION | NEED_REPLY, 8, index as u32, 0];
        back.write_all(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Read the node's answer to `call`.
    pub fn answered(&mut self) -> io::Result<()> {
        let back = self.back.as_mut().ok_or_else(|| bad("there is no way back"))?;
        let mut answer = [0; HEAD + 8];
        back.read_exact(&mut answer)?;
        match (half(&answer, 0)?, number(&answer, HEAD)?) {
            (CALL, 0) => Ok(()),
            (request, answer) => Err(bad(&format!("the answer to a call was {answer} (to request {request})"))),
        }
    }

    /// Take a kick off, so that the next one is seen.
    pub fn kicked(&mut self, index: usize) {
        if let Some(kick) = &mut self.queues[index].kick {
            let _ = kick.read(&mut [0; 8]);
        }
    }

    /// Carry out the message that is there. The queue for which it was an in-band kick: the node waits until it is
    /// `acknowledge`d. An error ends the connection; a node that is gone is `UnexpectedEof`.
    pub fn serve(&mut self) -> io::Result<Option<usize>> {
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
        if request == KICK && self.in_band {
            let index = self.index(half(&body, 0)?)?;
            return match flags & NEED_REPLY {
                0 => Err(bad("a kick that waits for no answer")),
                _ => Ok(Some(index)),
            };
        }
        match self.answer(request, &body, files)? {
            Some(answer) => self.reply(request, &answer)?,
            None if flags & NEED_REPLY != 0 => self.reply(request, &0u64.to_le_bytes())?,
            None => {}
        }
        Ok(None)
    }

    /// Let the node go on that kicked in band.
    pub fn acknowledge(&mut self) -> io::Result<()> {
        self.reply(KICK, &0u64.to_le_bytes())
    }

    fn reply(&mut self, request: u32, body: &[u8]) -> io::Result<()> {
        let words = [request, VERSION | REPLY, body.len() as u32];
        let mut message: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        message.extend(body);
        self.stream.write_all(&message)
    }

    fn index(&self, index: u32) -> io::Result<usize> {
        match (index as usize) < self.queues.len() {
            true => Ok(index as usize),
            false => Err(bad(&format!("there is no queue {index}"))),
        }
    }

    fn queue(&mut self, index: u32) -> io::Result<&mut Queue> {
        let index = self.index(index)?;
        Ok(&mut self.queues[index])
    }

    fn answer(&mut self, request: u32, body: &[u8], files: Vec<File>) -> io::Result<Option<Vec<u8>>> {
        let whole = |value: u64| Ok(Some(value.to_le_bytes().to_vec()));
        match request {
            1 => return whole(self.device.features()), // GET_FEATURES
            2 => {
                // SET_FEATURES
                let event_index = number(body, 0)? & EVENT_INDEX != 0;
                self.queues.iter_mut().for_each(|queue| queue.ring.event_index = event_index);
            }
            3 => {}                        // SET_OWNER
            4 | 34 => self.stop(),         // RESET_OWNER, RESET_DEVICE
            5 => self.share(body, files)?, // SET_MEM_TABLE
            8 => {
                let size = half(body, 4)?;
                if size > QUEUE_SIZE || !self.queue(half(body, 0)?)?.ring.resize(size) {
                    return Err(bad("no size of a queue")); // SET_VRING_NUM
                }
            }
            9 => {
                // SET_VRING_ADDR: index, flags, descriptors, used, available, log
                let (descriptors, used, available) = (number(body, 8)?, number(body, 16)?, number(body, 24)?);
                let memory = self.memory.clone();
                if !self.queue(half(body, 0)?)?.ring.place(&memory, descriptors, available, used) {
                    return Err(bad("a queue outside of the memory"));
                }
            }
            10 => self.queue(half(body, 0)?)?.ring.rebase(half(body, 4)? as u16), // SET_VRING_BASE
            11 => {
                // GET_VRING_BASE stops the queue.
                let index = half(body, 0)?;
                let queue = self.queue(index)?;
                let next = u32::from(queue.ring.next());
                queue.stop();
                return Ok(Some([index.to_le_bytes(), next.to_le_bytes()].concat()));
            }
            // SET_VRING_KICK and SET_VRING_CALL: the queue's index in the last byte of a whole number
            12 => self.queue(half(body, 0)? & 0xff)?.kick = files.into_iter().next(),
            13 => self.queue(half(body, 0)? & 0xff)?.call = files.into_iter().next(),
            14 => {} // SET_VRING_ERR
            15 => {
                // GET_PROTOCOL_FEATURES
                return whole(REPLY_ACK | CONFIG | if self.in_band { BACK_CHANNEL | IN_BAND } else { 0 });
            }
            16 => {}                                                       // SET_PROTOCOL_FEATURES
            17 => return whole(self.queues.len() as u64),                  // GET_QUEUE_NUM
            18 => self.queue(half(body, 0)?)?.enabled = half(body, 4)? != 0, // SET_VRING_ENABLE
            21 => {
                // SET_BACKEND_REQ_FD
                let file = files.into_iter().next().ok_or_else(|| bad("no way back came along"))?;
                self.back = Some(UnixStream::from(OwnedFd::from(file)));
            }
            24 => {
                // GET_CONFIG: offset, size, flags, and room for what is asked for
                let (offset, size) = (half(body, 0)? as usize, half(body, 4)? as usize);
                let mut answer = body.get(..12).ok_or_else(|| bad("a message is too short"))?.to_vec();
                let config = self.device.config();
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
        self.queues.iter_mut().for_each(Queue::stop);
    }

    fn share(&mut self, body: &[u8], files: Vec<File>) -> io::Result<()> {
        self.queues.iter_mut().for_each(|queue| queue.ring.stop());
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
}
