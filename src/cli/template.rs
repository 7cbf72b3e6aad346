//! The forms of output that users choose themselves: a template of JSONPath, and columns of their
//! own.
//!
//! # Templates
//! Text stands as it is. `{PATH}` is the text of the selected values, `{"\n"}` a text with escapes,
//! and `{range PATH}…{end}` repeats a part for each selected value, in which paths begin at that
//! value. A template without braces is one path.
//!
//! A list is printed with the template once for each document, a line each. A template whose first
//! path begins with `.items` or a bracket is applied to the whole list instead, as other tools do
//! it.

use std::iter::Peekable;

use serde_json::Value;

use super::path::Path;
use crate::logging::clean;

/// Deepest nesting of `{range}`.
const DEEPEST: usize = 8;

/// A parsed template.
#[derive(Clone, Debug)]
pub(super) struct Template {
    parts: Vec<Part>,
    /// Whether the paths begin at the list and not at a document.
    is_of_list: bool,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Values(Path),
    Range(Path, Vec<Part>),
}

/// A piece of the text of a template.
#[derive(Debug)]
enum Token<'t> {
    /// Text outside braces.
    Text(&'t str),
    /// The inside of braces.
    Braces(&'t str),
}

impl Template {
    /// Parses a template. `Err` says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the template is empty".to_owned());
        }
        let tokens =
            if text.contains('{') { tokens(text)? } else { vec![Token::Braces(text.trim())] };
        let first = tokens.iter().find_map(|token| match token {
            Token::Braces(inside) if !inside.starts_with(['"', '\'']) => Some(*inside),
            _ => None,
        });
        let is_of_list = first.is_some_and(|inside| {
            let path = inside.strip_prefix("range ").unwrap_or(inside).trim();
            is_items(path) || path.trim_start_matches(['$', '.']).starts_with('[')
        });
        let mut tokens = tokens.into_iter().peekable();
        let parts = parts(&mut tokens, 0)?;
        match tokens.next() {
            None => Ok(Self { parts, is_of_list }),
            Some(_) => Err("`{end}` without `{range}`".to_owned()),
        }
    }

    /// Formats a list: a line for each document, or the template of the whole list.
    pub(super) fn text(&self, documents: Vec<Value>) -> String {
        let mut text = String::new();
        let documents = if self.is_of_list { vec![Value::Array(documents)] } else { documents };
        for document in &documents {
            write(&self.parts, document, &mut text);
            if !text.is_empty() && !text.ends_with('\n') || !self.is_of_list {
                text.push('\n');
            }
        }
        text
    }
}

/// Whether a path begins with `.items`, which stands for the list.
fn is_items(path: &str) -> bool {
    let rest = path.trim_start_matches(['$', '.']).strip_prefix("items");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Parses the path in braces. `.items` is the list itself, and so is left out.
fn path(inside: &str) -> Result<Path, String> {
    if is_items(inside) {
        let below = inside.trim_start_matches(['$', '.']);
        return Path::parse(below.strip_prefix("items").unwrap_or(below));
    }
    Path::parse(inside)
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(open) = rest.find('{') {
        if open > 0 {
            tokens.push(Token::Text(&rest[..open]));
        }
        let inside = &rest[open + 1..];
        let end = braces_end(inside).ok_or_else(|| format!("`{{{inside}` is not closed"))?;
        tokens.push(Token::Braces(inside[..end].trim()));
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(rest));
    }
    Ok(tokens)
}

/// Returns the position of the brace that closes. A brace in quotes does not count.
fn braces_end(inside: &str) -> Option<usize> {
    let (mut quote, mut is_escaped) = (None, false);
    for (at, c) in inside.char_indices() {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (_, '\\') => is_escaped = true,
            (Some(open), c) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') => return Some(at),
            _ => {}
        }
    }
    None
}

/// Parses the parts up to the `{end}` of this level, which is left to the caller.
fn parts<'t>(
    tokens: &mut Peekable<impl Iterator<Item = Token<'t>>>,
    depth: usize,
) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    while let Some(token) = tokens.next_if(|it| !matches!(it, Token::Braces("end"))) {
        parts.push(match token {
            Token::Text(text) => Part::Text(text.to_owned()),
            Token::Braces(inside) => match inside.strip_prefix("range ") {
                Some(_) if depth == DEEPEST => {
                    return Err(format!("`{{range}}` is nested more than {DEEPEST} deep"));
                }
                Some(of) => {
                    let repeated = self::parts(tokens, depth + 1)?;
                    tokens.next().ok_or_else(|| format!("`{{{inside}}}` has no `{{end}}`"))?;
                    Part::Range(path(of.trim())?, repeated)
                }
                None => match quoted(inside) {
                    Some(text) => Part::Text(text),
                    None => Part::Values(path(inside)?),
                },
            },
        });
    }
    Ok(parts)
}

