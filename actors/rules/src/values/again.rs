//! The serialized form in tests: a history goes on with what was read.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes a value and reads it again; what was read is written as the same bytes.
pub(crate) fn written_and_read<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}
