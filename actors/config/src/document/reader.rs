//! Reads the types of values: mappings, lists, texts, counts, booleans. Reports a value of the
//! wrong type with its location, so that no other module depends on how the tree is built.

use super::keys::{Key, TEXTS, WEIGHTS};
use super::{Field, Located, Names, Texts};
use crate::closest;
use crate::error::{Location, Report};
use crate::scalars;
use crate::yaml::{self, At, Node, Value};

/// A value and the path of keys to it.
pub(super) struct Cursor<'n> {
    pub(super) node: &'n Node,
    pub(super) path: String,
}

impl Cursor<'_> {
    pub(super) fn place(&self) -> Location {
        self.node.at.place(&self.path)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Scalar { is_null: true, .. })
    }

    /// Describes the value for a message that another type was expected.
    fn kind(&self) -> String {
        match &self.node.value {
            Value::Scalar { text, .. } => format!("`{text}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

pub(super) struct Reader<'r> {
    pub(super) report: &'r mut Report,
}

impl Reader<'_> {
    /// Returns the known keys of a mapping with their values, and reports every other key.
    pub(super) fn fields<'n, K: Key>(&mut self, at: &Cursor<'n>) -> Vec<(K, Cursor<'n>)> {
        let mut fields = Vec::new();
        for (name, key_at, value) in entries(at) {
            if let Some((_, key)) = K::KNOWN.iter().find(|(known, _)| *known == name) {
                fields.push((*key, value));
                continue;
            }
            let known = K::KNOWN.iter().map(|(known, _)| *known);
            let instead = match closest(name, known.clone()) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("known are: {}", known.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown key `{name}` of {}; {instead}", K::OF);
            self.report.error("E_CONF_PARSE", &key_at.place(&value.path), message);
        }
        fields
    }

    /// Whether the value is a mapping or null. Anything else is reported as a wrong `of`.
    pub(super) fn is_mapping(&mut self, at: &Cursor<'_>, of: &str) -> bool {
        let is_mapping = matches!(at.node.value, Value::Map(_)) || at.is_null();
        if !is_mapping {
            let message = format!("{of} has to be a mapping with keys, not {}", at.kind());
            self.wrong(at, message);
        }
        is_mapping
    }

    /// Reads a list of mappings.
    pub(super) fn list<T>(
        &mut self,
        at: &Cursor<'_>,
        of: &str,
        each: impl Fn(&mut Self, &Cursor<'_>) -> T,
    ) -> Field<Vec<T>> {
        let Some(items) = self.items(at) else {
            return if at.is_null() { Field::Absent } else { Field::Bad };
        };
        let mut list = Vec::with_capacity(items.len());
        for at in &items {
            if self.is_mapping(at, of) {
                list.push(each(self, at));
            }
        }
        if list.is_empty() && !items.is_empty() {
            return Field::Bad;
        }
        Field::Given(Located { value: list, place: at.place() })
    }

    /// Reads a list of texts; a null item is an empty text.
    pub(super) fn names(&mut self, at: &Cursor<'_>) -> Names {
        let Some(items) = self.items(at) else {
            return if at.is_null() { Field::Absent } else { Field::Bad };
        };
        let mut names = Vec::with_capacity(items.len());
        let mut all_read = true;
        for at in &items {
            match self.text(at) {
                Field::Given(name) => names.push(name),
                Field::Absent | Field::Bad => all_read = false,
            }
        }
        if !all_read {
            return Field::Bad;
        }
        Field::Given(Located { value: names, place: at.place() })
    }

    /// Returns the items of a list. `None` if the value is null or, which is reported, something
    /// else.
    fn items<'n>(&mut self, at: &Cursor<'n>) -> Option<Vec<Cursor<'n>>> {
        let Value::List(items) = &at.node.value else {
            if !at.is_null() {
                self.wrong(at, format!("expected a list, not {}", at.kind()));
            }
            return None;
        };
        let at_number = |(number, node): (usize, &'n std::rc::Rc<Node>)| Cursor {
            node,
            path: format!("{}[{number}]", at.path),
        };
        Some(items.iter().enumerate().map(at_number).collect())
    }

    pub(super) fn text(&mut self, at: &Cursor<'_>) -> Field<String> {
        let Value::Scalar { text, .. } = &at.node.value else {
            self.wrong(at, format!("expected a text, not {}", at.kind()));
            return Field::Bad;
        };
        Field::Given(Located { value: text.clone(), place: at.place() })
    }

    pub(super) fn texts(&mut self, at: &Cursor<'_>) -> Field<Texts> {
        if at.is_null() {
            return Field::Absent;
        }
        if !self.is_mapping(at, TEXTS) {
            return Field::Bad;
        }
        let mut texts = Vec::new();
        let mut all_read = true;
        for (key, _, value) in entries(at) {
            match self.text(&value) {
                Field::Given(text) => texts.push((key.to_owned(), text)),
                Field::Absent | Field::Bad => all_read = false,
            }
        }
        if all_read {
            Field::Given(Located { value: texts, place: at.place() })
        } else {
            Field::Bad
        }
    }

    pub(super) fn weights(&mut self, at: &Cursor<'_>) -> Vec<(String, Located<f64>)> {
        let mut weights = Vec::new();
        if !self.is_mapping(at, WEIGHTS) {
            return weights;
        }
        for (key, _, value) in entries(at) {
            let weight = match &value.node.value {
                Value::Scalar { text, .. } => text.parse().ok().filter(|w: &f64| w.is_finite()),
                _ => None,
            };
            let Some(weight) = weight else {
                let message = format!("the weight of `{key}` is a number, not {}", value.kind());
                self.wrong(&value, message);
                continue;
            };
            weights.push((key.to_owned(), Located { value: weight, place: value.place() }));
        }
        weights
    }

    /// Reads a whole number of 0 or more.
    pub(super) fn count(&mut self, at: &Cursor<'_>) -> Field<u64> {
        if at.is_null() {
            return Field::Absent;
        }
        if let Value::Scalar { text, .. } = &at.node.value
            && let Some(value) = scalars::unsigned(text)
        {
            if text.parse().is_ok_and(|decimal: u64| decimal != value) {
                let message = format!(
                    "`{text}` begins with a zero and is read as octal, {value}; write it without"
                );
                self.report.warn(&at.place(), message);
            }
            return Field::Given(Located { value, place: at.place() });
        }
        let message =
            format!("expected a whole number between 0 and {}, not {}", u64::MAX, at.kind());
        self.wrong(at, message);
        Field::Bad
    }

    /// Reads a boolean.
    pub(super) fn truth(&mut self, at: &Cursor<'_>) -> Field<bool> {
        let value = match &at.node.value {
            Value::Scalar { is_null: true, .. } => return Field::Absent,
            Value::Scalar { text, .. } => scalars::truth(text),
            Value::List(_) | Value::Map(_) => None,
        };
        let Some(value) = value else {
            self.wrong(at, format!("expected `true` or `false`, not {}", at.kind()));
            return Field::Bad;
        };
        Field::Given(Located { value, place: at.place() })
    }

    fn wrong(&mut self, at: &Cursor<'_>, message: String) {
        self.report.error("E_CONF_PARSE", &at.place(), message);
    }
}

/// Returns all keys of a mapping with their locations and values; none if the value is not a
/// mapping.
fn entries<'n>(at: &Cursor<'n>) -> Vec<(&'n str, At, Cursor<'n>)> {
    let Value::Map(entries) = &at.node.value else { return Vec::new() };
    entries
        .iter()
        .map(|entry| {
            let path = yaml::join(&at.path, &entry.key);
            (&*entry.key, entry.key_at, Cursor { node: &entry.value, path })
        })
        .collect()
}
