//! Tests of `profile.rs`, which the image's build leaves out.

use super::*;

#[test]
fn a_whole_profile_is_read_and_a_misspelt_one_is_not() {
    let text = r#"{"read_latency": 0.001, "write_quantiles": [[0.5, 0.0005], [0.99, 0.003]], "iops": 100,
        "burst_iops": 3000, "burst_seconds": 1800, "read_bandwidth": 1e6, "split": 262144, "seed": 7,
        "slow": {"times": 8, "for": 2, "every": 60}, "degrade": {"to": 0.1, "for": 300, "every": 7200}}"#;
    let profile = Profile::parse(&Value::parse(text).unwrap()).unwrap();
    assert_eq!(profile.latency[0].at(0.9, 0).round(), 1e6);
    assert_eq!(profile.latency[1].at(0.1, 0).round(), 5e5);
    assert_eq!(profile.spells.unwrap().dwell, [58e9, 2e9]);
    assert_eq!(profile.degrade.unwrap().every, 7200 * 1_000_000_000);
    let mut limits = profile.limits;
    assert_eq!(limits.burst_left(0), Some(5_400_000.0));
    for bad in [
        r#"{"iopss": 1}"#,
        r#"{"iops": -1}"#,
        r#"{"iops": "many"}"#,
        r#"{"slow": {"times": 2, "for": 5, "every": 5}}"#,
        r#"{"read_quantiles": [[0.5]]}"#,
        "[]",
    ] {
        assert!(Profile::parse(&Value::parse(bad).unwrap()).is_err(), "{bad}");
    }
}
