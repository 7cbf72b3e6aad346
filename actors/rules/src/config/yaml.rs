//! Text → a tree of values, each with its place.
//!
//! The parser's events are turned into a tree by hand for three reasons: scalars keep the text they
//! were written with (`1e3` is not a number here), every value knows its line and column, and input
//! that nobody writes in earnest is refused while it is read. What YAML can do and a configuration
//! has no use for, tags and merge keys, is refused by name.
//!
//! # Invariants
//! * No tree is deeper than [`MAX_DEPTH`], aliases followed; recursion over it is safe.
//! * Aliases add at most [`MAX_ALIASED`] values to what the text spells out.
//! * No key occurs twice in one mapping.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};

use super::error::{Place, Report};

/// How deep values may nest; a level of queues takes two.
const MAX_DEPTH: usize = 128;

/// How many values all aliases together may repeat.
const MAX_ALIASED: usize = 100_000;

/// How many characters of a key are shown in a path.
const LONGEST_KEY: usize = 200;

/// Where a value begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: At,
    pub(super) value: Value,
    /// How many values this one holds, itself included, aliases followed.
    size: usize,
    /// How many levels this value has, itself included, aliases followed.
    height: usize,
}

#[derive(Debug)]
pub(super) enum Value {
    /// The text as written, quotes and escapes resolved. A plain null is an empty text.
    Scalar {
        text: String,
        is_null: bool,
    },
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: At,
    pub(super) value: Rc<Node>,
}

impl At {
    fn of(span: &Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }

    pub(super) fn place(self, path: &str) -> Place {
        Place { line: self.line, column: self.column, path: path.to_owned() }
    }
}

/// `parent.key`, the key in quotes where it could not be told apart otherwise.
pub(super) fn join(parent: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c));
    let shown = match key.char_indices().nth(LONGEST_KEY) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    };
    let key = if is_plain { shown } else { format!("{shown:?}") };
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The text could not be read to its end; the report says why.
pub(super) struct Unreadable;

/// Reads the first document of `text`; none where there is no document.
pub(super) fn load(text: &str, report: &mut Report) -> Result<Option<Rc<Node>>, Unreadable> {
    let mut loader = Loader { report, open: Vec::new(), anchors: HashMap::new(), aliased: 0 };
    loader.run(text).map_err(|Broken { at, message }| {
        let place = at.place(&loader.path());
        loader.report.error("E_CONF_PARSE", &place, message);
        Unreadable
    })
}

/// After this nothing more can be understood.
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

/// A list or mapping whose end has not been seen.
struct Open {
    at: At,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map { entries: Vec<Entry>, first_seen: HashMap<String, usize>, key: Option<(String, At)> },
}

struct Loader<'r> {
    report: &'r mut Report,
    open: Vec<Open>,
    /// What each anchor names, once it is complete.
    anchors: HashMap<usize, Rc<Node>>,
    aliased: usize,
}

impl Loader<'_> {
    fn run(&mut self, text: &str) -> Result<Option<Rc<Node>>, Broken> {
        let mut parser = Parser::new_from_str(text);
        let mut root = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event?;
            let at = At::of(&span);
            let complete = match event {
                Event::DocumentEnd => break,
                Event::Nothing
                | Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(_) => None,
                Event::Scalar(text, style, anchor, tag) => {
                    self.refuse_tag(at, tag.as_deref());
                    Some((scalar(at, &text, style), anchor))
                }
                Event::Alias(anchor) => Some((self.follow(at, anchor)?, 0)),
                Event::SequenceStart(anchor, tag) => {
                    self.refuse_tag(at, tag.as_deref());
                    self.open(Open { at, anchor, content: Content::List(Vec::new()) })?;
                    None
                }
                Event::MappingStart(anchor, tag) => {
                    self.refuse_tag(at, tag.as_deref());
                    let content =
                        Content::Map { entries: Vec::new(), first_seen: HashMap::new(), key: None };
                    self.open(Open { at, anchor, content })?;
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => self.open.pop().map(close),
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

    /// The value an alias stands for.
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

    fn refuse_tag(&mut self, at: At, tag: Option<&Tag>) {
        if let Some(tag) = tag {
            let place = at.place(&self.path());
            let message = format!("the tag `!{}` has no meaning here; remove it", tag.suffix);
            self.report.error("E_CONF_PARSE", &place, message);
        }
    }

    /// Puts a complete value into the list or mapping it belongs to, there as key or value.
    fn put(&mut self, node: Rc<Node>) -> Result<(), Broken> {
        let Some(parent) = self.open.last_mut() else { return Ok(()) };
        let (entries, first_seen, key) = match &mut parent.content {
            Content::List(items) => {
                items.push(node);
                return Ok(());
            }
            Content::Map { entries, first_seen, key } => (entries, first_seen, key),
        };
        let Some((name, key_at)) = key.take() else {
            let Value::Scalar { text, .. } = &node.value else {
                return Err(Broken { at: node.at, message: "a key has to be a plain text".into() });
            };
            *key = Some((text.clone(), node.at));
            return Ok(());
        };
        let fault = if name == "<<" {
            "merge keys (`<<`) are not supported; write the keys out".to_owned()
        } else if let Some(line) = first_seen.get(&name) {
            format!("the key `{name}` is here twice, first on line {line}")
        } else {
            first_seen.insert(name.clone(), key_at.line);
            entries.push(Entry { key: name, key_at, value: node });
            return Ok(());
        };
        let place = key_at.place(&join(&self.path(), &name));
        self.report.error("E_CONF_PARSE", &place, fault);
        Ok(())
    }

    /// The keys down to the value that is being read.
    fn path(&self) -> String {
        self.open.iter().fold(String::new(), |path, open| open.extend(&path))
    }
}

impl Open {
    /// `path` and the key or number of what is being read in here.
    fn extend(&self, path: &str) -> String {
        match &self.content {
            Content::List(items) => format!("{path}[{}]", items.len()),
            Content::Map { key: Some((key, _)), .. } => join(path, key),
            Content::Map { key: None, .. } => path.to_owned(),
        }
    }
}

fn scalar(at: At, text: &str, style: ScalarStyle) -> Rc<Node> {
    let is_null =
        style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL");
    let text = if is_null { String::new() } else { text.to_owned() };
    Rc::new(Node { at, value: Value::Scalar { text, is_null }, size: 1, height: 1 })
}

fn close(open: Open) -> (Rc<Node>, usize) {
    let value = match open.content {
        Content::List(items) => Value::List(items),
        Content::Map { entries, .. } => Value::Map(entries),
    };
    let (mut size, mut height) = (1, 1);
    let mut hold = |child: &Node| {
        size += child.size;
        height = height.max(1 + child.height);
    };
    match &value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter().for_each(|item| hold(item)),
        Value::Map(entries) => entries.iter().for_each(|entry| hold(&entry.value)),
    }
    (Rc::new(Node { at: open.at, value, size, height }), open.anchor)
}
