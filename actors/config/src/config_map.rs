//! Finds a queue configuration inside a Kubernetes ConfigMap. Clusters of other schedulers of this
//! interface keep it there: one object whose `data` holds the whole text under `queues.yaml`.
//!
//! Only tools that read files look for a ConfigMap. A registration carries the text itself.
//!
//! # Invariant
//! If the file contains the text line by line (`|`), an error names its line in the file. In other
//! styles (quotes, `>`), it names its line in the text only.

use super::yaml::{self, Node, Value};
use super::{ConfigErrors, Report};

/// Policy group of a ConfigMap that names none; its text is under `queues.yaml`.
const POLICY_GROUP: &str = "queues";

/// The keys under which a ConfigMap may name its policy group.
const POLICY_GROUP_KEYS: [&str; 2] = ["service.policyGroup", "policyGroup"];

/// A queue configuration found in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The text of the queue configuration.
    pub text: String,
    /// The key of `data` that holds the text.
    pub key: String,
    /// The text with empty lines before it and spaces before each line, so that positions in it
    /// equal positions in the file. `None` if the file does not contain the text line by line.
    pub in_place: Option<String>,
}

/// Finds the queue configuration in `file` if the file is a ConfigMap. Returns `None` for any other
/// file, such as a queue configuration itself. A ConfigMap without a configuration is an error that
/// lists the keys it has.
///
/// ```
/// let file = "kind: ConfigMap\ndata:\n  queues.yaml: |\n    partitions: []\n";
/// let found = monoceros_config::config_map::find(file).unwrap().unwrap();
/// assert_eq!(found.text, "partitions: []\n");
/// assert_eq!(found.in_place.unwrap(), "\n\n\n    partitions: []\n");
/// assert_eq!(monoceros_config::config_map::find("partitions: []").unwrap(), None);
/// ```
pub fn find(file: &str) -> Result<Option<Embedded>, ConfigErrors> {
    // The reader of queue configurations reports the faults of files that are not ConfigMaps.
    let Ok(Some(root)) = yaml::load(file, &mut Report::default()) else { return Ok(None) };
    if entry(&root, "kind").and_then(text).is_none_or(|kind| kind != "ConfigMap") {
        return Ok(None);
    }
    let mut report = Report::default();
    let mut missing = |node: &Node, message: String| {
        report.error("E_CONFIG_MAP", &node.at.place("data"), message);
        ConfigErrors { reported: std::mem::take(&mut report.errors), n_more: 0 }
    };
    let Some(data) = entry(&root, "data") else {
        return Err(missing(&root, "the ConfigMap has no `data`".to_owned()));
    };
    let group = POLICY_GROUP_KEYS.iter().find_map(|key| entry(data, key).and_then(text));
    let key = format!("{}.yaml", group.unwrap_or(POLICY_GROUP));
    let Some((found, written)) = entry(data, &key).and_then(|node| Some((node, text(node)?)))
    else {
        let keys = match &data.value {
            Value::Map(entries) => entries.iter().map(|entry| format!("`{}`", entry.key)).collect(),
            _ => Vec::new(),
        };
        let has = if keys.is_empty() { "nothing".to_owned() } else { keys.join(", ") };
        return Err(missing(data, format!("the ConfigMap has no `{key}` in `data`: it has {has}")));
    };
    let in_place = in_place(file, found, written);
    Ok(Some(Embedded { text: written.to_owned(), key, in_place }))
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key == key).map(|entry| &*entry.value)
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        Value::List(_) | Value::Map(_) => None,
    }
}

/// Builds [`Embedded::in_place`]. Compares the lines of the file with those of the text, so that
/// the style of quoting need not be known.
fn in_place(file: &str, node: &Node, text: &str) -> Option<String> {
    // These marks have another meaning when indented.
    if text.lines().any(|line| ["---", "...", "%"].iter().any(|mark| line.starts_with(mark))) {
        return None;
    }
    let (first, line) = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty())?;
    let file: Vec<&str> = file.lines().collect();
    // The parser places a block at its mark or at its first line that is not empty.
    let mut candidates = node.at.line.saturating_sub(1 + first)..=node.at.line;
    candidates.find_map(|lines| {
        let columns = file.get(lines + first)?.len().checked_sub(line.len())?;
        let is_same = |(at, line): (usize, &str)| {
            let written = file.get(lines + at).copied().unwrap_or_default();
            line.trim().is_empty() && written.trim().is_empty()
                || written.get(columns..).is_some_and(|written| written == line)
        };
        let margin = " ".repeat(columns);
        let indented = || text.lines().flat_map(|line| [&margin, line, "\n"]).collect::<String>();
        let is_here = text.lines().enumerate().all(is_same);
        is_here.then(|| "\n".repeat(lines) + &indented())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str) -> Embedded {
        find(file).unwrap().unwrap()
    }

    #[test]
    fn errors_in_a_block_text_name_lines_of_the_file() {
        let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n";
        for (written, text, in_place) in [
            ("  queues.yaml: |\n    a: 1\n    b:\n      c: 2\n", "a: 1\nb:\n  c: 2\n", true),
            ("  queues.yaml: |-\n\n      a: 1\n      b: 2\n", "\na: 1\nb: 2", true),
            ("  queues.yaml: \"a: 1\\nb: 2\"\n", "a: 1\nb: 2", false),
            ("  queues.yaml: >\n    a: 1\n    b: 2\n", "a: 1 b: 2\n", false),
            ("  queues.yaml: |\n    ---\n    a: 1\n", "---\na: 1\n", false),
        ] {
            let file = format!("{head}{written}");
            let found = found(&file);
            assert_eq!(found.text, text);
            assert_eq!(found.in_place.is_some(), in_place, "{written}");
            let Some(in_place) = found.in_place else { continue };
            for (placed, written) in in_place.lines().zip(file.lines()) {
                assert!(placed.trim().is_empty() || placed == written, "{in_place}");
            }
            assert_eq!(in_place.lines().count(), file.lines().count());
        }
    }

    #[test]
    fn a_policy_group_names_the_key() {
        let of = |key: &str| format!("kind: ConfigMap\ndata:\n  {key}: etl\n  etl.yaml: 'a: 1'\n");
        for key in POLICY_GROUP_KEYS {
            assert_eq!(found(&of(key)).key, "etl.yaml");
        }
    }

    #[test]
    fn missing_keys_are_named() {
        for (file, part) in [
            ("kind: ConfigMap\n", "no `data`"),
            ("kind: ConfigMap\ndata: {}\n", "it has nothing"),
            ("kind: ConfigMap\ndata: {log.level: INFO}\n", "it has `log.level`"),
            ("kind: ConfigMap\ndata: {queues.yaml: {partitions: []}}\n", "no `queues.yaml`"),
        ] {
            let errors = find(file).unwrap_err().to_string();
            assert!(errors.contains(part) && errors.contains("[E_CONFIG_MAP]"), "{errors}");
        }
        for file in ["", "partitions: []", "kind: Secret", "kind: [", "- 1"] {
            assert_eq!(find(file).unwrap(), None, "{file}");
        }
    }
}
