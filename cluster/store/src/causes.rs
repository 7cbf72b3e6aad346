//! An error and its causes in one line.

use std::error::Error;

/// The error's text and those of its causes, from the outermost on. A text that another one contains is left out.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = one_line(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = one_line(error);
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

fn one_line(error: &dyn Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
