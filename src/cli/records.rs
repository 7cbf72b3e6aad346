//! Prints records that never change, such as events and decisions: one list, or each as it arrives.

use serde_json::Value;

use super::document::{json, json_line, yaml, yaml_part};
use super::output::Form;
use super::table::Table;
use crate::logging::clean;

/// An event or a decision.
pub(super) trait Record {
    fn titles(is_wide: bool) -> Vec<&'static str>;
    fn row(&self, is_wide: bool) -> Vec<String>;
    /// Returns the line of the form `name`.
    fn name(&self) -> String;
    fn document(&self) -> anyhow::Result<Value>;
}

/// Formats the records of one command.
pub(super) struct Printer {
    form: Form,
    /// Whether more may follow, so that each record is a document of its own.
    goes_on: bool,
    table: Table,
}

impl Printer {
    pub(super) fn new<R: Record>(form: Form, goes_on: bool) -> Self {
        let titles = match form {
            Form::Columns(columns) => columns.titles().to_vec(),
            _ => R::titles(form.is_wide()).into_iter().map(str::to_owned).collect(),
        };
        Self { form, goes_on, table: Table::new(titles) }
    }

    /// Formats the next records.
    pub(super) fn text<R: Record>(&mut self, records: &[R]) -> anyhow::Result<String> {
        let documents = || records.iter().map(R::document).collect::<anyhow::Result<Vec<_>>>();
        Ok(match (self.form, self.goes_on) {
            (Form::Table | Form::Wide | Form::Columns(_), false) if records.is_empty() => {
                String::new()
            }
            (Form::Table | Form::Wide, _) => {
                let is_wide = self.form.is_wide();
                self.table.part(records.iter().map(|record| record.row(is_wide)))
            }
            (Form::Columns(columns), _) => {
                self.table.part(documents()?.iter().map(|document| columns.row(document)))
            }
            (Form::Path(template), _) => template.text(documents()?),
            (Form::Name, _) => {
                records.iter().map(|it| clean(&it.name()).into_owned() + "\n").collect()
            }
            (Form::Json, false) => json(&documents()?)?,
            (Form::Yaml, false) => yaml(&documents()?)?,
            (Form::Json, true) => {
                documents()?.iter().map(json_line).collect::<anyhow::Result<_>>()?
            }
            (Form::Yaml, true) => {
                documents()?.iter().map(yaml_part).collect::<anyhow::Result<_>>()?
            }
        })
    }
}
