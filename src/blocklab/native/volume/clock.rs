//! Time, behind one interface: the server never asks the machine what time it is, nor waits, but through it.

use crate::sys::{self, PollFd};

/// Nanoseconds since some moment.
pub type Nanos = u64;

/// When to wake up, and whether it matters if that is some 50 us late.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Wake {
    pub at: Nanos,
    pub exact: bool,
}

pub trait Clock {
    fn now(&self) -> Nanos;

    /// Wait until a descriptor is ready, or `until` has come, or `peek` finds work in shared memory. `peek` is asked
    /// only while the clock has the CPU anyway.
    fn wait(&mut self, fds: &mut [PollFd], until: Option<Wake>, peek: &mut dyn FnMut() -> bool);

    /// Nanoseconds of CPU time that were given to exactness.
    fn spun(&self) -> Nanos;
}

/// At most so long before a deadline it stays awake: what a halted virtual CPU takes to wake up.
const LONGEST: Nanos = 60_000;
/// It wakes up for nothing at least so late; and so much a promptly served timer brings the margin down.
const PROMPT: Nanos = 5_000;
const UP: Nanos = 1_800;
const DOWN: Nanos = 200;

/// The machine's own clock. Timers fire late; so it wakes up early by what nine of ten timers were late by lately, and
/// spins for the rest. On a machine whose timers are prompt it spins for next to nothing.
pub struct Machine {
    margin: Nanos,
    spun: Nanos,
}

impl Machine {
    pub fn new() -> Machine {
        sys::sharp_timers();
        Machine { margin: 20_000, spun: 0 }
    }
}

impl Clock for Machine {
    fn now(&self) -> Nanos {
        sys::monotonic()
    }

    fn wait(&mut self, fds: &mut [PollFd], until: Option<Wake>, peek: &mut dyn FnMut() -> bool) {
        let Some(Wake { at: until, exact }) = until else {
            sys::poll(fds, None);
            return;
        };
        let start = self.now();
        if !exact {
            sys::poll(fds, Some(until.saturating_sub(start)));
            return;
        }
        let wake = until.saturating_sub(self.margin);
        if wake > start {
            if sys::poll(fds, Some(wake - start)) > 0 {
                return;
            }
            let late = self.now().saturating_sub(wake);
            self.margin = match late + PROMPT > self.margin {
                true => (self.margin + UP).min(LONGEST),
                false => self.margin.saturating_sub(DOWN),
            };
        } else {
            // Neither sockets nor rings may starve behind deadlines that follow each other closely.
            sys::poll(fds, Some(0));
        }
        let from = self.now();
        let mut now = from;
        while now < until && !peek() {
            std::hint::spin_loop();
            now = self.now();
        }
        self.spun += now - from;
    }

    fn spun(&self) -> Nanos {
        self.spun
    }
}
