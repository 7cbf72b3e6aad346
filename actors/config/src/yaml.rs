//! Reads YAML text into a tree of values, each with its location.
//!
//! The tree is built by hand from the parser's events for three reasons: scalars keep their written
//! text (`1e3` is not a number here), every value knows its line and column, and hostile input is
//! rejected while it is read. Merge keys (`<<`) are resolved here and do not appear in the tree. A
//! tag of YAML itself (`!!str`) may state the type of its value; every other tag is rejected by
//! name.
//!
//! # Invariants
//! * No tree is deeper than [`MAX_DEPTH`], aliases followed; recursion over it is safe.
//! * A text spells out at most [`MAX_VALUES`] values in [`LONGEST_TEXT`] bytes, which bounds the
//!   time and memory to read and check it.
//! * Aliases and merge keys add at most [`MAX_ALIASED`] values to what the text spells out.
//! * No key occurs twice in one mapping. On a merge, the mapping's own entry wins, then the entry
//!   of the first merged mapping.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::error::{Location, Report};
use super::scalars;

/// Deepest nesting of values; a level of queues takes two.
const MAX_DEPTH: usize = 128;

/// Most values that all aliases and merge keys together may repeat.
const MAX_ALIASED: usize = 100_000;

/// Longest text in bytes.
const LONGEST_TEXT: usize = 8 << 20;

/// Most values that a text may spell out, counting those of lists and mappings and their keys.
/// Twenty-five thousand queues with quotas, guarantees and limits need as many.
const MAX_VALUES: usize = 500_000;

/// Bytes of text that count as one value when they are repeated.
const TEXT: usize = 64;

/// Tags that a value may have.
const TAGS: [&str; 7] = ["str", "int", "bool", "float", "null", "map", "seq"];

/// Characters of a key that are shown in a path; the rest is cut.
const LONGEST_KEY: usize = 200;

/// Position of the first character of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
    /// Number of values in this one, itself included, aliases followed. Every [`TEXT`] bytes of
    /// text count as one more.
    size: usize,
    /// Number of levels of this value, itself included, aliases followed.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    /// The text as written, with quotes and escapes resolved. A plain null is an empty text.
    Scalar {
        text: String,
        is_null: bool,
        /// Whether this is a plain `<<`: used as a key, it merges the mappings of its value.
        is_merge: bool,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

impl Value {
    /// Returns the value in JSON; each scalar is a text as written, or null.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Scalar { is_null: true, .. } => serde_json::Value::Null,
            Self::Scalar { text, .. } => text.clone().into(),
            Self::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Self::Map(entries) => {
                let entries = entries.iter();
                entries.map(|entry| (entry.key.clone(), entry.value.value.to_json())).collect()
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: At,
    pub(super) value: Rc<Node>,
}

impl At {
    fn of(span: &Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }

    pub(super) fn place(self, path: &str) -> Location {
        Location { line: self.line, column: self.column, path: path.to_owned() }
    }
}

/// Returns `parent.key`. The key is quoted if it would be ambiguous otherwise.
pub(super) fn join(parent: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c));
    let shown = match key.char_indices().nth(LONGEST_KEY) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    };
    let key = if is_plain { shown } else { format!("{shown:?}") };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The text could not be read to its end; the reason is in the report.
pub(super) struct Unreadable;

/// Reads the first document of `text`. `None` if there is no document.
pub(super) fn load(text: &str, report: &mut Report) -> Result<Option<Rc<Node>>, Unreadable> {
    let mut loader = Loader { report, open: Vec::new(), anchors: HashMap::new(), aliased: 0 };
    loader.run(text).map_err(|Broken { at, message }| {
        let place = at.place(&loader.path());
        loader.report.error("E_CONF_PARSE", &place, message);
        Unreadable
    })
}

/// An error after which the rest of the text cannot be read.
struct Broken {
    at: At,
    message: String,
}

impl From<ScanError> for Broken {
    fn from(error: ScanError) -> Self {
        let at = At { line: error.marker().line(), column: error.marker().col() + 1 };
        Self { at, message: format!("not valid YAML: {}", error.info()) }
    }
}

/// A list or mapping whose end was not read yet.
struct Open {
    at: At,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    first_seen: HashMap<String, usize>,
    /// The key whose value is read next.
    key: Option<Key>,
    /// Mappings whose entries are added at the end, in order of precedence.
    merged: Vec<Rc<Node>>,
}

struct Key {
    name: String,
    at: At,
    is_merge: bool,
}

struct Loader<'r> {
    report: &'r mut Report,
    open: Vec<Open>,
    /// Value of each anchor, once that value is complete.
    anchors: HashMap<usize, Rc<Node>>,
    aliased: usize,
}

