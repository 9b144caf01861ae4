//! JSON, as little of it as the configuration and the control socket need.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// Parse one whole text.
    pub fn parse(text: &str) -> Result<Value, String> {
        let mut parser = Parser { text: text.as_bytes(), at: 0 };
        let value = parser.value(0)?;
        parser.blanks();
        match parser.at == parser.text.len() {
            true => Ok(value),
            false => Err(parser.error("the end")),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Map(map) => map.get(name).filter(|value| **value != Value::Null),
            _ => None,
        }
    }

    pub fn number(&self) -> Result<f64, String> {
        match self {
            Value::Number(number) if number.is_finite() => Ok(*number),
            other => Err(format!("{other} is no number")),
        }
    }

    pub fn text(&self) -> Result<&str, String> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(format!("{other} is no text")),
        }
    }

    pub fn truth(&self) -> Result<bool, String> {
        match self {
            Value::Bool(truth) => Ok(*truth),
            other => Err(format!("{other} is neither true nor false")),
        }
    }

    pub fn list(&self) -> Result<&[Value], String> {
        match self {
            Value::List(list) => Ok(list),
            other => Err(format!("{other} is no list")),
        }
    }

    /// The names of a map, which must all be among `known`: a misspelt one would be ignored in silence.
    pub fn only(&self, known: &[&str]) -> Result<(), String> {
        match self {
            Value::Map(map) => match map.keys().find(|name| !known.contains(&name.as_str())) {
                Some(name) => Err(format!("unknown field {name}")),
                None => Ok(()),
            },
            other => Err(format!("{other} is no object")),
        }
    }
}

/// A map of these fields.
pub fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => out.write_str("null"),
            Value::Bool(truth) => write!(out, "{truth}"),
            Value::Number(number) if number.is_finite() => write!(out, "{number}"),
            Value::Number(_) => out.write_str("null"),
            Value::Text(text) => quoted(text, out),
            Value::List(list) => {
                out.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(out, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                out.write_str("]")
            }
            Value::Map(map) => {
                out.write_str("{")?;
                for (index, (name, value)) in map.iter().enumerate() {
                    out.write_str(if index > 0 { ", " } else { "" })?;
                    quoted(name, out)?;
                    write!(out, ": {value}")?;
                }
                out.write_str("}")
            }
        }
    }
}

fn quoted(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("\"")?;
    for each in text.chars() {
        match each {
            '"' | '\\' => write!(out, "\\{each}")?,
            each if (each as u32) < 32 => write!(out, "\\u{:04x}", each as u32)?,
            each => write!(out, "{each}")?,
        }
    }
    out.write_str("\"")
}

/// Nothing that is sent here is nested deeper.
const DEEPEST: usize = 16;

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn error(&self, wanted: &str) -> String {
        format!("JSON: expected {wanted} at byte {}", self.at)
    }

    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(|byte| b" \t\r\n".contains(byte)) {
            self.at += 1;
        }
    }

    fn next(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if self.text[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.error("a value"))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.blanks();
        match self.text.get(self.at) {
            _ if depth > DEEPEST => Err(self.error("less depth")),
            Some(b'n') => self.word("null", Value::Null),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'[') => {
                self.at += 1;
                let mut list = Vec::new();
                if self.next(b']') {
                    return Ok(Value::List(list));
                }
                loop {
                    list.push(self.value(depth + 1)?);
                    if self.next(b']') {
                        return Ok(Value::List(list));
                    }
                    if !self.next(b',') {
                        return Err(self.error(", or ]"));
                    }
                }
            }
            Some(b'{') => {
                self.at += 1;
                let mut map = BTreeMap::new();
                if self.next(b'}') {
                    return Ok(Value::Map(map));
                }
                loop {
                    self.blanks();
                    let name = self.string()?;
                    if !self.next(b':') {
                        return Err(self.error(":"));
                    }
                    map.insert(name, self.value(depth + 1)?);
                    if self.next(b'}') {
                        return Ok(Value::Map(map));
                    }
                    if !self.next(b',') {
                        return Err(self.error(", or }"));
                    }
                }
            }
            _ => {
                let from = self.at;
                while self.text.get(self.at).is_some_and(|byte| b"+-.0123456789eE".contains(byte)) {
                    self.at += 1;
                }
                let digits = std::str::from_utf8(&self.text[from..self.at]).unwrap_or("");
                digits.parse().map(Value::Number).map_err(|_| self.error("a value"))
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if self.text.get(self.at) != Some(&b'"') {
            return Err(self.error("a text"));
        }
        self.at += 1;
        let mut found = Vec::new();
        loop {
            let byte = *self.text.get(self.at).ok_or_else(|| self.error("the end of a text"))?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(found).map_err(|_| self.error("UTF-8")),
                b'\\' => {
                    let escaped = *self.text.get(self.at).ok_or_else(|| self.error("an escape"))?;
                    self.at += 1;
                    let each = match escaped {
                        b'n' => '\n',
                        b't' => '\t',
                        b'r' => '\r',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => self.unicode()?,
                        other => other as char,
                    };
                    found.extend(each.encode_utf8(&mut [0; 4]).bytes());
                }
                other => found.push(other),
            }
        }
    }

    /// The four digits of `\u00e9`; of two in a row where the first is one half of a pair.
    fn unicode(&mut self) -> Result<char, String> {
        let first = self.hex()?;
        let code = if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.hex()?;
            0x10000 + ((first - 0xd800) << 10) + second.wrapping_sub(0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.error("a character"))
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.ok_or_else(|| self.error("four hex digits"))
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
