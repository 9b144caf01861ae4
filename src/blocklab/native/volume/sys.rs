//! The system calls that the standard library does not offer. All `unsafe` calls of the C library are here.

use std::ffi::{c_char, c_int, c_long, c_short, c_uint, c_ulong, c_void, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

pub const POLLIN: c_short = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollFd {
    pub fd: c_int,
    pub events: c_short,
    pub revents: c_short,
}

/// A piece of a buffer, as `preadv` and `pwritev` take it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub at: *mut u8,
    pub bytes: usize,
}

#[repr(C)]
struct Timespec {
    sec: i64,
    nsec: i64,
}

#[repr(C)]
struct Message {
    name: *mut c_void,
    name_bytes: c_uint,
    pieces: *mut Piece,
    piece_count: usize,
    control: *mut c_void,
    control_bytes: usize,
    flags: c_int,
}

#[repr(C, align(8))]
struct Control {
    bytes: [u8; 256],
}

extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn ppoll(fds: *mut PollFd, count: c_ulong, time: *const Timespec, mask: *const c_void) -> c_int;
    fn mmap(at: *mut c_void, bytes: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize;
    fn recvmsg(fd: c_int, message: *mut Message, flags: c_int) -> isize;
    fn preadv(fd: c_int, pieces: *const Piece, count: c_int, offset: i64) -> isize;
    fn pwritev(fd: c_int, pieces: *const Piece, count: c_int, offset: i64) -> isize;
    fn fallocate(fd: c_int, mode: c_int, offset: i64, bytes: i64) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
    fn fstatfs(fd: c_int, found: *mut [c_long; 32]) -> c_int;
    fn eventfd(value: c_uint, flags: c_int) -> c_int;
    fn prctl(option: c_int, value: c_ulong) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
}

/// Nanoseconds of the machine's monotonic clock.
pub fn monotonic() -> u64 {
    let mut time = Timespec { sec: 0, nsec: 0 };
    // SAFETY: a plain struct of ours; CLOCK_MONOTONIC (1) always exists.
    unsafe { clock_gettime(1, &mut time) };
    time.sec as u64 * 1_000_000_000 + time.nsec as u64
}

/// Have CPUID fault, as it does in nodes in virtual time (`kernel/host-cpu.patch`): else the machine had to change a
/// register of the CPU, which takes long on virtual ones, whenever a node waits for this program. Nothing here asks for
/// CPUID. Where the machine cannot, nodes have it not, either.
pub fn hide_cpu() {
    // SAFETY: arch_prctl (158) with ARCH_SET_CPUID (0x1012) takes a number.
    unsafe { syscall(158, 0x1012 as c_long, 0 as c_long) };
}

/// Have the kernel wake this thread as near to a deadline as it can; by default it adds 50 us.
pub fn sharp_timers() {
    // SAFETY: PR_SET_TIMERSLACK (29) takes a number.
    unsafe { prctl(29, 1) };
}

/// Wait until a descriptor is ready, for at most `nanoseconds`; without end for `None`. Interruptions count as time.
pub fn poll(fds: &mut [PollFd], nanoseconds: Option<u64>) -> usize {
    let time = nanoseconds
        .map(|each| Timespec { sec: (each / 1_000_000_000) as i64, nsec: (each % 1_000_000_000) as i64 });
    let pointer = time.as_ref().map_or(std::ptr::null(), |time| time as *const _);
    // SAFETY: pointer and length are those of one slice.
    let found = unsafe { ppoll(fds.as_mut_ptr(), fds.len() as c_ulong, pointer, std::ptr::null()) };
    if found < 0 {
        fds.iter_mut().for_each(|each| each.revents = 0);
    }
    found.max(0) as usize
}

/// Shared memory of another process; unmapped when dropped.
pub struct Mapping {
    at: *mut u8,
    bytes: usize,
}

impl Mapping {
    pub fn new(file: &File, offset: u64, bytes: u64) -> io::Result<Mapping> {
        // SAFETY: a new shared mapping (PROT_READ | PROT_WRITE, MAP_SHARED) at a place that the kernel chooses.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes as usize, 3, 1, file.as_raw_fd(), offset as i64) };
        if at as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { at: at as *mut u8, bytes: bytes as usize })
    }

    pub fn start(&self) -> *mut u8 {
        self.at
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it, and nobody else knows it.
        unsafe { munmap(self.at as *mut c_void, self.bytes) };
    }
}

/// Memory that can be shared, all zeroes.
pub fn memory(name: &str, bytes: u64) -> io::Result<File> {
    let name = CString::new(name)?;
    // SAFETY: a string that outlives the call; MFD_CLOEXEC. The descriptor is ours.
    let file = match unsafe { memfd_create(name.as_ptr(), 1) } {
        -1 => return Err(io::Error::last_os_error()),
        fd => unsafe { File::from_raw_fd(fd) },
    };
    file.set_len(bytes)?;
    Ok(file)
}

