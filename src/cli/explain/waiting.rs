//! Explanations of all applications of a queue that wait, as one table.
//!
//! # Bounds
//! Each explanation costs the scheduler a step, so at most `--limit` applications are explained. The
//! others are counted.

use std::io::{self, Write as _};

use monoceros_actors::snapshot::ExplanationSnapshot;
use monoceros_proto::v1;
use serde::Serialize;
use tonic::{Code, Status};

use super::{Shape, first_explanations, request_names};
use crate::cli::cluster::{ApplicationFilter, Cluster};
use crate::cli::document::{json, yaml};
use crate::cli::names::Names;
use crate::cli::output;
use crate::cli::table::Table;

/// An application that waits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    application_id: String,
    queue: String,
    user: String,
    explanations: Vec<ExplanationSnapshot>,
    #[serde(skip)]
    names: Names,
}

/// Prints why the applications in a queue wait. An empty path is all queues.
pub(super) async fn run(
    cluster: &mut Cluster,
    queue: &str,
    limit: usize,
    shape: Shape,
) -> anyhow::Result<()> {
    let filter = ApplicationFilter { queue: queue.to_owned(), ..Default::default() };
    let mut waiting = cluster.applications(&filter).await?;
    waiting.retain(|it| it.requests > 0);
    let n_more = waiting.len().saturating_sub(limit);
    let mut explained = Vec::new();
    for application in waiting.into_iter().take(limit) {
        explained.extend(one(cluster, application).await?);
    }
    let text = match shape {
        Shape::Text if explained.is_empty() => "nothing waits\n".to_owned(),
        Shape::Text => table(&explained),
        Shape::Json => json(&explained)?,
        Shape::Yaml => yaml(&explained)?,
    };
    output::write(&text)?;
    if n_more > 0 {
        writeln!(io::stderr(), "{n_more} more applications wait: a higher --limit shows them")?;
    }
    Ok(())
}

/// Explains an application. `None` if it has ended since it was listed.
async fn one(
    cluster: &mut Cluster,
    application: v1::ApplicationInfo,
) -> anyhow::Result<Option<Waiting>> {
    let v1::ApplicationInfo { application_id, queue, user, .. } = application;
    let explanations = match first_explanations(cluster, &application_id).await {
        Err(error) if error.downcast_ref().is_some_and(is_over) => return Ok(None),
        explained => explained?,
    };
    let ids = vec![application_id.clone()];
    let filter = ApplicationFilter { ids, details: true, ..Default::default() };
    let detailed = cluster.applications(&filter).await?;
    let names = detailed.first().map(Names::of).unwrap_or_default();
    Ok(Some(Waiting { application_id, queue, user, explanations, names }))
}

fn is_over(status: &Status) -> bool {
    status.code() == Code::NotFound
}

fn table(waiting: &[Waiting]) -> String {
    let row = |it: &Waiting, class: &ExplanationSnapshot| {
        let requests = request_names(class, &it.names);
        let cause = [&class.cause, &class.object].map(String::as_str).join(" ");
        let cells = [&it.application_id, &it.queue, &requests, cause.trim_end(), &class.message];
        cells.map(str::to_owned).into()
    };
    let rows =
        waiting.iter().flat_map(|it| it.explanations.iter().map(move |class| row(it, class)));
    Table::new(["APPLICATION", "QUEUE", "REQUEST", "CAUSE", "WHY"]).part(rows)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn each_kind_of_requests_has_a_row() {
        let class = |key: &str, count, cause: &str, object: &str| ExplanationSnapshot {
            allocation_keys: vec![key.to_owned()],
            count,
            cause: cause.to_owned(),
            object: object.to_owned(),
            message: format!("because of {object}"),
            ..ExplanationSnapshot::default()
        };
        let waiting = Waiting {
            application_id: "a".to_owned(),
            queue: "root.q".to_owned(),
            user: "u".to_owned(),
            explanations: vec![
                class("k1", 1, "queueQuota", "root.q"),
                class("k2", 3, "noNode", ""),
            ],
            names: Names::default(),
        };
        expect![[r"
            APPLICATION   QUEUE    REQUEST         CAUSE               WHY
            a             root.q   k1              queueQuota root.q   because of root.q
            a             root.q   k2 and 2 more   noNode              because of
        "]]
        .assert_eq(&table(&[waiting]));
    }
}
