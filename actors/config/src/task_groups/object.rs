//! Reads JSON objects whose keys must all be known and unique.

use std::fmt;

use monoceros_rules::values::names::shown;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A JSON value in which no object has a key twice.
pub(super) struct Unique(pub(super) Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, _>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key `{}` is there twice", shown(&key))));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// An object and its keys that were not read yet.
pub(super) struct Object {
    path: String,
    keys: Map<String, Value>,
}

impl Object {
    /// Takes the object at a path; the path is empty at the top.
    pub(super) fn of(value: Value, path: &str) -> Result<Self, String> {
        match value {
            Value::Object(keys) => Ok(Self { path: path.to_owned(), keys }),
            _ if path.is_empty() => Err("is not an object".to_owned()),
            _ => Err(format!("`{path}` is not an object")),
        }
    }

    /// Reads the value of a key, given its path; `None` where it is missing or null.
    pub(super) fn read<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Value, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let value = self.keys.remove(key).filter(|value| !value.is_null());
        value.map(|value| read(value, &self.below(key))).transpose()
    }

    /// Returns all keys with their values, known or not.
    pub(super) fn entries(self) -> impl Iterator<Item = (String, Value)> {
        self.keys.into_iter()
    }

    /// Checks that every key was read.
    pub(super) fn done(self) -> Result<(), String> {
        match self.keys.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("key `{}` is not known", self.below(&shown(key)))),
        }
    }

    fn below(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// Reads a text.
pub(super) fn text(value: Value, path: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("`{path}` is not a text")),
    }
}

/// Reads a list; `each` reads an item, given its path.
pub(super) fn list<T>(
    value: Value,
    path: &str,
    read: impl Fn(Value, &str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let Value::Array(items) = value else { return Err(format!("`{path}` is not a list")) };
    let items = items.into_iter().enumerate();
    items.map(|(at, item)| read(item, &format!("{path}[{at}]"))).collect()
}
