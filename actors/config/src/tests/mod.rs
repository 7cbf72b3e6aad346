//! Tests of each rule of `docs/configuration.md` with valid and invalid texts, of reports, of the
//! shown form, and of hostile texts.

mod effects;
mod hostile;
mod limits;
mod limits_page;
mod messages;
mod partitions;
mod properties;
mod queues;
mod reports;
mod rules;
mod shown;
mod templates;
mod yaml;

use super::*;

/// Returns the codes of all errors in the order they are reported; none for a valid text.
fn codes(text: &str) -> Vec<&'static str> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.reported.iter().map(|error| error.code).collect(),
    }
}

/// Returns the only error of a text, as it is displayed.
fn only_error(text: &str) -> String {
    let errors = parse(text).unwrap_err();
    assert_eq!(errors.reported.len(), 1, "{errors}");
    errors.to_string()
}

fn parsed(text: &str) -> Configuration {
    parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Returns a partition whose root holds the given queues, written in flow style.
fn below_root(queues: &str) -> String {
    format!("partitions: [{{queues: [{{name: root, queues: [{queues}], submitacl: '*'}}]}}]")
}

/// A leaf that everybody may submit to; a partition with it has no warning.
const OPEN: &str = "queues: [{name: a, submitacl: '*'}]";

/// Returns the queue at a path below the root of the first partition.
fn queue<'c>(configuration: &'c Configuration, path: &str) -> &'c QueueConfig {
    let mut queue = &configuration.partitions[0].root;
    for name in path.split('.').skip(1) {
        queue = (queue.children.iter().find(|child| &*child.name == name))
            .unwrap_or_else(|| panic!("no `{name}` of `{path}`"));
    }
    queue
}
