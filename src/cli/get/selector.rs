//! Selectors of tags and attributes, in the form of `kubectl`: `a=b,c!=d,e in (f,g),h,!i`.

use std::str::FromStr;

/// Requirements that all have to hold. An empty selector selects everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    /// The accepted values. `None`: the tag has to exist.
    values: Option<Vec<String>>,
    /// Whether the opposite has to hold. A missing tag fulfils that.
    is_negated: bool,
}

impl Selector {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the requirements hold for tags that `tag` looks up.
    pub(super) fn matches<'t>(&self, tag: impl Fn(&str) -> Option<&'t str>) -> bool {
        self.0.iter().all(|requirement| {
            let holds = match (tag(&requirement.key), &requirement.values) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(value), Some(values)) => values.iter().any(|it| it == value),
            };
            holds != requirement.is_negated
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        split(text).map(requirement).collect::<Result<_, _>>().map(Self)
    }
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let text = text.trim();
    let (key, values, is_negated) = if let Some((key, value)) = text.split_once("!=") {
        (key, Some(vec![value.trim().to_owned()]), true)
    } else if let Some((key, value)) = text.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        (key, Some(vec![value.trim().to_owned()]), false)
    } else if let Some((head, set)) = text.split_once('(') {
        let head = head.trim_end();
        let (key, is_negated) = match (head.strip_suffix(" notin"), head.strip_suffix(" in")) {
            (Some(key), _) => (key, true),
            (_, Some(key)) => (key, false),
            (None, None) => return Err(format!("`{text}`: `in` or `notin` stands before a list")),
        };
        let set = set.strip_suffix(')').ok_or_else(|| format!("`{text}`: `(` is not closed"))?;
        (key, Some(set.split(',').map(|value| value.trim().to_owned()).collect()), is_negated)
    } else {
        (text.strip_prefix('!').unwrap_or(text), None, text.starts_with('!'))
    };
    let key = key.trim();
    if key.is_empty() || key.contains(char::is_whitespace) || key.contains(['!', '(', ')']) {
        return Err(format!(
            "`{text}` is no requirement: write `a=b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a` or `!a`"
        ));
    }
    Ok(Requirement { key: key.to_owned(), values, is_negated })
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.split(move |c| {
        match c {
            '(' => is_inside = true,
            ')' => is_inside = false,
            _ => {}
        }
        c == ',' && !is_inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_hold_together() {
        let tag = |key: &str| match key {
            "zone" => Some("a"),
            "example.org/team" => Some("data"),
            "empty" => Some(""),
            _ => None,
        };
        for (selector, expected) in [
            ("", true),
            ("zone=a", true),
            ("zone==a", true),
            ("zone = a , example.org/team=data", true),
            ("zone=b", false),
            ("zone=a,example.org/team=ops", false),
            ("zone!=b", true),
            ("zone!=a", false),
            ("missing!=a", true),
            ("missing=a", false),
            ("zone in (a, b)", true),
            ("zone in (b),zone", false),
            ("zone notin (b,c)", true),
            ("missing notin (b)", true),
            ("empty", true),
            ("empty=", true),
            ("!empty", false),
            ("!missing", true),
            ("missing", false),
        ] {
            let parsed: Selector = selector.parse().unwrap();
            assert_eq!(parsed.matches(tag), expected, "{selector}");
        }
    }

    #[test]
    fn a_wrong_requirement_is_refused_with_the_reason() {
        for (selector, reason) in [
            ("=a", "`=a` is no requirement"),
            ("a b", "`a b` is no requirement"),
            ("a=b,,c", "`` is no requirement"),
            ("a in (b", "`a in (b`: `(` is not closed"),
            ("a on (b)", "`a on (b)`: `in` or `notin` stands before a list"),
        ] {
            let error = selector.parse::<Selector>().unwrap_err();
            assert!(error.starts_with(reason), "{selector}: {error}");
        }
    }
}
