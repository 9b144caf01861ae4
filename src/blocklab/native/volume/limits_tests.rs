//! Tests of `limits.rs`, which the image's build leaves out.

use super::*;

/// Requests that are always waiting: how many start in each second.
fn run(limits: &mut Limits, way: Way, bytes: u64, seconds: u64) -> Vec<u64> {
    let mut found = vec![0; seconds as usize];
    let mut now = 0;
    loop {
        now = limits.start(way).max(now);
        if now >= seconds * 1_000_000_000 {
            return found;
        }
        limits.take(way, now, limits.count(bytes), bytes);
        found[(now / 1_000_000_000) as usize] += 1;
    }
}

#[test]
fn a_cap_holds_to_the_last_io() {
    let mut limits = Limits::new(0);
    limits.add(None, false, 3000.0, None);
    let found = run(&mut limits, Way::Write, 4096, 10);
    assert!((3300..=3301).contains(&found[0]), "{found:?}");
    assert!(found[1..].iter().all(|each| (2999..=3001).contains(each)), "{found:?}");
}

#[test]
fn a_burst_lasts_as_long_as_its_bucket() {
    // 1000 a second with 3000 for 5 s: 15000 tokens last 15000 / 2000 = 7.5 s.
    let mut limits = Limits::new(0);
    limits.add(None, false, 1000.0, Some((3000.0, 5.0)));
    let found = run(&mut limits, Way::Read, 4096, 12);
    assert!(found[1..7].iter().all(|each| (2999..=3001).contains(each)), "{found:?}");
    assert!(found[9..].iter().all(|each| (999..=1001).contains(each)), "{found:?}");
    let total: u64 = found.iter().sum();
    assert!((26_990..=27_010).contains(&total), "{total}");
    limits.refill(12_000_000_000);
    assert_eq!(limits.burst_left(12_000_000_000), Some(15_000.0));
}

#[test]
fn large_requests_count_as_several_and_bytes_are_capped_too() {
    let mut limits = Limits::new(256 << 10);
    assert_eq!(
        [0, 4096, 256 << 10, (256 << 10) + 1, 1 << 20].map(|each| limits.count(each)),
        [1, 1, 1, 2, 4]
    );
    limits.add(None, false, 1000.0, None);
    assert!((249..=251).contains(&run(&mut limits, Way::Write, 1 << 20, 3)[2]));
    let mut limits = Limits::new(0);
    limits.add(Some(Way::Write), true, 100e6, None);
    assert!((99..=101).contains(&run(&mut limits, Way::Write, 1_000_000, 3)[2]));
    assert_eq!(limits.start(Way::Read), 0);
}

#[test]
fn a_share_is_in_force_at_once_and_no_longer_than_it_lasts() {
    let mut limits = Limits::new(0);
    limits.add(None, false, 1000.0, None);
    run(&mut limits, Way::Write, 4096, 1);
    limits.scale(1_000_000_000, 0.1);
    limits.take(Way::Write, 1_000_000_000, 100, 0);
    let wait = limits.start(Way::Write) - 1_000_000_000;
    assert!((980_000_000..1_020_000_000).contains(&wait), "{wait}");
    limits.scale(1_500_000_000, 1.0);
    let wait = limits.start(Way::Write) - 1_500_000_000;
    assert!((40_000_000..60_000_000).contains(&wait), "{wait}");
}
