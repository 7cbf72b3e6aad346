//! Conversion of explanations to snapshots.

use std::collections::BTreeMap;

use monoceros_rules::decide::explain::{self, Cause, Change, Why};
use monoceros_rules::nodes::NodeLacks;
use monoceros_rules::values::resources::Resources;

use crate::application::explained::{ExplainedApplication, ExplainedClass};
use crate::queue::{Gate, Rank};
use crate::snapshot::{
    ChangeSnapshot, ExplanationSnapshot, NodeCounts, ObstacleSnapshot, RankSnapshot,
};

/// The surroundings of an application: its partition and its queues.
pub(crate) struct Circumstances<'a> {
    /// Obstacles of the whole partition.
    pub(crate) closed: &'a [Why],
    /// Since when the partition is in its state, ns since the epoch.
    pub(crate) closed_since_ns: i64,
    /// Since when its decisions are on hold, ns since the epoch.
    pub(crate) held_since_ns: i64,
    /// The queues of the application, root first.
    pub(crate) gates: Vec<&'a Gate>,
    /// For each of these queues the rank of the next queue below it; for the leaf, the rank of the
    /// application. `None` if that queue or application is not among those with pending asks.
    pub(crate) ranks: Vec<Option<&'a Rank>>,
}

/// The classes of an application; `None` if it has no ask with the requested key.
pub(crate) fn of(
    mut application: ExplainedApplication,
    around: &Circumstances<'_>,
) -> Option<Vec<ExplanationSnapshot>> {
    let classes = application.classes.take()?;
    Some(classes.into_iter().map(|it| class(it, &application, around)).collect())
}

fn class(
    class: ExplainedClass,
    application: &ExplainedApplication,
    around: &Circumstances<'_>,
) -> ExplanationSnapshot {
    let wanted = &class.spec.resources;
    let mut obstacles = class.obstacles;
    for gate in &around.gates {
        obstacles.extend(if class.takes_place {
            gate.room().obstacles(&Resources::new(), false)
        } else {
            gate.room().obstacles(wanted, application.starts)
        });
    }
    obstacles.extend_from_slice(around.closed);
    let is_gang = class.keys.is_empty();
    explain::in_order(&mut obstacles);
    let alone = (obstacles.len() == 1).then_some(if is_gang { "the gang" } else { "this ask" });
    let changes = explain::cure(&obstacles);
    let cure = explain::sentence(&changes);
    let since = |why: &Why| match (why, class.noted) {
        (Why::PartitionStopped { .. }, _) => around.closed_since_ns,
        (Why::OnHold { .. }, _) => around.held_since_ns,
        (Why::BacksOff { .. }, _) => application.backs_off_since_ns.unwrap_or_default(),
        (_, Some((cause, since))) if why.cause() == cause => since,
        _ => 0,
    };
    let shown = obstacles.iter().map(|why| ObstacleSnapshot {
        cause: why.cause().text().to_owned(),
        object: object(why),
        short: why.short(),
        have: why.have(),
        want: why.want(),
        since: since(why),
        message: why.sentence(alone),
    });
    let shown: Vec<_> = shown.collect();
    let is_refused = obstacles.iter().any(|why| matches!(why, Why::Refused { .. }));
    let first = shown.first().cloned().unwrap_or_else(|| ObstacleSnapshot {
        cause: Cause::Next.text().to_owned(),
        since: class.created_ns,
        message: "nothing is in the way: it is tried in its turn".to_owned(),
        ..ObstacleSnapshot::default()
    });
    ExplanationSnapshot {
        allocation_keys: class.keys.iter().map(ToString::to_string).collect(),
        count: i64::try_from(class.count).unwrap_or(i64::MAX),
        resource: (**wanted).clone(),
        cause: first.cause,
        since: first.since,
        object: first.object,
        short: first.short,
        message: first.message,
        cure,
        preemption: class.preemption.clone(),
        gang: class.gang,
        task_group: class.spec.task_group.as_deref().cloned().unwrap_or_default(),
        obstacles: shown,
        order: order(class.position, application, around),
        nodes: nodes(&class.lacks, class.texts, is_refused),
        changes: changes.iter().map(change).collect(),
    }
}

fn object(why: &Why) -> String {
    match why {
        Why::Gang(gang) => gang.group().map(ToString::to_string).unwrap_or_default(),
        why => why.object().map(ToString::to_string).unwrap_or_default(),
    }
}

fn order(
    position: usize,
    application: &ExplainedApplication,
    around: &Circumstances<'_>,
) -> Vec<RankSnapshot> {
    let leaf = around.gates.len().saturating_sub(1);
    let ranked = around.gates.iter().zip(&around.ranks).enumerate();
    let ranked = ranked.filter_map(|(at, (gate, rank))| {
        let rank = (*rank)?;
        Some(RankSnapshot {
            level: if at == leaf { "application" } else { "queue" }.to_owned(),
            within: gate.path.to_string(),
            rank: number(rank.before + 1),
            of: number(rank.of),
            first: rank.first.to_string(),
        })
    });
    let asks = RankSnapshot {
        level: "ask".to_owned(),
        within: application.id.to_string(),
        rank: number(position + 1),
        of: number(application.n_classes),
        first: application.first_ask.as_deref().unwrap_or_default().to_owned(),
    };
    ranked.chain([asks]).collect()
}

fn nodes(lacks: &NodeLacks, mut texts: BTreeMap<String, u32>, is_refused: bool) -> NodeCounts {
    // If every node with room refused, the nodes themselves are not recorded.
    let refused = lacks.refused + if is_refused { lacks.holding } else { 0 };
    if refused == 0 {
        // The recorded reasons are out of date.
        texts.clear();
    } else if texts.is_empty() {
        texts.insert("no reason was given".to_owned(), number(refused));
    }
    if lacks.excluded > 0 {
        texts.insert("it can never run there".to_owned(), number(lacks.excluded));
    }
    let unfit = lacks.unfit.iter();
    texts.extend(unfit.map(|(reason, nodes)| (reason.to_string(), number(*nodes))));
    let no_room = lacks.lacking.iter();
    NodeCounts {
        total: number(lacks.nodes),
        closed: number(lacks.closed),
        too_small: number(lacks.too_small),
        constraints: number(lacks.constraints),
        topology: number(lacks.topology),
        reserved: number(lacks.reserved),
        no_room: no_room.map(|(name, nodes)| (name.to_string(), number(*nodes))).collect(),
        predicates: texts,
    }
}

fn change(change: &Change) -> ChangeSnapshot {
    let (count, at) = match change {
        Change::RunningApplications { count, .. }
        | Change::Placeholders { count, .. }
        | Change::GangMembers { count, .. }
        | Change::NodeInDomain { count: count @ 2.., .. }
        | Change::AdmittedNode { count: count @ 2.., .. }
        | Change::UsableNode { count: count @ 2.., .. }
        | Change::Node { count: count @ 2.., .. } => (*count, 0),
        Change::Time { at_ns } => (0, at_ns.unwrap_or_default()),
        _ => (0, 0),
    };
    ChangeSnapshot {
        kind: change.kind().to_owned(),
        object: change.object().unwrap_or_default().to_owned(),
        resource: change.resources().cloned().unwrap_or_default(),
        count,
        at,
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
