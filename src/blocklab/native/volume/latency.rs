//! How long a request takes: a constant or a draw from a quantile table, by direction and size; slow spells.

use crate::clock::Nanos;

/// SplitMix64: small, and the same sequence on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each pair.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut mixed = Random(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        mixed.0 = mixed.next();
        mixed
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1, without 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The latency of one direction. Between two quantiles its logarithm is linear; outside of the table it is constant.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Quantile from 0 to 1, and the logarithm of the nanoseconds there.
    points: Vec<(f64, f64)>,
    constant: f64,
    /// Nanoseconds for each byte of the request, on top.
    per_byte: f64,
}

impl Latency {
    /// A constant, in seconds; `per_mib` in seconds for each MiB.
    pub fn constant(seconds: f64, per_mib: f64) -> Latency {
        Latency { points: Vec::new(), constant: seconds * 1e9, per_byte: per_mib * 1e9 / (1u64 << 20) as f64 }
    }

    /// A table of (quantile, seconds), both ascending.
    pub fn table(table: &[(f64, f64)], per_mib: f64) -> Result<Latency, String> {
        let inside = table.iter().all(|(quantile, seconds)| (0.0..=1.0).contains(quantile) && *seconds > 0.0);
        let ascends = table.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        if table.is_empty() || !inside || !ascends {
            return Err("quantiles: from 0 to 1, with seconds above 0, both ascending".into());
        }
        let points = table.iter().map(|(quantile, seconds)| (*quantile, (seconds * 1e9).ln())).collect();
        Ok(Latency { points, ..Latency::constant(0.0, per_mib) })
    }

    /// What a request of `bytes` takes; `share` is drawn from 0 to 1.
    pub fn at(&self, share: f64, bytes: u64) -> f64 {
        let base = match self.points[..] {
            [] => self.constant,
            [(_, only)] => only.exp(),
            ref points => {
                let after = points.partition_point(|point| point.0 <= share).clamp(1, points.len() - 1);
                let ((from, low), (to, high)) = (points[after - 1], points[after]);
                (low + (high - low) * ((share - from) / (to - from)).clamp(0.0, 1.0)).exp()
            }
        };
        base + bytes as f64 * self.per_byte
    }
}

/// A share of the time that comes at random: dwell times in both states are exponential.
#[derive(Clone, Debug)]
pub struct Spells {
    /// Mean nanoseconds in the normal and in the slow state.
    pub dwell: [f64; 2],
    /// What the latency is multiplied with in the slow state.
    pub times: f64,
    pub slow: bool,
    /// When the state changes.
    pub until: Nanos,
}

impl Spells {
    /// In the normal state at `now`.
    pub fn begin(&mut self, now: Nanos, random: &mut Random) {
        self.slow = false;
        self.until = now + self.stay(random);
    }

    pub fn change(&mut self, random: &mut Random) {
        self.slow = !self.slow;
        self.until += self.stay(random);
    }

    fn stay(&self, random: &mut Random) -> Nanos {
        // At least a microsecond, so that time goes on.
        (-self.dwell[usize::from(self.slow)] * (1.0 - random.share()).ln()).max(1e3) as Nanos
    }
}

/// A schedule: degraded in the last `lasts` nanoseconds of each period.
#[derive(Clone, Debug)]
pub struct Degrade {
    /// The share of the limits that is left.
    pub to: f64,
    pub lasts: Nanos,
    pub every: Nanos,
    pub start: Nanos,
}

impl Degrade {
    /// The share in force at `now`, and until when.
    pub fn at(&self, now: Nanos) -> (f64, Nanos) {
        let passed = now.saturating_sub(self.start) % self.every;
        let fine = self.every - self.lasts;
        match passed < fine {
            true => (1.0, now - passed + fine),
            false => (self.to, now - passed + self.every),
        }
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
