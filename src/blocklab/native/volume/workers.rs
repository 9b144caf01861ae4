//! Threads for a file on a disk, where a request may wait for that disk: the server itself must not.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};

use crate::request::Request;
use crate::ring::Memory;
use crate::sys;

/// As many requests as a disk may work on at once.
const THREADS: usize = 16;

struct Job {
    serial: u64,
    request: Request,
    /// A request points into it; its node may be gone before the request is done.
    _memory: Arc<Memory>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
}

pub struct Workers {
    queue: Arc<Queue>,
    done: Receiver<(u64, u8)>,
    /// Readable when something is done.
    pub event: File,
}

impl Workers {
    pub fn new(file: &Arc<File>) -> io::Result<Workers> {
        let queue = Arc::<Queue>::default();
        let (sender, done) = channel();
        let event = sys::event()?;
        for _ in 0..THREADS {
            let (queue, file, sender, event) =
                (queue.clone(), file.clone(), sender.clone(), event.try_clone()?);
            std::thread::Builder::new().spawn(move || work(&queue, &file, &sender, event))?;
        }
        Ok(Workers { queue, done, event })
    }

    pub fn give(&self, serial: u64, request: Request, memory: Arc<Memory>) {
        self.queue.jobs.lock().unwrap().push_back(Job { serial, request, _memory: memory });
        self.queue.more.notify_one();
    }

    /// Serial number and status of what was done since the last time.
    pub fn results(&mut self) -> Vec<(u64, u8)> {
        let _ = self.event.read(&mut [0; 8]);
        self.done.try_iter().collect()
    }
}

fn work(queue: &Queue, file: &File, sender: &Sender<(u64, u8)>, mut event: File) {
    loop {
        let job = {
            let mut jobs = queue.jobs.lock().unwrap();
            loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => jobs = queue.more.wait(jobs).unwrap(),
                }
            }
        };
        let code = job.request.carry_out(file);
        if sender.send((job.serial, code)).is_err() {
            return;
        }
        let _ = event.write_all(&1u64.to_ne_bytes());
    }
}
