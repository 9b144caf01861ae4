//! Tests of `json.rs`, which the image's build leaves out.

use super::*;

#[test]
fn what_is_printed_is_parsed() {
    let text = r#"{"a": [1, -2.5, 1e-4, true, null], "b\"": "é\n\ud83d\ude00 \\"}"#;
    let value = Value::parse(text).unwrap();
    assert_eq!(value.get("b\"").unwrap().text().unwrap(), "é\n😀 \\");
    assert_eq!(Value::parse(&value.to_string()).unwrap(), value);
}

#[test]
fn nonsense_is_refused() {
    for text in ["", "{", "[1,", "[1 2]", "{\"a\" 1}", "\"", "\"\\u12", "nul", "1 2", "--1", "\"\\ud800\""] {
        assert!(Value::parse(text).is_err(), "{text}");
    }
    assert!(Value::parse(&"[".repeat(1000)).is_err());
}