impl Loader<'_> {
    fn run(&mut self, text: &str) -> Result<Option<Rc<Node>>, Broken> {
        if text.len() > LONGEST_TEXT {
            let message =
                format!("a text has at most {LONGEST_TEXT} bytes; this one has {}", text.len());
            return Err(Broken { at: At { line: 1, column: 1 }, message });
        }
        let mut parser = Parser::new_from_str(text);
        let mut root = None;
        let mut n_values = 0;
        while let Some(event) = parser.next_event() {
            let (event, span) = event?;
            let at = At::of(&span);
            n_values += usize::from(!matches!(event, Event::SequenceEnd | Event::MappingEnd));
            if n_values > MAX_VALUES {
                let message = format!("a text has at most {MAX_VALUES} values");
                return Err(Broken { at, message });
            }
            let complete = match event {
                Event::DocumentEnd => break,
                Event::Nothing
                | Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(_) => None,
                Event::Scalar(text, style, anchor, tag) => {
                    Some((self.scalar(at, &text, style, tag.as_deref()), anchor))
                }
                Event::Alias(anchor) => Some((self.follow(at, anchor)?, 0)),
                Event::SequenceStart(anchor, tag) => {
                    self.check_tag(at, tag.as_deref(), "a list", |tag| tag == "seq");
                    self.open(Open { at, anchor, content: Content::List(Vec::new()) })?;
                    None
                }
                Event::MappingStart(anchor, tag) => {
                    self.check_tag(at, tag.as_deref(), "a mapping", |tag| tag == "map");
                    self.open(Open { at, anchor, content: Content::Map(OpenMap::default()) })?;
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    self.merge()?;
                    self.open.pop().map(close)
                }
            };
            if let Some((node, anchor)) = complete {
                if anchor != 0 {
                    self.anchors.insert(anchor, Rc::clone(&node));
                }
                if self.open.is_empty() {
                    root = Some(node);
                } else {
                    self.put(node)?;
                }
            }
        }
        if let Some((Event::DocumentStart(_), span)) = parser.next_event().transpose()? {
            let message = "only the first document is read; what begins here is left out";
            self.report.warn(&At::of(&span).place(""), message);
        }
        Ok(root)
    }

    fn open(&mut self, open: Open) -> Result<(), Broken> {
        if self.open.len() == MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep");
            return Err(Broken { at: open.at, message });
        }
        self.open.push(open);
        Ok(())
    }

    /// Returns the value of an alias.
    fn follow(&mut self, at: At, anchor: usize) -> Result<Rc<Node>, Broken> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(Broken { at, message: "an alias within the value it stands for".into() });
        };
        self.aliased += node.size;
        if self.aliased > MAX_ALIASED {
            let message = format!("aliases repeat more than {MAX_ALIASED} values");
            return Err(Broken { at, message });
        }
        if self.open.len() + node.height > MAX_DEPTH {
            let message = format!("nested more than {MAX_DEPTH} levels deep by this alias");
            return Err(Broken { at, message });
        }
        Ok(Rc::clone(node))
    }

    fn scalar(&mut self, at: At, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Rc<Node> {
        let is_plain = style == ScalarStyle::Plain && tag.is_none();
        let is_so = |tag: &str| match tag {
            "str" => true,
            "null" => scalars::is_null(text),
            "bool" => scalars::truth(text).is_some(),
            "int" => scalars::is_integer(text),
            "float" => scalars::is_number(text),
            _ => false,
        };
        self.check_tag(at, tag, &format!("`{text}`"), is_so);
        let is_null = match tag {
            None => is_plain && scalars::is_null(text),
            Some(tag) => of_yaml(tag) == Some("null"),
        };
        let text = if is_null { String::new() } else { text.to_owned() };
        let is_merge = is_plain && text == "<<";
        let size = 1 + text.len() / TEXT;
        Rc::new(Node { at, value: Value::Scalar { text, is_null, is_merge }, size, height: 1 })
    }

    /// Reports a tag that contradicts its value, called `what`, or that has no meaning here.
    fn check_tag(&mut self, at: At, tag: Option<&Tag>, what: &str, is_so: impl Fn(&str) -> bool) {
        let Some(tag) = tag else { return };
        let message = match of_yaml(tag) {
            Some(known) if is_so(known) => return,
            Some(known) if TAGS.contains(&known) => {
                format!("{what} is not what the tag `!!{known}` says; remove the tag")
            }
            _ => format!("the tag `{}` has no meaning here; remove it", shown(tag)),
        };
        self.report.error("E_CONF_PARSE", &at.place(&self.path()), message);
    }

    /// Adds a complete value to the innermost open list or mapping, there as key or value.
    fn put(&mut self, node: Rc<Node>) -> Result<(), Broken> {
        let map = match self.open.last_mut().map(|open| &mut open.content) {
            None => return Ok(()),
            Some(Content::List(items)) => {
                items.push(node);
                return Ok(());
            }
            Some(Content::Map(map)) => map,
        };
        let Some(Key { name, at: key_at, is_merge }) = map.key.take() else {
            let Value::Scalar { text, is_merge, .. } = &node.value else {
                return Err(Broken { at: node.at, message: "a key has to be a plain text".into() });
            };
            map.key = Some(Key { name: text.clone(), at: node.at, is_merge: *is_merge });
            return Ok(());
        };
        let fault = if let Some(line) = map.first_seen.get(&name) {
            format!("the key `{name}` is here twice, first on line {line}")
        } else {
            map.first_seen.insert(name.clone(), key_at.line);
            if !is_merge {
                map.entries.push(Entry { key: name, key_at, value: node });
                return Ok(());
            }
            match mappings(node) {
                Some(mappings) => {
                    map.merged = mappings;
                    return Ok(());
                }
                None => "`<<` takes a mapping or a list of them, or aliases of such".to_owned(),
            }
        };
        let place = key_at.place(&join(&self.path(), &name));
        self.report.error("E_CONF_PARSE", &place, fault);
        Ok(())
    }

    /// Adds the merged entries to the innermost mapping.
    fn merge(&mut self) -> Result<(), Broken> {
        let Some(Open { at, content: Content::Map(map), .. }) = self.open.last_mut() else {
            return Ok(());
        };
        for merged in std::mem::take(&mut map.merged) {
            let Value::Map(entries) = &merged.value else { continue };
            self.aliased += entries.iter().map(|entry| 1 + entry.key.len() / TEXT).sum::<usize>();
            if self.aliased > MAX_ALIASED {
                let message = format!("merge keys repeat more than {MAX_ALIASED} values");
                return Err(Broken { at: *at, message });
            }
            for entry in entries {
                if !map.first_seen.contains_key(&entry.key) {
                    map.first_seen.insert(entry.key.clone(), entry.key_at.line);
                    map.entries.push(entry.clone());
                }
            }
        }
        Ok(())
    }

    /// Path of keys to the value that is being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| open.extend(&path))
    }
}

