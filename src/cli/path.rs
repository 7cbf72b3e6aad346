//! Paths into documents: JSONPath of RFC 9535, and its looser form in which other command lines
//! take it.
//!
//! # What is looser
//! A path may be in braces, may leave out `$`, and may name a key of any characters after a dot:
//! `{.attributes.rack-1}` is `$['attributes']['rack-1']`. A backslash makes the next character a
//! part of the key: `.tags.example\.org/team`.

use serde_json::Value;
use serde_json_path::JsonPath;

/// The contents of brackets that a path may have, for errors.
const IN_BRACKETS: &str = "brackets have a number, a range such as `1:3`, `*`, a name in quotes, or a filter such as `?(@.a==1)`";

/// Most parentheses and brackets inside each other. The parser calls itself for each of them.
const DEPTH_MAX: usize = 32;

/// A path that selects values of a document.
#[derive(Clone, Debug)]
pub(super) struct Path(JsonPath);

impl Path {
    /// Parses a path. `Err` says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let bare = text.trim();
        let bare = bare.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(bare);
        let wrong = |reason: &str| format!("`{text}` is no path: {reason}");
        if depth(bare) > DEPTH_MAX {
            let most = format!("more than {DEPTH_MAX} brackets are inside each other");
            return Err(format!("the path is too deep: {most}"));
        }
        let standard = standard(bare.trim()).map_err(wrong)?;
        let parsed = JsonPath::parse(&standard);
        // Names are quoted here, so only the text in brackets can be wrong.
        parsed.map(Self).map_err(|_| wrong(IN_BRACKETS))
    }

    /// Returns the selected values in the order of the document.
    pub(super) fn select<'v>(&self, document: &'v Value) -> Vec<&'v Value> {
        self.0.query(document).all()
    }

    /// Returns the selected values as texts, separated by `separator`.
    pub(super) fn text(&self, document: &Value, separator: &str) -> String {
        self.select(document).into_iter().map(shown).collect::<Vec<_>>().join(separator)
    }
}

/// Returns the most brackets of a path that are open at a time.
fn depth(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for letter in text.chars() {
        match letter {
            '(' | '[' => open += 1,
            ')' | ']' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Formats a value: a text without quotes, nothing for null, a list or an object as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns a path in the form of the RFC, with each name in brackets.
fn standard(text: &str) -> Result<String, &'static str> {
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut standard = "$".to_owned();
    while !rest.is_empty() {
        if let Some(deeper) = rest.strip_prefix("..") {
            (standard, rest) = (standard + "..", deeper);
            if rest.is_empty() {
                return Err("no name follows `..`");
            }
        } else if let Some(below) = rest.strip_prefix('.') {
            rest = below;
        }
        if rest.starts_with('[') {
            let end = bracket_end(rest).ok_or("`[` is not closed")?;
            standard += &rest[..end];
            rest = &rest[end..];
        } else if !rest.is_empty() {
            let name;
            (name, rest) = first_name(rest);
            match name.as_str() {
                "" => return Err("a name is missing between two dots"),
                "*" => standard += "[*]",
                name => {
                    let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
                    standard.extend(["['", &quoted, "']"]);
                }
            }
        }
    }
    Ok(standard)
}

/// Splits off the name at the beginning, which ends at a dot or a bracket.
fn first_name(text: &str) -> (String, &str) {
    let (mut name, mut is_escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            '.' | '[' if !is_escaped => return (name, &text[at..]),
            '\\' if !is_escaped => is_escaped = true,
            c => {
                name.push(c);
                is_escaped = false;
            }
        }
    }
    (name, "")
}

/// Returns the end of the bracket at the beginning. Brackets in quotes do not count.
fn bracket_end(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (Some(open), c) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_of_many_brackets_is_refused() {
        let deep = |n: usize| format!("[?{}@.a{}]", "!(".repeat(n), ")".repeat(n));
        assert!(Path::parse(&deep(10)).is_ok());
        let refused = Path::parse(&deep(20_000)).unwrap_err();
        assert_eq!(refused, "the path is too deep: more than 32 brackets are inside each other");
    }

    #[test]
    fn paths_are_taken_with_and_without_braces_and_root() {
        let document = json!({
            "name": "n1",
            "attributes": { "rack-1": "a", "example.org/team": "b", "it's": true },
            "held": [{ "key": "x", "n": 1 }, { "key": "y", "n": 2 }],
        });
        for (path, expected) in [
            ("{.name}", "n1"),
            (".name", "n1"),
            ("name", "n1"),
            ("$.name", "n1"),
            ("{.attributes.rack-1}", "a"),
            (r"{.attributes.example\.org/team}", "b"),
            ("{.attributes.it's}", "true"),
            ("{.held[*].key}", "x y"),
            ("{.held.*.n}", "1 2"),
            ("{.held[-1:].key}", "y"),
            (r#"{.held[?(@.key=="y")].n}"#, "2"),
            ("{..key}", "x y"),
            ("{.missing}", ""),
            ("{.held[0]}", r#"{"key":"x","n":1}"#),
        ] {
            let path = Path::parse(path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(path.text(&document, " "), expected, "{path:?}");
        }
        assert_eq!(Path::parse("{}").unwrap().select(&document), [&document]);
    }

    #[test]
    fn a_wrong_path_is_refused_with_the_reason() {
        for (path, reason) in [
            ("{.a[0}", "`{.a[0}` is no path: `[` is not closed"),
            ("..", "`..` is no path: no name follows `..`"),
            ("a...b", "a name is missing"),
            ("{.a[x]}", "`{.a[x]}` is no path: brackets have a number"),
        ] {
            let error = Path::parse(path).unwrap_err();
            assert!(error.contains(reason), "{path}: {error}");
        }
    }
}
