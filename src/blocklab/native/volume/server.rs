//! The event loop of one volume in real time: takes requests from the nodes' rings and hands them back when the volume
//! says that they are done.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::clock::{Clock, Nanos, Wake};
use crate::sys::{PollFd, POLLIN};
use crate::vhost::{Connection, Device};
use crate::volume::{Done, Volume};

#[derive(Clone, Copy)]
enum Source {
    Node(usize),
    Control,
    Message(u32),
    Kick(u32),
    Talk(u32),
    Workers,
}

/// A connection to the control socket, with what it sent of its next line.
pub struct Talk {
    pub stream: UnixStream,
    pub line: Vec<u8>,
}

pub struct Server<C: Clock> {
    pub clock: C,
    pub volume: Volume,
    listeners: Vec<UnixListener>,
    control: Option<UnixListener>,
    pub talks: BTreeMap<u32, Talk>,
    pub connections: BTreeMap<u32, Connection>,
    names: u32,
}

impl<C: Clock> Server<C> {
    pub fn new(clock: C, volume: Volume, control: Option<UnixListener>) -> Server<C> {
        Server {
            clock,
            volume,
            listeners: Vec::new(),
            control,
            talks: BTreeMap::new(),
            connections: BTreeMap::new(),
            names: 0,
        }
    }

    pub fn listen(&mut self, listener: UnixListener) {
        self.listeners.push(listener);
    }

    pub fn run(&mut self) -> ! {
        let (mut fds, mut sources) = (Vec::new(), Vec::new());
        loop {
            let now = self.clock.now();
            let mut next = self.advance(now);
            if self.take(now) {
                next = self.advance(now);
            }
            self.connections.values_mut().for_each(|each| each.ring_node(0));
            // Nobody needs to hear of a request that has to wait anyway: the node is spared the kick and this thread
            // the wake-up.
            let deaf = next.is_some_and(|next| next.at > now && self.volume.deaf(next.at));
            if !deaf && self.arm() {
                // One that is due may have become so meanwhile; sockets are served when it gets quieter.
                self.poll(&mut fds, &mut sources, Some(Wake { at: now, exact: false }), deaf);
                continue;
            }
            self.volume.counts.sleeps += 1;
            self.poll(&mut fds, &mut sources, next, deaf);
        }
    }

    /// Ask all nodes to be kicked for their next request; whether one has one already.
    fn arm(&mut self) -> bool {
        let mut more = false;
        for connection in self.connections.values_mut().filter(|each| each.live(0)) {
            more |= connection.queues[0].ring.arm();
        }
        more
    }

    fn poll(&mut self, fds: &mut Vec<PollFd>, sources: &mut Vec<Source>, until: Option<Wake>, deaf: bool) {
        fds.clear();
        sources.clear();
        let mut watch = |fd: i32, source: Source| {
            fds.push(PollFd { fd, events: POLLIN, revents: 0 });
            sources.push(source);
        };
        for (id, connection) in &self.connections {
            if let Some(kick) = &connection.queues[0].kick {
                watch(kick.as_raw_fd(), Source::Kick(*id));
            }
            watch(connection.stream.as_raw_fd(), Source::Message(*id));
        }
        if let Some(workers) = &self.volume.workers {
            watch(workers.event.as_raw_fd(), Source::Workers);
        }
        for (id, talk) in &self.talks {
            watch(talk.stream.as_raw_fd(), Source::Talk(*id));
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            watch(listener.as_raw_fd(), Source::Node(index));
        }
        if let Some(control) = &self.control {
            watch(control.as_raw_fd(), Source::Control);
        }
        let connections = &self.connections;
        let mut peek = || !deaf && connections.values().any(|each| each.live(0) && each.queues[0].ring.pending());
        self.clock.wait(fds, until, &mut peek);
        for (fd, source) in fds.iter().zip(sources.iter()) {
            if fd.revents != 0 {
                self.attend(*source);
            }
        }
    }

    fn attend(&mut self, source: Source) {
        match source {
            Source::Node(index) => self.accept(index),
            Source::Control => {
                if let Some(Ok((stream, _))) = self.control.as_ref().map(UnixListener::accept) {
                    let _ = stream.set_nonblocking(true);
                    self.names += 1;
                    self.talks.insert(self.names, Talk { stream, line: Vec::new() });
                }
            }
            Source::Message(id) => {
                let Some(connection) = self.connections.get_mut(&id) else { return };
                if let Err(error) = connection.serve() {
                    self.drop_connection(id, &error);
                }
            }
            Source::Kick(id) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.kicked(0);
                }
            }
            Source::Talk(id) => self.talk(id),
            Source::Workers => self.volume.gather(),
        }
    }

    fn accept(&mut self, index: usize) {
        let Ok((stream, _)) = self.listeners[index].accept() else { return };
        let device = Device::Block { bytes: self.volume.size, read_only: false };
        match Connection::new(stream, device, false) {
            Ok(connection) => {
                self.names += 1;
                self.volume.counts.connections += 1;
                self.connections.insert(self.names, connection);
            }
            Err(error) => eprintln!("a node cannot be served: {error}"),
        }
    }

    /// A node is gone, or speaks no vhost-user. The socket takes the next one.
    fn drop_connection(&mut self, id: u32, error: &io::Error) {
        let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        if !gone.contains(&error.kind()) {
            eprintln!("a node was cut off: {error}");
        }
        self.connections.remove(&id);
        self.volume.forget(id);
    }

    /// Take what the nodes have put into their rings; whether there was any.
    fn take(&mut self, now: Nanos) -> bool {
        let (mut any, mut done, mut confused) = (false, Vec::new(), Vec::new());
        for (id, connection) in self.connections.iter_mut().filter(|(_, each)| each.live(0)) {
            let memory = connection.memory.clone();
            let mut next = || -> Result<bool, &'static str> {
                let Some(chain) = connection.queues[0].ring.take(&memory)? else { return Ok(false) };
                self.volume.offer(*id, memory.clone(), chain, now, &mut done)?;
                Ok(true)
            };
            loop {
                match next() {
                    Ok(true) => any = true,
                    Ok(false) => break,
                    Err(why) => {
                        confused.push((*id, why));
                        break;
                    }
                }
            }
        }
        self.give(&done);
        for (id, why) in confused {
            self.drop_connection(id, &io::Error::new(io::ErrorKind::InvalidData, why));
        }
        any
    }

    /// Have everything happen up to `now`, and hand back what is done; when the next thing has to.
    fn advance(&mut self, now: Nanos) -> Option<Wake> {
        let mut done = Vec::new();
        let next = self.volume.advance(now, &mut done);
        self.give(&done);
        next
    }

    fn give(&mut self, done: &[Done]) {
        for each in done {
            if let Some(connection) = self.connections.get_mut(&each.owner) {
                connection.queues[0].ring.give(each.head, each.written);
            }
        }
    }
}
