//! One volume: takes requests, lets them start as the limits allow, does them on the file, and tells which are done
//! when they are due, in whatever order that is. It knows no clock: whoever has one says what time it is.
//!
//! A request's latency is drawn when it arrives. It starts when the buckets let it, at a time that is computed, not
//! at the time when somebody looked; from then on the latency runs. So a late look costs neither rate nor latency.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::clock::{Nanos, Wake};
use crate::json::Value;
use crate::latency::{Random, Spells};
use crate::limits::Way;
use crate::profile::Profile;
use crate::request::{Kind, Parsed, Request, Status, FAILED};
use crate::ring::{Chain, Memory};
use crate::sys;
use crate::workers::Workers;

/// What was broken on purpose.
#[derive(Default)]
pub struct Faults {
    /// Nothing starts and nothing is handed back.
    pub stall: bool,
    /// Writes that need new blocks fail.
    pub full: bool,
    /// What each latency is multiplied with; 0 for nothing.
    pub slow: f64,
    pub errors: Vec<Errors>,
}

/// Requests that touch the range from `start` up to `end` fail.
pub struct Errors {
    pub start: u64,
    pub end: u64,
    pub reads: bool,
    pub writes: bool,
}

impl Faults {
    fn strike(&self, file: &File, request: &Request, way: Way) -> bool {
        let hit = self.errors.iter().any(|each| {
            (if way == Way::Read { each.reads } else { each.writes })
                && request.touches().any(|(offset, bytes)| offset < each.end && each.start < offset + bytes)
        });
        hit || (self.full
            && request.kind == Kind::Write
            && sys::has_hole(file, request.offset, request.bytes))
    }
}

/// Counters since the start, or since `reset`.
#[derive(Default)]
pub struct Counts {
    /// Of reads and of writes (discards and zeroes are writes): requests, bytes, and those that failed.
    pub requests: [u64; 2],
    pub bytes: [u64; 2],
    pub failed: [u64; 2],
    pub flushes: u64,
    pub discards: u64,
    /// Most requests under way at once, those that wait for a limit included.
    pub most: u64,
    /// Nanoseconds that requests waited for a limit.
    pub limited: u64,
    /// Nanoseconds after their time at which requests were handed back: in all, and at most.
    pub late: u64,
    pub latest: u64,
    pub sleeps: u64,
    pub connections: u64,
}

struct Waiting {
    owner: u32,
    request: Request,
    memory: Arc<Memory>,
    arrived: Nanos,
    latency: Nanos,
}

/// A request that was started and is not handed back yet.
struct Flight {
    owner: u32,
    head: u16,
    status: Status,
    written: u32,
    /// Holds what `status` points into.
    _memory: Arc<Memory>,
    due: Nanos,
    /// None as long as a worker has it.
    code: Option<u8>,
    way: Option<Way>,
}

/// A request that is to be handed back to the one that sent it.
pub struct Done {
    pub owner: u32,
    pub head: u16,
    pub written: u32,
}

pub struct Volume {
    pub file: Arc<File>,
    pub size: u64,
    /// As it was given, and as it was understood.
    pub given: Value,
    pub profile: Profile,
    random: [Random; 3],
    /// Reads and writes that wait for a limit, each in the order in which they came.
    waiting: [VecDeque<Waiting>; 2],
    flights: HashMap<u64, Flight>,
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    serial: u64,
    pub workers: Option<Workers>,
    pub faults: Faults,
    pub counts: Counts,
}

fn index(way: Way) -> usize {
    match way {
        Way::Read => 0,
        Way::Write => 1,
    }
}

fn randoms(seed: u64) -> [Random; 3] {
    [0, 1, 2].map(|stream| Random::new(seed, stream))
}

impl Volume {
    /// ``threads``: whether requests may wait for a disk in threads of their own.
    pub fn new(file: File, given: Value, threads: bool, now: Nanos) -> Result<Volume, String> {
        let said = |error: io::Error| error.to_string();
        let size = file.metadata().map_err(said)?.len();
        let file = Arc::new(file);
        let workers = match threads && !sys::in_memory(&file) {
            true => Some(Workers::new(&file).map_err(said)?),
            false => None,
        };
        let profile = Profile::parse(&given)?;
        let mut volume = Volume {
            file,
            size,
            given,
            random: randoms(profile.seed),
            profile,
            waiting: Default::default(),
            flights: HashMap::new(),
            due: BinaryHeap::new(),
            serial: 0,
            workers,
            faults: Faults::default(),
            counts: Counts::default(),
        };
        volume.reset(now);
        Ok(volume)
    }

