//! The last decisions as a list, the newest at the end, and what is decided meanwhile.
//!
//! # Invariant
//! A decision does not change. So while decisions are watched each is printed once; where more were
//! made between two looks than are kept, that is said.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum as _;
use monoceros_proto::v1;
use serde_json::Value;
use tokio::time::sleep;

use super::GetArgs;
use crate::cli::amounts::moment;
use crate::cli::cluster::Cluster;
use crate::cli::document::{document, json, json_line, yaml};
use crate::cli::names;
use crate::cli::output::{self, Form, WrongLine};
use crate::cli::table::Table;

/// How many decisions are printed, unless they are named; of the watched ones, to begin with.
const SHOWN: usize = 100;

/// Prints decisions, once or until it is interrupted.
pub(super) async fn run(cluster: &mut Cluster, args: &GetArgs) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new(args);
    if !args.names.is_empty() {
        if args.watch {
            let text = "--watch has nothing to wait for: a decision does not change";
            return Err(WrongLine(text.to_owned()).into());
        }
        let (found, n_missing) = named(cluster, args).await?;
        output::write(&printer.shown(&found)?)?;
        return Ok(if n_missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let wanted = request(args);
    let first = cluster.decisions(&wanted, 0, SHOWN).await?;
    if first.kept == 0 {
        writeln!(io::stderr(), "no decisions are kept: `decisions.kept` is 0")?;
    } else if first.decisions.is_empty() && !args.watch {
        writeln!(io::stderr(), "no decisions found")?;
    }
    output::write(&printer.shown(&first.decisions)?)?;
    let mut last = first.newest.unwrap_or(0);
    if !args.watch {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        sleep(Duration::from_secs(args.interval.into())).await;
        let mut next = cluster.decisions(&wanted, last, usize::MAX).await?;
        if next.newest.is_some_and(|newest| newest < last) {
            // The resource manager has come back, and numbers have begun anew.
            next = cluster.decisions(&wanted, 0, usize::MAX).await?;
            last = 0;
        }
        // Without a filter numbers have no gaps.
        let is_all = wanted == v1::ListDecisionsRequest::default();
        if is_all && next.decisions.first().is_some_and(|first| first.id > last + 1) {
            writeln!(io::stderr(), "more was decided than is kept: some is left out here")?;
        }
        output::write(&printer.shown(&next.decisions)?)?;
        last = next.newest.unwrap_or(last);
    }
}

/// The decisions with the numbers of the line, and how many of those are not there.
async fn named(
    cluster: &mut Cluster,
    args: &GetArgs,
) -> anyhow::Result<(Vec<v1::DecisionInfo>, usize)> {
    let (mut found, mut n_missing) = (Vec::new(), 0);
    for name in &args.names {
        match cluster.decision(name).await? {
            Some(decision) => found.push(decision),
            None => n_missing += 1,
        }
    }
    Ok((found, n_missing))
}

fn request(args: &GetArgs) -> v1::ListDecisionsRequest {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let kind = args.decided.and_then(|kind| kind.to_possible_value());
    v1::ListDecisionsRequest {
        application_id: text(&args.app),
        queue: text(&args.queue),
        node_id: text(&args.node),
        allocation_key: text(&args.request),
        kind: kind.map(|kind| kind.get_name().to_owned()).unwrap_or_default(),
        ..Default::default()
    }
}

/// Prints decisions as they come.
struct Printer {
    form: Form,
    /// Whether there may be more later: each decision is a document of its own then.
    goes_on: bool,
    table: Table,
}

impl Printer {
    fn new(args: &GetArgs) -> Self {
        let mut titles = vec!["DECISION", "TIME", "KIND", "APPLICATION", "KEY", "NODE", "RULE"];
        if args.output == Form::Wide {
            titles.splice(6..6, ["QUEUE", "TRIED", "PASSED"]);
        }
        Self { form: args.output, goes_on: args.watch, table: Table::new(titles) }
    }

    fn shown(&mut self, decisions: &[v1::DecisionInfo]) -> anyhow::Result<String> {
        let documents = || decisions.iter().map(of_decision).collect::<anyhow::Result<Vec<_>>>();
        Ok(match (self.form, self.goes_on) {
            (Form::Table | Form::Wide, false) if decisions.is_empty() => String::new(),
            (Form::Table | Form::Wide, _) => {
                let rows: Vec<_> = decisions.iter().map(|decision| self.row(decision)).collect();
                self.table.part(rows)
            }
            (Form::Name, _) => decisions.iter().map(|it| it.id.to_string() + "\n").collect(),
            (Form::Json, false) => json(&Value::Array(documents()?))?,
            (Form::Yaml, false) => yaml(&Value::Array(documents()?))?,
            (Form::Json, true) => {
                documents()?.iter().map(json_line).collect::<anyhow::Result<String>>()?
            }
            (Form::Yaml, true) => {
                let one = |document: &Value| Ok("---\n".to_owned() + &yaml(document)?);
                documents()?.iter().map(one).collect::<anyhow::Result<String>>()?
            }
        })
    }

    fn row(&self, decision: &v1::DecisionInfo) -> Vec<String> {
        let mut row = vec![
            decision.id.to_string(),
            moment(decision.time),
            decision.kind.clone(),
            decision.application_id.clone(),
            names::of_decision(decision).to_owned(),
            decision.node_id.clone(),
            decision.ruled.clone(),
        ];
        if self.form == Form::Wide {
            let passed = decision.passed_over.iter();
            let passed = passed.map(|it| format!("{} {}", it.count, it.reason));
            let passed = passed.collect::<Vec<_>>().join(", ");
            row.splice(6..6, [decision.queue_name.clone(), decision.tried.to_string(), passed]);
        }
        row
    }
}

fn of_decision(decision: &v1::DecisionInfo) -> anyhow::Result<Value> {
    document("monoceros.v1.DecisionInfo", decision)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::Kind;
    use super::*;

    fn decision(id: u64) -> v1::DecisionInfo {
        v1::DecisionInfo {
            id,
            time: 1_000_000_000,
            kind: "allocation".to_owned(),
            ruled: "placed".to_owned(),
            application_id: "app".to_owned(),
            allocation_key: "ask".to_owned(),
            queue_name: "root.a".to_owned(),
            node_id: "n1".to_owned(),
            tried: 1,
            passed_over: vec![v1::PassedOverNodes {
                reason: "not enough room".to_owned(),
                count: 2,
                example: String::new(),
            }],
            ..Default::default()
        }
    }

    #[test]
    fn a_decision_is_a_line() {
        let args = GetArgs { output: Form::Wide, ..GetArgs::all(Kind::Decisions) };
        expect![[r#"
            DECISION   TIME                       KIND         APPLICATION   KEY   NODE   QUEUE    TRIED   PASSED              RULE
            7          1970-01-01T00:00:01.000Z   allocation   app           ask   n1     root.a   1       2 not enough room   placed
        "#]]
        .assert_eq(&Printer::new(&args).shown(&[decision(7)]).unwrap());
        let args = GetArgs { output: Form::Name, ..args };
        assert_eq!(Printer::new(&args).shown(&[decision(7), decision(8)]).unwrap(), "7\n8\n");
    }

    #[test]
    fn documents_are_a_list_or_where_more_may_come_a_line_each() {
        let shown = |watch| {
            let args = GetArgs { output: Form::Json, watch, ..GetArgs::all(Kind::Decisions) };
            Printer::new(&args).shown(&[decision(1), decision(2)]).unwrap()
        };
        let list: Vec<Value> = serde_json::from_str(&shown(false)).unwrap();
        let lines: Vec<Value> =
            shown(true).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(list, lines);
        assert_eq!(list[1]["allocationKey"], "ask");
    }
}
