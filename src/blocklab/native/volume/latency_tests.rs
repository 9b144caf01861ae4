//! Tests of `latency.rs`, which the image's build leaves out.

use super::*;

#[test]
fn a_table_is_found_again_in_its_draws() {
    let latency = Latency::table(&[(0.5, 0.5e-3), (0.99, 3e-3), (0.999, 12e-3)], 0.0).unwrap();
    let mut random = Random::new(7, 1);
    let mut drawn: Vec<f64> = (0..200_000).map(|_| latency.at(random.share(), 0) / 1e9).collect();
    drawn.sort_by(f64::total_cmp);
    for (quantile, wanted) in [(0.25, 0.5e-3), (0.5, 0.5e-3), (0.99, 3e-3), (0.999, 12e-3), (0.9999, 12e-3)] {
        let found = drawn[(quantile * 200_000.0) as usize];
        assert!((found / wanted - 1.0).abs() < 0.04, "{quantile}: {found}");
    }
    // Halfway between two quantiles lies their geometric mean.
    assert!((latency.at(0.745, 0) - (0.5e6_f64 * 3e6).sqrt()).abs() < 1.0);
}

#[test]
fn size_counts_and_bad_tables_are_refused() {
    assert_eq!(Latency::constant(1e-3, 4e-3).at(0.3, 1 << 19).round(), 3e6);
    for bad in [vec![], vec![(0.5, 0.0)], vec![(1.1, 1.0)], vec![(0.5, 2.0), (0.9, 1.0)], vec![(0.5, 1.0); 2]]
    {
        assert!(Latency::table(&bad, 0.0).is_err(), "{bad:?}");
    }
}

#[test]
fn a_seed_gives_the_same_draws_and_another_one_others() {
    let draws = |seed, stream| -> Vec<u64> {
        let mut random = Random::new(seed, stream);
        (0..8).map(|_| random.next()).collect()
    };
    assert_eq!(draws(3, 0), draws(3, 0));
    assert_ne!(draws(3, 0), draws(3, 1));
    assert_ne!(draws(3, 0), draws(4, 0));
}

#[test]
fn slow_spells_take_their_share_of_the_time() {
    let mut random = Random::new(1, 2);
    let mut spells = Spells { dwell: [9e9, 1e9], times: 10.0, slow: false, until: 0 };
    spells.begin(0, &mut random);
    let (mut at, mut slow) = (0, 0);
    for _ in 0..20_000 {
        slow += if spells.slow { spells.until - at } else { 0 };
        at = spells.until;
        spells.change(&mut random);
    }
    let share = slow as f64 / at as f64;
    assert!((0.09..0.11).contains(&share), "{share}");
}

#[test]
fn a_schedule_repeats() {
    let degrade = Degrade { to: 0.1, lasts: 5, every: 20, start: 100 };
    for (now, share, until) in
        [(100, 1.0, 115), (114, 1.0, 115), (115, 0.1, 120), (119, 0.1, 120), (120, 1.0, 135)]
    {
        assert_eq!(degrade.at(now), (share, until), "{now}");
    }
}
