//! Parts of replies.

use redis::Value;

use crate::client::bytes_of;

/// The elements of an array.
pub fn array(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        value => panic!("expected an array, got {value:?}"),
    }
}

/// A string.
pub fn text(value: &Value) -> String {
    let bytes = bytes_of(value).unwrap_or_else(|| panic!("expected a text, got {value:?}"));
    String::from_utf8(bytes).expect("UTF-8")
}

/// The strings of an array, sorted.
pub fn sorted(value: &Value) -> Vec<String> {
    let mut texts: Vec<String> = array(value).iter().map(text).collect();
    texts.sort();
    texts
}

/// The value of a field in a flat array of names and values.
pub fn field<'a>(map: &'a Value, name: &str) -> &'a Value {
    let pairs = array(map).chunks(2);
    let found = pairs.filter_map(|pair| pair.get(1).filter(|_| text(&pair[0]) == name)).next();
    found.unwrap_or_else(|| panic!("no field {name} in {map:?}"))
}

/// An integer.
pub fn int(value: &Value) -> i64 {
    let Value::Int(integer) = value else { panic!("expected an integer, got {value:?}") };
    *integer
}