    /// As at the start: full buckets, the same draws, the schedule from its beginning, counters at 0.
    pub fn reset(&mut self, now: Nanos) {
        self.random = randoms(self.profile.seed);
        self.profile.limits.scale(now, 1.0);
        self.profile.limits.refill(now);
        if let Some(spells) = &mut self.profile.spells {
            spells.begin(now, &mut self.random[2]);
        }
        if let Some(degrade) = &mut self.profile.degrade {
            degrade.start = now;
            self.profile.limits.keep(now);
        }
        self.counts = Counts::default();
    }

    /// Requests that are under way.
    pub fn busy(&self) -> u64 {
        (self.flights.len() + self.waiting[0].len() + self.waiting[1].len()) as u64
    }

    /// Whether every new request would have to wait for a limit until `next` anyway.
    pub fn deaf(&self, next: Nanos) -> bool {
        let limits = &self.profile.limits;
        limits.start(Way::Read).min(limits.start(Way::Write)) >= next
    }

    /// Take a request. What makes no sense is done at once; `Err` where it has not even a place to say so.
    pub fn offer(
        &mut self,
        owner: u32,
        memory: Arc<Memory>,
        chain: Chain,
        now: Nanos,
        done: &mut Vec<Done>,
    ) -> Result<(), &'static str> {
        let head = chain.head;
        match Request::parse(chain, self.size) {
            Parsed::Good(request) => self.arrive(owner, memory, request, now),
            Parsed::Bad(status, code) => {
                eprintln!("a request that makes no sense, or lies outside of the node's memory: status {code}");
                status.write(code);
                done.push(Done { owner, head, written: 1 });
            }
            // Given back without a status it would pass for done.
            Parsed::Hopeless => return Err("a request has no place for its status"),
        }
        self.counts.most = self.counts.most.max(self.busy());
        Ok(())
    }

    /// A node is gone. What it had under way can no longer be handed back; what was started is in the file, what was
    /// not is not.
    pub fn forget(&mut self, owner: u32) {
        self.waiting.iter_mut().for_each(|queue| queue.retain(|each| each.owner != owner));
        self.flights.retain(|_, flight| flight.owner != owner);
    }

    /// Learn what the threads have done.
    pub fn gather(&mut self) {
        for (serial, code) in self.workers.as_mut().map(Workers::results).unwrap_or_default() {
            if let Some(flight) = self.flights.get_mut(&serial) {
                flight.code = Some(code);
                self.due.push(Reverse((flight.due, serial)));
            }
        }
    }

    fn arrive(&mut self, owner: u32, memory: Arc<Memory>, request: Request, now: Nanos) {
        let way = match request.kind {
            Kind::Read => Way::Read,
            Kind::Write | Kind::Discard | Kind::Zeroes => Way::Write,
            Kind::Flush | Kind::Id => {
                self.counts.flushes += u64::from(request.kind == Kind::Flush);
                return self.start(owner, memory, request, now, None);
            }
        };
        let at = index(way);
        self.counts.requests[at] += 1;
        self.counts.bytes[at] += request.bytes;
        self.counts.discards += u64::from(request.kind == Kind::Discard);
        let moved = if matches!(request.kind, Kind::Read | Kind::Write) { request.bytes } else { 0 };
        let drawn = self.profile.latency[at].at(self.random[at].share(), moved);
        let slow =
            self.profile.spells.as_ref().filter(|spells| spells.slow).map_or(1.0, |spells| spells.times);
        let fault = if self.faults.slow > 0.0 { self.faults.slow } else { 1.0 };
        let latency = (drawn * slow * fault) as Nanos;
        self.waiting[at].push_back(Waiting { owner, request, memory, arrived: now, latency });
    }

    /// Do everything that has to happen up to `now`, in its order; when the next thing has to.
    pub fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) -> Option<Wake> {
        if self.faults.stall {
            return None;
        }
        let next = loop {
            let head = self.head();
            let change = self.change();
            match (head, change) {
                (_, Some(at)) if at <= now && head.is_none_or(|(start, _)| at <= start) => self.turn(at),
                (Some((start, way)), _) if start <= now => self.admit(way, start),
                // While nothing waits a change is of no interest.
                (Some((start, _)), change) => break Some(change.map_or(start, |at| at.min(start))),
                (None, _) => break None,
            }
        };
        // A late start costs nothing, since its time is computed; what is handed back late is late.
        let start = next.map(|at| Wake { at, exact: false });
        let due = self.complete(now, done).map(|at| Wake { at, exact: true });
        match (start, due) {
            (Some(start), Some(due)) => Some(if start.at < due.at { start } else { due }),
            (start, due) => start.or(due),
        }
    }

    /// The request that starts next, by its direction, and when.
    fn head(&self) -> Option<(Nanos, Way)> {
        let start = |way: Way| {
            let first = self.waiting[index(way)].front()?;
            Some((first.arrived.max(self.profile.limits.start(way)), first.arrived, way))
        };
        let (reads, writes) = (start(Way::Read), start(Way::Write));
        let first = match (reads, writes) {
            // Of two that may start at the same time the one that came first.
            (Some(read), Some(write)) if (write.0, write.1) < (read.0, read.1) => write,
            (Some(read), _) => read,
            (None, write) => write?,
        };
        Some((first.0, first.2))
    }

    /// When the slow state or the schedule changes next.
    fn change(&self) -> Option<Nanos> {
        let spells = self.profile.spells.as_ref().map(|spells| spells.until);
        let degrade = self.profile.degrade.as_ref().map(|_| self.profile.limits.until());
        [spells, degrade].into_iter().flatten().min()
    }

    fn turn(&mut self, at: Nanos) {
        let random = &mut self.random[2];
        if let Some(spells) = self.profile.spells.as_mut().filter(|spells: &&mut Spells| spells.until <= at) {
            spells.change(random);
        }
        if let Some(degrade) = &self.profile.degrade {
            let (share, until) = degrade.at(at);
            self.profile.limits.scale(at, share);
            self.profile.limits.keep(until);
        }
    }

    fn admit(&mut self, way: Way, start: Nanos) {
        let Some(Waiting { owner, request, memory, arrived, latency }) =
            self.waiting[index(way)].pop_front()
        else {
            return;
        };
        self.counts.limited += start - arrived;
        // A discard is one I/O of its size.
        let moves = matches!(request.kind, Kind::Read | Kind::Write);
        let count = if moves { self.profile.limits.count(request.bytes) } else { 1 };
        self.profile.limits.take(way, start, count, request.bytes);
        self.start(owner, memory, request, start + latency, Some(way));
    }

    fn start(
        &mut self,
        owner: u32,
        memory: Arc<Memory>,
        request: Request,
        due: Nanos,
        way: Option<Way>,
    ) {
        self.serial += 1;
        let (head, status, written) = (request.head, request.status, request.written());
        let struck = way.is_some_and(|way| self.faults.strike(&self.file, &request, way));
        let code = match &self.workers {
            _ if struck => Some(FAILED),
            // Identification needs no file.
            Some(workers) if request.kind != Kind::Id => {
                workers.give(self.serial, request, memory.clone());
                None
            }
            _ => Some(request.carry_out(&self.file)),
        };
        if code.is_some() {
            self.due.push(Reverse((due, self.serial)));
        }
        let flight = Flight { owner, head, status, written, _memory: memory, due, code, way };
        self.flights.insert(self.serial, flight);
    }

    /// Have done what is due; when the next one is.
    fn complete(&mut self, now: Nanos, done: &mut Vec<Done>) -> Option<Nanos> {
        while let Some(Reverse((due, serial))) = self.due.peek().copied() {
            if due > now {
                return Some(due);
            }
            self.due.pop();
            // Of a node that is gone there is none.
            let Some(flight) = self.flights.remove(&serial) else { continue };
            let code = flight.code.unwrap_or(FAILED);
            if let Some(way) = flight.way {
                self.counts.failed[index(way)] += u64::from(code != 0);
                self.counts.late += now - due;
                self.counts.latest = self.counts.latest.max(now - due);
            }
            flight.status.write(code);
            let written = if code == 0 { flight.written } else { 1 };
            done.push(Done { owner: flight.owner, head: flight.head, written });
        }
        None
    }
}
