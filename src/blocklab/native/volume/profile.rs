//! A volume's profile as JSON: times in seconds, sizes in bytes, 0 or nothing for no limit.

use crate::clock::Nanos;
use crate::json::Value;
use crate::latency::{Degrade, Latency, Spells};
use crate::limits::{Limits, Way};

const FIELDS: [&str; 18] = [
    "read_latency",
    "write_latency",
    "read_quantiles",
    "write_quantiles",
    "read_latency_per_mib",
    "write_latency_per_mib",
    "iops",
    "burst_iops",
    "burst_seconds",
    "bandwidth",
    "read_iops",
    "write_iops",
    "read_bandwidth",
    "write_bandwidth",
    "split",
    "slow",
    "degrade",
    "seed",
];

pub struct Profile {
    /// Of reads and of writes.
    pub latency: [Latency; 2],
    pub limits: Limits,
    pub spells: Option<Spells>,
    pub degrade: Option<Degrade>,
    pub seed: u64,
}

fn number(from: &Value, name: &str) -> Result<f64, String> {
    let found = from.get(name).map_or(Ok(0.0), Value::number).map_err(|error| format!("{name}: {error}"))?;
    match found >= 0.0 {
        true => Ok(found),
        false => Err(format!("{name}: {found} is below 0")),
    }
}

fn latency(from: &Value, way: &str) -> Result<Latency, String> {
    let per_mib = number(from, &format!("{way}_latency_per_mib"))?;
    let Some(table) = from.get(&format!("{way}_quantiles")) else {
        return Ok(Latency::constant(number(from, &format!("{way}_latency"))?, per_mib));
    };
    let mut points = Vec::new();
    for pair in table.list()? {
        let [quantile, seconds] = pair.list()? else { return Err(format!("{pair} is no pair")) };
        points.push((quantile.number()?, seconds.number()?));
    }
    Latency::table(&points, per_mib)
}

/// `for` and `every` of a map, in nanoseconds.
fn times(from: &Value) -> Result<(f64, f64), String> {
    let (lasts, every) = (number(from, "for")? * 1e9, number(from, "every")? * 1e9);
    match 0.0 < lasts && lasts < every {
        true => Ok((lasts, every)),
        false => Err("for: must be above 0 and less than every".into()),
    }
}

impl Profile {
    pub fn parse(from: &Value) -> Result<Profile, String> {
        from.only(&FIELDS)?;
        let mut limits = Limits::new(number(from, "split")? as u64);
        let peak = (number(from, "burst_iops")?, number(from, "burst_seconds")?);
        for (prefix, way) in [("", None), ("read_", Some(Way::Read)), ("write_", Some(Way::Write))] {
            let iops = number(from, &format!("{prefix}iops"))?;
            if iops > 0.0 {
                limits.add(
                    way,
                    false,
                    iops,
                    (way.is_none() && peak.0 > iops && peak.1 > 0.0).then_some(peak),
                );
            }
            let bandwidth = number(from, &format!("{prefix}bandwidth"))?;
            if bandwidth > 0.0 {
                limits.add(way, true, bandwidth, None);
            }
        }
        let mut spells = None;
        if let Some(slow) = from.get("slow") {
            slow.only(&["times", "for", "every"])?;
            let (lasts, every) = times(slow).map_err(|error| format!("slow: {error}"))?;
            spells = Some(Spells {
                dwell: [every - lasts, lasts],
                times: number(slow, "times")?,
                slow: false,
                until: 0,
            });
        }
        let mut degrade = None;
        if let Some(found) = from.get("degrade") {
            found.only(&["to", "for", "every"])?;
            let (lasts, every) = times(found).map_err(|error| format!("degrade: {error}"))?;
            degrade = Some(Degrade {
                to: number(found, "to")?,
                lasts: lasts as Nanos,
                every: every as Nanos,
                start: 0,
            });
        }
        Ok(Profile {
            latency: [latency(from, "read")?, latency(from, "write")?],
            limits,
            spells,
            degrade,
            seed: number(from, "seed")? as u64,
        })
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