impl Open {
    /// Appends the key or number of the value being read to `path`.
    fn extend(&self, path: &str) -> String {
        match &self.content {
            Content::List(items) => format!("{path}[{}]", items.len()),
            Content::Map(OpenMap { key: Some(key), .. }) => join(path, &key.name),
            Content::Map(OpenMap { key: None, .. }) => path.to_owned(),
        }
    }
}

/// Name of a tag of YAML itself, without the common prefix.
fn of_yaml(tag: &Tag) -> Option<&str> {
    const PREFIX: &str = "tag:yaml.org,2002:";
    match &*tag.handle {
        PREFIX => Some(&tag.suffix),
        // The long form: `!<tag:yaml.org,2002:str>`.
        "" => tag.suffix.strip_prefix(PREFIX),
        _ => None,
    }
}

/// Formats a tag as it may have been written.
fn shown(tag: &Tag) -> String {
    match (of_yaml(tag), &*tag.handle, &*tag.suffix) {
        (Some(name), ..) => format!("!!{name}"),
        (None, "", "!") => "!".to_owned(),
        (None, "!", name) => format!("!{name}"),
        (None, prefix, rest) => format!("!<{prefix}{rest}>"),
    }
}

/// Returns the mappings that a merge key refers to; `None` if its value is something else.
fn mappings(node: Rc<Node>) -> Option<Vec<Rc<Node>>> {
    let is_map = |node: &Rc<Node>| matches!(node.value, Value::Map(_));
    match &node.value {
        Value::Map(_) => Some(vec![node]),
        Value::List(items) => items.iter().all(is_map).then(|| items.clone()),
        Value::Scalar { .. } => None,
    }
}

fn close(open: Open) -> (Rc<Node>, usize) {
    let value = match open.content {
        Content::List(items) => Value::List(items),
        Content::Map(OpenMap { entries, .. }) => Value::Map(entries),
    };
    let (mut size, mut height) = (1, 1);
    let mut hold = |key: &str, child: &Node| {
        size += key.len() / TEXT + child.size;
        height = height.max(1 + child.height);
    };
    match &value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter().for_each(|item| hold("", item)),
        Value::Map(entries) => entries.iter().for_each(|entry| hold(&entry.key, &entry.value)),
    }
    (Rc::new(Node { at: open.at, value, size, height }), open.anchor)
}