/// Returns the text in quotes with its escapes replaced. `None` if it is not in quotes.
fn quoted(inside: &str) -> Option<String> {
    let quote = inside.chars().next().filter(|it| ['"', '\''].contains(it))?;
    let inner = inside.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                other => other?,
            },
            c => c,
        });
    }
    Some(text)
}

fn write(parts: &[Part], value: &Value, text: &mut String) {
    for part in parts {
        match part {
            Part::Text(literal) => text.push_str(literal),
            Part::Values(path) => text.push_str(&clean(&path.text(value, " "))),
            Part::Range(path, repeated) => {
                for item in path.select(value) {
                    write(repeated, item, text);
                }
            }
        }
    }
}

/// Columns that the user names: `TITLE:PATH,TITLE:PATH`.
#[derive(Clone, Debug)]
pub(super) struct CustomColumns {
    titles: Vec<String>,
    paths: Vec<Path>,
}

impl CustomColumns {
    /// Parses the columns. `Err` says what is wrong with them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut columns = Self { titles: Vec::new(), paths: Vec::new() };
        for column in split(text) {
            let (title, path) = column
                .split_once(':')
                .filter(|(title, path)| !title.trim().is_empty() && !path.trim().is_empty())
                .ok_or_else(|| format!("the column `{column}` is not TITLE:PATH"))?;
            columns.titles.push(title.trim().to_owned());
            columns.paths.push(Path::parse(path)?);
        }
        Ok(columns)
    }

    pub(super) fn titles(&self) -> &[String] {
        &self.titles
    }

    /// Returns the cells of a document. A cell lists its values, separated by commas.
    pub(super) fn row(&self, document: &Value) -> Vec<String> {
        self.paths.iter().map(|path| path.text(document, ",")).collect()
    }
}

/// Splits at commas outside brackets.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(template: &str) -> String {
        let template = Template::parse(template).unwrap_or_else(|error| panic!("{error}"));
        let node = |name: &str, keys: &[&str]| json!({ "name": name, "keys": keys });
        template.text(vec![node("a", &["x", "y"]), node("b\u{1b}", &[])])
    }

    #[test]
    fn templates_apply_to_each_document_or_the_list() {
        for (template, expected) in [
            ("{.name}", "a\nb\\u{1b}\n"),
            (".name", "a\nb\\u{1b}\n"),
            ("{.name}: {.keys[*]}", "a: x y\nb\\u{1b}: \n"),
            (r#"{.name}{"\t"}{.keys}"#, "a\t[\"x\",\"y\"]\nb\\u{1b}\t[]\n"),
            ("{.items[*].name}", "a b\\u{1b}\n"),
            ("{[0].name}", "a\n"),
            (r#"{range .items[*]}{.name}={"}"}{"\n"}{end}"#, "a=}\nb\\u{1b}=}\n"),
            (r#"{.name}{range .keys[*]} <{@}>{end}"#, "a <x> <y>\nb\\u{1b}\n"),
        ] {
            assert_eq!(shown(template), expected, "{template}");
        }
    }

    #[test]
    fn a_wrong_template_is_refused_with_the_reason() {
        for (template, reason) in [
            ("", "the template is empty"),
            ("{.name", "`{.name` is not closed"),
            ("{range .items[*]}x", "`{range .items[*]}` has no `{end}`"),
            ("{.a}{end}", "`{end}` without `{range}`"),
            ("{.a[}", "`.a[` is no path: `[` is not closed"),
        ] {
            assert_eq!(Template::parse(template).unwrap_err(), reason, "{template}");
        }
        let nested = "{range .a}".repeat(20);
        assert!(Template::parse(&nested).unwrap_err().contains("nested more than 8 deep"));
    }

    #[test]
    fn columns_have_titles_and_paths() {
        let columns = CustomColumns::parse("NAME:.name,BIG:{.keys[?(@.n > 1)].id}").unwrap();
        let node = json!({ "name": "a", "keys": [{ "n": 1, "id": "x" }, { "n": 2, "id": "y" }] });
        assert_eq!(
            (columns.titles(), columns.row(&node)),
            (&["NAME".to_owned(), "BIG".to_owned()][..], vec!["a".to_owned(), "y".to_owned()])
        );
        for wrong in ["", "NAME", "NAME:", ":.a", "A:.a,"] {
            let error = CustomColumns::parse(wrong).unwrap_err();
            assert!(error.ends_with("is not TITLE:PATH"), "{wrong}: {error}");
        }
    }
}
