//! The control socket: a JSON object a line each way. `{"op": NAME, ...}` is answered by `{"ok": true, ...}` or by
//! `{"ok": false, "error": TEXT}`.
//!
//! - `stats`: what was done since the last `reset`, and the state; times in seconds.
//! - `refill`: full buckets.
//! - `reset`: full buckets, draws and schedule from their beginning, counters at 0.
//! - `retune`: `profile` has fields of a profile (`profile.rs`) that replace those in force, `null` takes one away.
//!   Buckets are full afterwards, draws and schedule begin again.
//! - `faults`: all that are in force from now on: `stall`, `full` (truth values), `slow` (what latencies are
//!   multiplied with), `errors` (a list of `start`, `end` in bytes, `reads`, `writes`). One that is not given ends.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};

use crate::clock::{Clock, Nanos};
use crate::json::{map, Value};
use crate::profile::Profile;
use crate::server::Server;
use crate::volume::{Errors, Faults, Volume};

/// A longer line is none of ours.
const LONGEST: usize = 1 << 20;

impl<C: Clock> Server<C> {
    /// Read what came over one connection and answer each whole line.
    pub fn talk(&mut self, id: u32) {
        let Some(mut talk) = self.talks.remove(&id) else { return };
        let mut bytes = [0; 4096];
        match talk.stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => talk.line.extend(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        while let Some(end) = talk.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = talk.line.drain(..=end).collect();
            let answer = match self.order(&String::from_utf8_lossy(&line)) {
                Ok(answer) => answer,
                Err(error) => map([("ok", Value::Bool(false)), ("error", Value::Text(error))]),
            };
            // In one piece, since each small write takes room of its own in the socket. Who does not read is let go.
            if talk.stream.write_all(format!("{answer}\n").as_bytes()).is_err() {
                return;
            }
        }
        if talk.line.len() <= LONGEST {
            self.talks.insert(id, talk);
        }
    }

    fn order(&mut self, line: &str) -> Result<Value, String> {
        let state = State { spun: self.clock.spun(), nodes: self.connections.len() as u64 };
        self.volume.order(&Value::parse(line)?, self.clock.now(), state)
    }
}

/// What a volume's server knows beside the volume.
#[derive(Default)]
pub struct State {
    /// Nanoseconds of CPU time that were given to exactness.
    pub spun: Nanos,
    /// How many have it.
    pub nodes: u64,
}

impl Volume {
    /// Carry out an order; what is answered.
    pub fn order(&mut self, order: &Value, now: Nanos, state: State) -> Result<Value, String> {
        match order.get("op").ok_or("op is missing")?.text()? {
            "stats" => return Ok(self.stats(now, state)),
            "refill" => self.profile.limits.refill(now),
            "reset" => self.reset(now),
            "retune" => self.retune(order.get("profile").ok_or("profile is missing")?, now)?,
            "faults" => self.faults = faults(order)?,
            other => return Err(format!("unknown op {other}")),
        }
        Ok(map([("ok", Value::Bool(true))]))
    }

    fn retune(&mut self, changes: &Value, now: Nanos) -> Result<(), String> {
        let (Value::Map(changes), Value::Map(given)) = (changes, &self.given) else {
            return Err("profile is no object".into());
        };
        let mut merged: BTreeMap<String, Value> = given.clone();
        merged.extend(changes.iter().map(|(name, value)| (name.clone(), value.clone())));
        let merged = Value::Map(merged);
        self.profile = Profile::parse(&merged)?;
        self.given = merged;
        let counts = std::mem::take(&mut self.counts);
        self.reset(now);
        self.counts = counts;
        Ok(())
    }

    fn stats(&mut self, now: Nanos, state: State) -> Value {
        let busy = self.busy();
        let burst = self.profile.limits.burst_left(now).map_or(Value::Null, Value::Number);
        let counts = &self.counts;
        let two = |name: &str, pair: [u64; 2]| {
            [(format!("reads{name}"), Value::from(pair[0])), (format!("writes{name}"), Value::from(pair[1]))]
        };
        let mut found: BTreeMap<String, Value> =
            [two("", counts.requests), two("_bytes", counts.bytes), two("_failed", counts.failed)]
                .into_iter()
                .flatten()
                .collect();
        let seconds = |nanoseconds: u64| Value::Number(nanoseconds as f64 / 1e9);
        for (name, value) in [
            ("ok", Value::Bool(true)),
            ("flushes", counts.flushes.into()),
            ("discards", counts.discards.into()),
            ("in_flight", busy.into()),
            ("in_flight_most", counts.most.into()),
            ("limited_seconds", seconds(counts.limited)),
            ("late_seconds", seconds(counts.late)),
            ("late_most_seconds", seconds(counts.latest)),
            ("sleeps", counts.sleeps.into()),
            ("spun_seconds", seconds(state.spun)),
            ("connections", counts.connections.into()),
            ("nodes", Value::from(state.nodes)),
            ("burst_left", burst),
            ("limits_share", Value::Number(self.profile.limits.share())),
            ("slow", Value::Bool(self.profile.spells.as_ref().is_some_and(|spells| spells.slow))),
            ("profile", self.given.clone()),
        ] {
            found.insert(name.to_string(), value);
        }
        Value::Map(found)
    }
}

fn faults(order: &Value) -> Result<Faults, String> {
    order.only(&["op", "stall", "full", "slow", "errors"])?;
    let truth = |from: &Value, name: &str, usual: bool| from.get(name).map_or(Ok(usual), Value::truth);
    let number = |from: &Value, name: &str, usual: f64| from.get(name).map_or(Ok(usual), Value::number);
    let mut errors = Vec::new();
    for each in order.get("errors").map_or(Ok(&[][..]), Value::list)? {
        each.only(&["start", "end", "reads", "writes"])?;
        errors.push(Errors {
            start: number(each, "start", 0.0)? as u64,
            end: number(each, "end", u64::MAX as f64)? as u64,
            reads: truth(each, "reads", true)?,
            writes: truth(each, "writes", true)?,
        });
    }
    Ok(Faults {
        stall: truth(order, "stall", false)?,
        full: truth(order, "full", false)?,
        slow: number(order, "slow", 0.0)?,
        errors,
    })
}
