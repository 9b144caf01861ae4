//! A lab in virtual time: the clock of all its nodes, their volumes, wires and consoles, in one thread. Whoever runs it
//! says until when it goes on; meanwhile one node runs at a time, or none while an event is carried out. Events of one
//! moment happen in the order in which they came to be, then the nodes in theirs, so the same orders lead to the same
//! moments, whatever the machine.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use crate::clock::Nanos;
use crate::frames::{self, NET_HEAD};
use crate::sys::{self, PollFd, POLLIN};
use crate::time::{self, Line, Message, Shared};
use crate::vhost::{Connection, Device};
use crate::volume::{Done, Volume};

/// A node may go on by itself for so long, so that one that never waits is seen to go on.
const LONGEST: Nanos = 10_000_000;
/// Further frames for a card that takes none are lost.
const BACKLOG: usize = 4096;
const NO_NODE: &str = "there is no such node";
const RECEIVE: usize = 0;
const SEND: usize = 1;

/// What is behind one of a node's sockets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// One of the volumes.
    Disk(usize),
    /// A card at the end of a wire: the port at the other end.
    Card(usize),
    Console,
}

/// One of a node's sockets.
pub struct Port {
    pub node: usize,
    pub role: Role,
    device: Device,
    listener: UnixListener,
    connection: Option<Connection>,
    frames: VecDeque<Vec<u8>>,
    input: VecDeque<u8>,
}

impl Port {
    pub fn new(node: usize, role: Role, device: Device, listener: UnixListener) -> Port {
        let (frames, input) = (VecDeque::new(), VecDeque::new());
        Port { node, role, device, listener, connection: None, frames, input }
    }
}

#[derive(Default)]
pub struct Node {
    pub name: String,
    line: Option<Line>,
    /// Of the first message, which is answered when it may begin.
    hello: Option<u32>,
    waiting: bool,
    /// When it began, which is 0 in its own time.
    began: Nanos,
    /// It gets no turn.
    pub frozen: bool,
}

impl Node {
    pub fn new(name: &str) -> Node {
        Node { name: name.into(), ..Node::default() }
    }
}

enum Event {
    /// A frame reaches a card.
    Frame(usize, Vec<u8>),
    /// A port's queue has given something back that its node wants to hear of.
    Call(usize, usize),
    /// A port has something for its node, which may have made room for it.
    Deliver(usize),
}

/// Why a run came to its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The time is up.
    Time,
    /// A node said something.
    Said,
    /// A node has ended.
    Gone(usize),
    /// A node did not stop running.
    Hung(usize),
    /// Nothing will ever happen again.
    Nothing,
}

enum Trouble {
    Gone(usize),
    Hung(usize),
}

type Ran<T> = Result<T, Trouble>;

pub struct Lab {
    pub now: Nanos,
    pub nodes: Vec<Node>,
    pub ports: Vec<Port>,
    pub volumes: Vec<Volume>,
    /// What the consoles said: node, bytes.
    pub said: Vec<(usize, Vec<u8>)>,
    /// Of the wires: what a frame is under way.
    wire: Nanos,
    /// The time of day at 0, in nanoseconds since 1970.
    epoch: Nanos,
    /// Real nanoseconds for which a node may run without a message.
    patience: Nanos,
    door: UnixListener,
    shared: Shared,
    events: BTreeMap<(Nanos, u64), Event>,
    /// When each volume has something to do.
    wakes: Vec<Option<Nanos>>,
    serial: u64,
    /// A descriptor whose far end is gone when nobody wants this any more.
    owner: i32,
}

impl Lab {
    /// Of nodes with these names, which nothing is known of yet.
    pub fn new(
        door: UnixListener, owner: i32, names: &[&str], epoch: Nanos, wire: Nanos, patience: Nanos,
    ) -> io::Result<Lab> {
        Ok(Lab {
            now: 0,
            nodes: names.iter().map(|name| Node::new(name)).collect(),
            ports: Vec::new(),
            volumes: Vec::new(),
            said: Vec::new(),
            wire,
            epoch,
            patience,
            door,
            shared: Shared::new(names.len())?,
            events: BTreeMap::new(),
            wakes: Vec::new(),
            serial: 0,
            owner,
        })
    }

