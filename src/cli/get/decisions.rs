//! Lists recent decisions, the newest last, and new ones as they are made.
//!
//! # Invariant
//! A decision does not change, so while decisions are watched each is printed once. If more
//! decisions were made between two reads than the scheduler keeps, a message says so.

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
use crate::cli::document::document;
use crate::cli::names;
use crate::cli::output::{self, WrongLine};
use crate::cli::records::{Printer, Record};

/// Most decisions that are printed without `--limit`, except named ones. A watch begins with them.
const SHOWN: u32 = 100;

/// Prints decisions once, or until interrupted.
pub(super) async fn run(cluster: &mut Cluster, args: &GetArgs) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new::<v1::DecisionInfo>(args.output, args.watch);
    if !args.names.is_empty() {
        if args.watch {
            let text = "--watch has nothing to wait for: a decision does not change";
            return Err(WrongLine(text.to_owned()).into());
        }
        let (found, n_missing) = named(cluster, args).await?;
        output::write(&printer.text(&found)?)?;
        return Ok(if n_missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let filter = filter(args);
    let most = args.pick.limit.unwrap_or(SHOWN) as usize;
    let first = cluster.decisions(&filter, 0, most).await?;
    if first.kept == 0 {
        writeln!(io::stderr(), "no decisions are kept: `decisions.kept` is 0")?;
    } else if first.decisions.is_empty() && !args.watch {
        writeln!(io::stderr(), "no decisions found")?;
    }
    output::write(&printer.text(&first.decisions)?)?;
    let mut last = first.newest.unwrap_or(0);
    if !args.watch {
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        sleep(Duration::from_secs(args.interval.into())).await;
        let mut next = cluster.decisions(&filter, last, usize::MAX).await?;
        if next.newest.is_some_and(|newest| newest < last) {
            // The resource manager registered again, and numbers start over.
            next = cluster.decisions(&filter, 0, usize::MAX).await?;
            last = 0;
        }
        // Without a filter, numbers have no gaps.
        let is_all = filter == v1::ListDecisionsRequest::default();
        if is_all && next.decisions.first().is_some_and(|first| first.id > last + 1) {
            writeln!(io::stderr(), "more was decided than is kept: some is left out here")?;
        }
        output::write(&printer.text(&next.decisions)?)?;
        last = next.newest.unwrap_or(last);
    }
}

/// Returns the named decisions, and how many are missing.
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

fn filter(args: &GetArgs) -> v1::ListDecisionsRequest {
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

impl Record for v1::DecisionInfo {
    fn titles(is_wide: bool) -> Vec<&'static str> {
        let mut titles = vec!["DECISION", "TIME", "KIND", "APPLICATION", "KEY", "NODE", "RULE"];
        if is_wide {
            titles.splice(6..6, ["QUEUE", "TRIED", "PASSED"]);
        }
        titles
    }

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn document(&self) -> anyhow::Result<Value> {
        document("monoceros.v1.DecisionInfo", self)
    }

    fn row(&self, is_wide: bool) -> Vec<String> {
        let mut row = vec![
            self.id.to_string(),
            moment(self.time),
            self.kind.clone(),
            self.application_id.clone(),
            names::of_decision(self).to_owned(),
            self.node_id.clone(),
            self.ruled.clone(),
        ];
        if is_wide {
            let passed = self.passed_over.iter();
            let passed = passed.map(|it| format!("{} {}", it.count, it.reason));
            let passed = passed.collect::<Vec<_>>().join(", ");
            row.splice(6..6, [self.queue_name.clone(), self.tried.to_string(), passed]);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::cli::output::Form;

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
        let printer = |form| Printer::new::<v1::DecisionInfo>(form, false);
        expect![[r#"
            DECISION   TIME                       KIND         APPLICATION   KEY   NODE   QUEUE    TRIED   PASSED              RULE
            7          1970-01-01T00:00:01.000Z   allocation   app           ask   n1     root.a   1       2 not enough room   placed
        "#]]
        .assert_eq(&printer(Form::Wide).text(&[decision(7)]).unwrap());
        assert_eq!(printer(Form::Name).text(&[decision(7), decision(8)]).unwrap(), "7\n8\n");
    }

    #[test]
    fn documents_are_a_list_or_lines_when_followed() {
        let shown = |watch| {
            let mut printer = Printer::new::<v1::DecisionInfo>(Form::Json, watch);
            printer.text(&[decision(1), decision(2)]).unwrap()
        };
        let list: Vec<Value> = serde_json::from_str(&shown(false)).unwrap();
        let lines: Vec<Value> =
            shown(true).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(list, lines);
        assert_eq!(list[1]["allocationKey"], "ask");
    }
}
