//! Token buckets: how many I/Os and bytes per second a volume does.

use crate::clock::Nanos;

/// An idle bucket without a burst saves up so many seconds of I/O.
const SLACK: f64 = 0.1;

/// Holds at most `most` tokens and gains `rate` per second. What is taken may be more than it holds: then the next
/// request waits until the debt is paid, so that the rate holds for requests of any size.
#[derive(Clone, Debug)]
struct Bucket {
    rate: f64,
    most: f64,
    held: f64,
    at: Nanos,
}

impl Bucket {
    fn new(rate: f64, most: f64) -> Bucket {
        Bucket { rate, most, held: most, at: 0 }
    }

    /// Add what was gained until `now` with `share` of the rate.
    fn advance(&mut self, now: Nanos, share: f64) {
        let gained = now.saturating_sub(self.at) as f64 / 1e9 * self.rate * share;
        self.held = (self.held + gained).min(self.most);
        self.at = self.at.max(now);
    }

    /// From when on there is no debt.
    fn free(&self, share: f64) -> Nanos {
        match self.held >= 0.0 {
            true => 0,
            // What no rate pays, nothing pays.
            false if self.rate * share <= 0.0 => Nanos::MAX,
            false => self.at.saturating_add((-self.held / (self.rate * share) * 1e9).ceil() as Nanos),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Read,
    Write,
}

/// One limit: an average and perhaps a burst, of reads, of writes or of both.
#[derive(Clone, Debug)]
struct Limit {
    way: Option<Way>,
    bytes: bool,
    /// The average; with a burst also the burst's own rate.
    buckets: Vec<Bucket>,
}

/// All limits of a volume.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    limits: Vec<Limit>,
    /// A larger request counts as several I/Os of this size, in bytes; 0: as one.
    pub split: u64,
    /// The share of all rates that is in force, and when it changes.
    share: f64,
    until: Nanos,
}

impl Limits {
    pub fn new(split: u64) -> Limits {
        Limits { limits: Vec::new(), split, share: 1.0, until: 0 }
    }

    /// Add a limit; `burst` is a rate, and the seconds that it lasts from a full bucket that nothing refills.
    pub fn add(&mut self, way: Option<Way>, bytes: bool, rate: f64, burst: Option<(f64, f64)>) {
        let buckets = match burst {
            Some((peak, seconds)) => vec![Bucket::new(rate, peak * seconds), Bucket::new(peak, peak * SLACK)],
            None => vec![Bucket::new(rate, rate * SLACK)],
        };
        self.limits.push(Limit { way, bytes, buckets });
    }

    pub fn share(&self) -> f64 {
        self.share
    }

    /// When the share has to be looked at again.
    pub fn until(&self) -> Nanos {
        self.until
    }

    pub fn keep(&mut self, until: Nanos) {
        self.until = until;
    }

    /// When a request of this direction may start; in the past, or 0, for at once.
    pub fn start(&self, way: Way) -> Nanos {
        let mine = self.limits.iter().filter(|limit| limit.way.is_none_or(|each| each == way));
        let free = mine.flat_map(|limit| &limit.buckets).map(|bucket| bucket.free(self.share));
        free.max().unwrap_or(0)
    }

    /// I/Os that one request counts as.
    pub fn count(&self, bytes: u64) -> u64 {
        match self.split {
            0 => 1,
            split => bytes.div_ceil(split).max(1),
        }
    }

    /// Take a request's tokens at the time when it starts.
    pub fn take(&mut self, way: Way, now: Nanos, count: u64, bytes: u64) {
        let share = self.share;
        for limit in self.limits.iter_mut().filter(|limit| limit.way.is_none_or(|each| each == way)) {
            for bucket in &mut limit.buckets {
                bucket.advance(now, share);
                bucket.held -= if limit.bytes { bytes as f64 } else { count as f64 };
            }
        }
    }

    /// Full buckets.
    pub fn refill(&mut self, now: Nanos) {
        for bucket in self.limits.iter_mut().flat_map(|limit| &mut limit.buckets) {
            bucket.held = bucket.most;
            bucket.at = now;
        }
    }

    /// From `now` on only this share of all rates is in force.
    pub fn scale(&mut self, now: Nanos, share: f64) {
        for bucket in self.limits.iter_mut().flat_map(|limit| &mut limit.buckets) {
            bucket.advance(now, self.share);
            // What was saved up before would hide the fall; a burst's own tokens stay.
            if share < self.share {
                bucket.held =
                    bucket.held.min((bucket.rate * SLACK * share).max(bucket.most - bucket.rate * SLACK));
            }
        }
        self.share = share;
    }

    /// Tokens in the bucket of the first limit with a burst.
    pub fn burst_left(&mut self, now: Nanos) -> Option<f64> {
        let share = self.share;
        let limit = self.limits.iter_mut().find(|limit| limit.buckets.len() > 1)?;
        limit.buckets[0].advance(now, share);
        Some(limit.buckets[0].held)
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
