//! A parser of Prometheus queries: enough of the language for the dashboards and alerts of this
//! repository. Anything else is an error.
//!
//! # Why not `promql-parser`
//!
//! It needs a parser generator with some twenty crates, and the unmaintained `bincode`, which
//! `cargo deny check` would refuse.

use regex::Regex;

/// Functions and aggregations of the queries.
const FUNCTIONS: [&str; 9] = [
    "absent",
    "changes",
    "deriv",
    "histogram_quantile",
    "increase",
    "label_values",
    "max",
    "rate",
    "sum",
];
const KEYWORDS: [&str; 3] = ["and", "or", "unless"];

#[derive(Debug)]
pub(super) struct Query {
    pub(super) selectors: Vec<Selector>,
    /// Labels by which results are grouped.
    pub(super) groups: Vec<String>,
    /// Functions with the metric that directly follows them.
    pub(super) applied: Vec<(String, String)>,
}

/// A metric with its label matchers.
#[derive(Debug)]
pub(super) struct Selector {
    pub(super) metric: String,
    /// Label, and the values or expressions of which one has to match.
    pub(super) matchers: Vec<(String, Vec<String>)>,
}

/// Parses labels and values between braces, as in a query or a line of metrics.
pub(super) fn labels(text: &str) -> Vec<(String, String, String)> {
    let pair = Regex::new(r#"^\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)"#).unwrap();
    let (mut rest, mut labels) = (text, Vec::new());
    while !rest.trim().is_empty() {
        let found = pair.captures(rest).unwrap_or_else(|| panic!("`{rest}` in `{text}`"));
        labels.push((found[1].to_owned(), found[2].to_owned(), found[3].to_owned()));
        rest = &rest[found[0].len()..];
    }
    labels
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let count = |bracket| text.matches(bracket).count();
        for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
            assert_eq!(count(open), count(close), "`{text}`");
        }
        let group = Regex::new(r"\bby\s*\(([^)]*)\)").unwrap();
        let groups = group.captures_iter(text).flat_map(|found| {
            found[1].split(',').map(|label| label.trim().to_owned()).collect::<Vec<_>>()
        });
        let groups = groups.collect();
        let rest = group.replace_all(text, " ");
        let rest = Regex::new(r"\[(\w+|\$__rate_interval)\]").unwrap().replace_all(&rest, " ");
        let word = Regex::new(r"([a-zA-Z_:][\w:]*)\s*(\(|\{[^}]*\})?").unwrap();
        let (mut selectors, mut applied, mut function) = (Vec::new(), Vec::new(), None);
        let mut end = 0;
        for found in word.captures_iter(&rest) {
            let (whole, name) = (found.get(0).unwrap(), &found[1]);
            let between = &rest[end..whole.start()];
            end = whole.end();
            let known = |c: char| c.is_ascii_digit() || " .,()/+-*<>=".contains(c);
            assert!(between.chars().all(known), "`{between}` in `{text}`");
            match found.get(2).map(|next| next.as_str()) {
                _ if KEYWORDS.contains(&name) => {}
                Some("(") => {
                    assert!(FUNCTIONS.contains(&name), "`{name}` in `{text}`");
                    function = Some(name.to_owned());
                    continue;
                }
                matchers => {
                    if let Some(function) = function.take().filter(|_| between.trim().is_empty()) {
                        applied.push((function, name.to_owned()));
                    }
                    let inside = matchers.unwrap_or("{}").trim_matches(['{', '}']);
                    selectors
                        .push(Selector { metric: name.to_owned(), matchers: matchers_of(inside) });
                }
            }
            function = None;
        }
        assert!(!selectors.is_empty(), "`{text}` asks for nothing");
        Self { selectors, groups, applied }
    }
}

fn matchers_of(text: &str) -> Vec<(String, Vec<String>)> {
    let values = |(label, operator, value): (String, String, String)| {
        let values = match &*operator {
            "=" => vec![value],
            "=~" => value.split('|').map(str::to_owned).collect(),
            other => panic!("`{other}` in `{text}`"),
        };
        (label, values)
    };
    labels(text).into_iter().map(values).collect()
}

#[test]
fn a_query_is_taken_apart() {
    let query = Query::parse(
        r#"histogram_quantile(0.95, sum by (le, kind) (rate(a_bucket{x="1", y=~"b|$c"}[5m]))) / b > 0"#,
    );
    assert_eq!(query.groups, ["le", "kind"]);
    assert_eq!(query.applied, [("rate".to_owned(), "a_bucket".to_owned())]);
    let [first, second] = &query.selectors[..] else { panic!("{query:?}") };
    let matchers = [
        ("x".to_owned(), vec!["1".to_owned()]),
        ("y".to_owned(), vec!["b".to_owned(), "$c".to_owned()]),
    ];
    assert_eq!((&*first.metric, &first.matchers[..]), ("a_bucket", &matchers[..]));
    assert_eq!((&*second.metric, second.matchers.len()), ("b", 0));
}