/// Send bytes with two descriptors.
pub fn send(fd: RawFd, bytes: &[u8], files: [RawFd; 2]) -> io::Result<()> {
    let mut piece = Piece { at: bytes.as_ptr() as *mut u8, bytes: bytes.len() };
    let mut control = Control { bytes: [0; 256] };
    // As in `receive`: length with the head, SOL_SOCKET, SCM_RIGHTS.
    control.bytes[..8].copy_from_slice(&24u64.to_ne_bytes());
    for (at, word) in [1, 1, files[0], files[1]].into_iter().enumerate() {
        control.bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&word.to_ne_bytes());
    }
    let message = Message {
        name: std::ptr::null_mut(),
        name_bytes: 0,
        pieces: &mut piece,
        piece_count: 1,
        control: control.bytes.as_mut_ptr() as *mut c_void,
        control_bytes: 24,
        flags: 0,
    };
    // SAFETY: all pointers are to what outlives the call, and only read.
    match unsafe { sendmsg(fd, &message, 0) } {
        sent if sent == bytes.len() as isize => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Read what comes next, at most `buffer`, with the descriptors that came along.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut piece = Piece { at: buffer.as_mut_ptr(), bytes: buffer.len() };
    let mut control = Control { bytes: [0; 256] };
    let mut message = Message {
        name: std::ptr::null_mut(),
        name_bytes: 0,
        pieces: &mut piece,
        piece_count: 1,
        control: control.bytes.as_mut_ptr() as *mut c_void,
        control_bytes: control.bytes.len(),
        flags: 0,
    };
    // SAFETY: all pointers are to locals that outlive the call; MSG_CMSG_CLOEXEC.
    let bytes = unsafe { recvmsg(fd, &mut message, 0x4000_0000) };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut files = Vec::new();
    let mut at = 0;
    // A control message: its length with the head (8 bytes), level (4), type (4), data, padded to 8 bytes.
    while at + 16 <= message.control_bytes.min(control.bytes.len()) {
        let number = |from: usize| i32::from_ne_bytes(control.bytes[from..from + 4].try_into().unwrap());
        let length = u64::from_ne_bytes(control.bytes[at..at + 8].try_into().unwrap()) as usize;
        if length < 16 || at + length > control.bytes.len() {
            break;
        }
        // SOL_SOCKET, SCM_RIGHTS
        if number(at + 8) == 1 && number(at + 12) == 1 {
            for from in (at + 16..at + length).step_by(4) {
                // SAFETY: the kernel made these descriptors for us in this call.
                files.push(unsafe { OwnedFd::from_raw_fd(number(from)) });
            }
        }
        at += length.div_ceil(8) * 8;
    }
    Ok((bytes as usize, files))
}

/// Move bytes between the file at `offset` and pieces of memory, all of them. Beyond the file's end reads give zeroes.
pub fn transfer(file: &File, pieces: &[Piece], offset: u64, write: bool) -> io::Result<()> {
    let mut left: Vec<Piece> = pieces.iter().copied().filter(|piece| piece.bytes > 0).collect();
    let mut offset = offset;
    let mut first = 0;
    while first < left.len() {
        let now = &left[first..left.len().min(first + 1024)];
        let move_ = if write { pwritev } else { preadv };
        // SAFETY: the caller vouches for the pieces; see `ring::Memory`.
        let moved = unsafe { move_(file.as_raw_fd(), now.as_ptr(), now.len() as c_int, offset as i64) };
        if moved < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        if moved == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += moved as u64;
        let mut moved = moved as usize;
        while moved > 0 {
            let step = moved.min(left[first].bytes);
            // SAFETY: still within the piece.
            left[first].at = unsafe { left[first].at.add(step) };
            left[first].bytes -= step;
            moved -= step;
            if left[first].bytes == 0 {
                first += 1;
            }
        }
    }
    Ok(())
}

/// Make a range read as zeroes: a hole, or with `keep` zeroes that keep their blocks.
pub fn zero(file: &File, offset: u64, bytes: u64, keep: bool) -> io::Result<()> {
    const KEEP_SIZE: c_int = 1;
    const PUNCH_HOLE: c_int = 2;
    const ZERO_RANGE: c_int = 16;
    let call = |mode: c_int| -> io::Result<()> {
        // SAFETY: plain numbers.
        match unsafe { fallocate(file.as_raw_fd(), mode | KEEP_SIZE, offset as i64, bytes as i64) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    if bytes == 0 {
        return Ok(());
    }
    // tmpfs has no ZERO_RANGE: a hole reads alike.
    if keep && call(ZERO_RANGE).is_ok() {
        return Ok(());
    }
    call(PUNCH_HOLE)
}

pub fn sync(file: &File) -> io::Result<()> {
    // SAFETY: plain numbers.
    match unsafe { fdatasync(file.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the range has a hole, that is, whether a write to it takes new blocks.
pub fn has_hole(file: &File, offset: u64, bytes: u64) -> bool {
    // SAFETY: plain numbers; SEEK_HOLE (4). Nothing here uses the file's position.
    let hole = unsafe { lseek(file.as_raw_fd(), offset as i64, 4) };
    hole < 0 || (hole as u64) < offset + bytes
}

/// Whether the file is in memory, so that no access to it waits for a disk.
pub fn in_memory(file: &File) -> bool {
    let mut found = [0; 32];
    // SAFETY: struct statfs has 120 bytes; its first word is f_type. TMPFS_MAGIC.
    unsafe { fstatfs(file.as_raw_fd(), &mut found) == 0 && found[0] == 0x0102_1994 }
}

/// A counter to wake a thread that polls.
pub fn event() -> io::Result<File> {
    // SAFETY: EFD_CLOEXEC | EFD_NONBLOCK; the descriptor is ours.
    match unsafe { eventfd(0, 0o2_000_000 | 0o4000) } {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(unsafe { File::from_raw_fd(fd) }),
    }
}

/// A socket that takes connections from the moment its path is there. Between `bind` and `listen` it would refuse those
/// of whoever waits for the path.
pub fn listen(path: &str) -> Result<UnixListener, String> {
    let new = format!("{path}~");
    let made = UnixListener::bind(&new).and_then(|listener| fs::rename(&new, path).map(|()| listener));
    made.map_err(|error| format!("{path}: {error}"))
}