    pub fn node(&self, name: &str) -> Result<usize, &'static str> {
        self.nodes.iter().position(|node| node.name == name).ok_or(NO_NODE)
    }

    /// Wait for so many real nanoseconds until this node, which was started, asks for its first turn: now. Whether it
    /// has come.
    pub fn expect(&mut self, wanted: usize, within: Nanos) -> bool {
        while self.nodes[wanted].line.is_none() {
            let door = self.door.as_raw_fd();
            if self.poll(&[door], within).is_none() {
                return false;
            }
            let Ok((stream, _)) = self.door.accept() else { continue };
            let mut line = Line::new(stream);
            let Ok(Message { op: time::START, seq, time }) = line.read() else { continue };
            let number = time as usize;
            if let Some(node) = self.nodes.get_mut(number).filter(|node| node.line.is_none()) {
                let name = std::mem::take(&mut node.name);
                *node = Node { name, line: Some(line), hello: Some(seq), waiting: true, ..Node::default() };
                self.shared.ask(number, self.now);
            }
        }
        true
    }

    /// Have a node's console take bytes.
    pub fn type_in(&mut self, node: usize, bytes: &[u8]) {
        if let Some(at) = self.ports.iter().position(|port| port.node == node && port.role == Role::Console) {
            self.ports[at].input.extend(bytes);
            self.add(self.now, Event::Deliver(at));
        }
    }

    /// Go on until `until`, or until something has to be told.
    pub fn run(&mut self, until: Nanos) -> Why {
        loop {
            if !self.said.is_empty() {
                return Why::Said;
            }
            match self.step(until) {
                Ok(None) => {}
                Ok(Some(why)) => return why,
                Err(Trouble::Gone(node)) => {
                    self.bury(node);
                    return Why::Gone(node);
                }
                Err(Trouble::Hung(node)) => return Why::Hung(node),
            }
        }
    }

    fn step(&mut self, until: Nanos) -> Ran<Option<Why>> {
        let event = self.next_event();
        let turn = self.next_turn(None);
        let Some(at) = event.into_iter().chain(turn.map(|turn| turn.0)).min() else {
            if until < Nanos::MAX {
                self.now = self.now.max(until);
            }
            return Ok(Some(Why::Nothing));
        };
        if at > until {
            self.now = self.now.max(until);
            return Ok(Some(Why::Time));
        }
        self.now = self.now.max(at);
        match turn {
            Some((time, node)) if event.is_none_or(|event| time < event) => self.turn(node, until)?,
            _ => self.happen()?,
        }
        Ok(None)
    }

    fn next_event(&self) -> Option<Nanos> {
        let first = self.events.keys().next().map(|key| key.0);
        first.into_iter().chain(self.wakes.iter().copied().flatten()).min()
    }

    /// Which node wants to run next, and when; leaving one out.
    fn next_turn(&self, but: Option<usize>) -> Option<(Nanos, usize)> {
        let waiting = |(at, node): &(usize, &Node)| Some(*at) != but && node.waiting && !node.frozen;
        let wishes = self.nodes.iter().enumerate().filter(waiting);
        wishes.filter_map(|(at, _)| Some((self.shared.request(at)?, at))).min()
    }

    fn add(&mut self, at: Nanos, event: Event) {
        self.serial += 1;
        self.events.insert((at, self.serial), event);
    }

    // -- a node's turn ---------------------------------------------------------------------------------------

    /// Until when a node may go on by itself: up to the next thing that happens elsewhere, but not past `until`.
    fn freedom(&self, node: usize, until: Nanos) -> Nanos {
        let others = self.next_turn(Some(node)).map(|turn| turn.0);
        let last = until.saturating_add(1).min(self.now + LONGEST);
        self.next_event().into_iter().chain(others).fold(last, Nanos::min)
    }

    fn turn(&mut self, node: usize, until: Nanos) -> Ran<()> {
        let now = self.now;
        self.shared.give(node, now, self.freedom(node, until));
        match self.nodes[node].hello.take() {
            Some(seq) => {
                self.nodes[node].began = now;
                let Some(line) = &mut self.nodes[node].line else { return Err(Trouble::Gone(node)) };
                line.admit(seq, Shared::place(node), &self.shared).map_err(|_| Trouble::Gone(node))?;
            }
            None => {
                let its = now - self.nodes[node].began;
                self.on_line(node, |line| line.run(its))?;
            }
        }
        self.nodes[node].waiting = false;
        while !self.nodes[node].waiting {
            self.attend(node, until)?;
        }
        Ok(())
    }

    /// Serve the next message of the node that runs.
    fn attend(&mut self, node: usize, until: Nanos) -> Ran<()> {
        let Some(line) = &self.nodes[node].line else { return Err(Trouble::Gone(node)) };
        let mut fds = vec![line.stream.as_raw_fd()];
        let mine: Vec<usize> = (0..self.ports.len()).filter(|at| self.ports[*at].node == node).collect();
        for at in &mine {
            let port = &self.ports[*at];
            fds.push(match &port.connection {
                Some(connection) => connection.stream.as_raw_fd(),
                None => port.listener.as_raw_fd(),
            });
        }
        let ready = self.poll(&fds, self.patience).ok_or(Trouble::Hung(node))?;
        self.now = self.now.max(self.shared.now());
        match ready {
            0 => self.hear(node),
            _ => self.serve(mine[ready - 1], until),
        }
    }

    /// The next message of a node about time.
    fn hear(&mut self, node: usize) -> Ran<()> {
        let Message { op, seq, .. } = self.on_line(node, Line::read)?;
        let answer = match op {
            // No answer but its next turn.
            time::WAIT => {
                self.nodes[node].waiting = true;
                return Ok(());
            }
            time::GET_TIME_OF_DAY => self.epoch + self.now,
            time::BROADCAST => 0,
            // None of the protocol's words, or one of a kernel that cannot share memory.
            other => {
                eprintln!("{}: unexpected message {other} about time", self.nodes[node].name);
                return Err(Trouble::Gone(node));
            }
        };
        self.on_line(node, |line| line.answer(seq, answer))
    }

    fn on_line<T>(&mut self, node: usize, do_it: impl FnOnce(&mut Line) -> io::Result<T>) -> Ran<T> {
        let gone = Trouble::Gone(node);
        match &mut self.nodes[node].line {
            Some(line) => do_it(line).map_err(|_| gone),
            None => Err(gone),
        }
    }

    /// Serve what came over a port's socket.
    fn serve(&mut self, at: usize, until: Nanos) -> Ran<()> {
        let port = &mut self.ports[at];
        let node = port.node;
        let Some(connection) = &mut port.connection else {
            if let Ok((stream, _)) = port.listener.accept() {
                port.connection = Connection::new(stream, port.device.clone(), true).ok();
            }
            return Ok(());
        };
        let kicked = match connection.serve() {
            Ok(Some(queue)) => queue,
            Ok(None) => return Ok(()),
            Err(error) => return self.cut(at, &error.to_string()),
        };
        if let Err(why) = self.kicked(at, kicked) {
            return self.cut(at, why);
        }
        // What it has just brought about may come before what else would.
        self.shared.limit(self.freedom(node, until));
        match self.ports[at].connection.as_mut().map(Connection::acknowledge) {
            Some(Err(error)) => self.cut(at, &error.to_string()),
            _ => Ok(()),
        }
    }

    /// Take what a node has put into a queue.
    fn kicked(&mut self, at: usize, queue: usize) -> Result<(), &'static str> {
        let now = self.now;
        let port = &mut self.ports[at];
        let Some(connection) = port.connection.as_mut().filter(|each| each.live(queue)) else { return Ok(()) };
        let memory = connection.memory.clone();
        let ring = &mut connection.queues[queue].ring;
        match (port.role, queue) {
            (Role::Disk(volume), _) => {
                let mut done = Vec::new();
                while let Some(chain) = ring.take(&memory)? {
                    self.volumes[volume].offer(at as u32, memory.clone(), chain, now, &mut done)?;
                }
                ring.arm();
                self.hand_back(&done);
                self.advance(volume);
            }
            (Role::Card(peer), SEND) => {
                for frame in frames::sent(ring, &memory, NET_HEAD)? {
                    self.add(now + self.wire, Event::Frame(peer, frame));
                }
                self.announce(at, queue);
            }
            (Role::Console, SEND) => {
                let node = port.node;
                let said = frames::sent(ring, &memory, 0)?;
                self.said.extend(said.into_iter().map(|bytes| (node, bytes)));
                self.announce(at, queue);
            }
            _ => self.add(now, Event::Deliver(at)),
        }
        Ok(())
    }

    // -- what happens while no node runs -------------------------------------------------------------------------

    fn happen(&mut self) -> Ran<()> {
        for volume in 0..self.volumes.len() {
            if self.wakes[volume].is_some_and(|wake| wake <= self.now) {
                self.advance(volume);
            }
        }
        let Some((at, _)) = self.events.first_key_value() else { return Ok(()) };
        if at.0 > self.now {
            return Ok(());
        }
        match self.events.pop_first().map(|(_, event)| event) {
            Some(Event::Frame(at, frame)) => {
                let port = &mut self.ports[at];
                if port.frames.len() < BACKLOG {
                    port.frames.push_back(frame);
                }
                self.deliver(at)
            }
            Some(Event::Deliver(at)) => self.deliver(at),
            Some(Event::Call(at, queue)) => self.call(at, queue),
            None => Ok(()),
        }
    }

    /// Have a volume do what is to be done by now, and learn when there is more.
    fn advance(&mut self, volume: usize) {
        let mut done = Vec::new();
        self.wakes[volume] = self.volumes[volume].advance(self.now, &mut done).map(|wake| wake.at.max(self.now));
        self.hand_back(&done);
    }

    fn hand_back(&mut self, done: &[Done]) {
        for each in done {
            let at = each.owner as usize;
            if let Some(connection) = &mut self.ports[at].connection {
                connection.queues[0].ring.give(each.head, each.written);
            }
            self.announce(at, 0);
        }
    }

    fn deliver(&mut self, at: usize) -> Ran<()> {
        let port = &mut self.ports[at];
        let Some(connection) = port.connection.as_mut().filter(|each| each.live(RECEIVE)) else {
            // Nobody listens yet, or any more: what comes over a wire now is lost, what is typed waits.
            port.frames.clear();
            return Ok(());
        };
        let memory: Arc<_> = connection.memory.clone();
        let ring = &mut connection.queues[RECEIVE].ring;
        let done = match port.role {
            Role::Console => frames::typed(ring, &memory, &mut port.input),
            _ => frames::receive(ring, &memory, &mut port.frames),
        };
        match done {
            Ok(()) => {
                self.announce(at, RECEIVE);
                Ok(())
            }
            Err(why) => self.cut(at, why),
        }
    }

    /// Have a node called for what a queue gave back, if it wants to hear of it.
    fn announce(&mut self, at: usize, queue: usize) {
        let queues = self.ports[at].connection.as_mut().map(|each| &mut each.queues);
        if queues.is_some_and(|queues| queues[queue].ring.must_ring()) {
            self.add(self.now, Event::Call(at, queue));
        }
    }

    /// Call a node for a queue, and wait until it has taken notice: it asks for a turn.
    fn call(&mut self, at: usize, queue: usize) -> Ran<()> {
        let node = self.ports[at].node;
        let Some(connection) = self.ports[at].connection.as_mut().filter(|each| each.live(queue)) else {
            return Ok(());
        };
        self.shared.take(self.now);
        if let Err(error) = connection.call(queue) {
            return self.cut(at, &error.to_string());
        }
        loop {
            let line = self.nodes[node].line.as_ref().map(|line| line.stream.as_raw_fd());
            let back =
                self.ports[at].connection.as_ref().and_then(|each| each.back.as_ref().map(AsRawFd::as_raw_fd));
            let (Some(line), Some(back)) = (line, back) else { return Err(Trouble::Gone(node)) };
            match self.poll(&[line, back], self.patience) {
                None => return Err(Trouble::Hung(node)),
                Some(0) => self.hear(node)?,
                Some(_) => break,
            }
        }
        match self.ports[at].connection.as_mut().map(Connection::answered) {
            Some(Err(error)) => self.cut(at, &error.to_string()),
            _ => Ok(()),
        }
    }

    // -- ends --------------------------------------------------------------------------------------------------------

    /// A port speaks no vhost-user, or its node has left it. The socket takes the next one.
    fn cut(&mut self, at: usize, why: &str) -> Ran<()> {
        let port = &mut self.ports[at];
        port.connection = None;
        port.frames.clear();
        if let Role::Disk(volume) = port.role {
            self.volumes[volume].forget(at as u32);
        }
        eprintln!("{}: {:?} was cut off: {why}", self.nodes[self.ports[at].node].name, self.ports[at].role);
        Ok(())
    }

    /// A node has ended: what was under way to it is lost, what it has sent goes on.
    pub fn bury(&mut self, node: usize) {
        let name = std::mem::take(&mut self.nodes[node].name);
        self.nodes[node] = Node::new(&name);
        self.shared.forget(node);
        for at in 0..self.ports.len() {
            if self.ports[at].node != node {
                continue;
            }
            self.ports[at].connection = None;
            self.ports[at].frames.clear();
            self.ports[at].input.clear();
            if let Role::Disk(volume) = self.ports[at].role {
                self.volumes[volume].forget(at as u32);
            }
        }
    }

    /// Wait for so many real nanoseconds until one of these is ready: the first that is. Ends the program when nobody
    /// wants it any more.
    fn poll(&self, fds: &[i32], within: Nanos) -> Option<usize> {
        let watch = |fd: &i32| PollFd { fd: *fd, events: POLLIN, revents: 0 };
        let mut polled: Vec<PollFd> = fds.iter().map(watch).collect();
        // Only its end is of interest.
        polled.push(PollFd { fd: self.owner, events: 0, revents: 0 });
        sys::poll(&mut polled, Some(within));
        if polled[fds.len()].revents != 0 {
            std::process::exit(0);
        }
        polled[..fds.len()].iter().position(|each| each.revents != 0)
    }

    /// Add a volume, for ports to be behind.
    pub fn add_volume(&mut self, volume: Volume) {
        self.volumes.push(volume);
        self.wakes.push(None);
    }

    /// A volume's schedule has changed: an order did it.
    pub fn changed(&mut self, volume: usize) {
        self.advance(volume);
    }
}
