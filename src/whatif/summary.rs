//! The answer for people: first ten lines that say whether it is safe, then tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use monoceros_actors::rfc3339;

use super::answer::{Answer, Differences, EvictedRow, NeverRow, ShareRow, SideTotals, StartRow};
use super::durations::DurationCounts;
use crate::replay::numbers::{duration, percent};
use crate::replay::page::{SummaryTable, head, text_of};

/// The most rows of a table.
const ROWS: usize = 20;
/// The most groups of evictions on the first screen.
const GROUPS: usize = 3;

impl Answer {
    /// Whether nothing is evicted with the changes that is not evicted without them.
    pub fn is_safe(&self) -> bool {
        self.is_safe
    }

    /// The lines that say whether it is safe.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.verdict()];
        lines.extend(self.changes.iter().take(GROUPS).map(|change| format!("with {change}")));
        if self.changes.len() > GROUPS {
            lines.push(format!("and {} more changes", self.changes.len() - GROUPS));
        }
        let runs = if self.runs == 1 { String::new() } else { format!(", {} runs", self.runs) };
        let (at, horizon) = (rfc3339(self.at), span(self.horizon));
        lines.push(format!("from the snapshot of {at}, {horizon} ahead{runs}"));
        lines.extend(self.refused.iter().take(GROUPS).map(|refused| format!("refused: {refused}")));
        if !self.evicted.is_empty() {
            lines.push(self.evictions());
        }
        lines.push(self.at_once());
        lines.push(self.times());
        lines.push(self.never_line());
        let mut known = durations_line(&self.b);
        if let Some(n) = self.unknown_predicates.filter(|n| *n > 0) {
            let _ = write!(known, "; predicates of {n} requests unknown: they pass");
        }
        lines.push(known);
        lines
    }

    fn verdict(&self) -> String {
        match self.n_evicted_only_in_b {
            0 if self.a.evicted > 0 => {
                "Safe: nothing is evicted that is not evicted without the change.".to_owned()
            }
            0 => "Safe: nothing is evicted.".to_owned(),
            1 => "Not safe: 1 allocation is evicted that is not without the change.".to_owned(),
            n => format!("Not safe: {n} allocations are evicted that are not without the change."),
        }
    }

    /// What is evicted for whom, and what becomes of it.
    fn evictions(&self) -> String {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.evicted {
            *groups.entry(grounds(row)).or_default() += 1;
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, count)| Reverse(*count));
        let shown = groups.iter().take(GROUPS).map(|(group, count)| format!("{count} {group}"));
        let mut line = format!("evicted: {}", shown.collect::<Vec<_>>().join(", "));
        if groups.len() > GROUPS {
            let rest: usize = groups[GROUPS..].iter().map(|(_, count)| count).sum();
            let _ = write!(line, ", {rest} others");
        }
        let mut again: Vec<_> =
            self.evicted.iter().filter_map(|row| Some(row.again? - row.time)).collect();
        again.sort_by(f64::total_cmp);
        if again.is_empty() {
            return line + "; none of it starts again";
        }
        let median = duration(again[(again.len() - 1) / 2]);
        let starts = if again.len() == 1 { "starts" } else { "start" };
        let _ = write!(line, "; {} {starts} again, after {median} (median)", again.len());
        line
    }

    fn at_once(&self) -> String {
        format!("starts at once: {} (without the change {})", self.b.at_once, self.a.at_once)
    }

    fn times(&self) -> String {
        let Differences { earlier, later, same, .. } = self.differences;
        let by = |is_it: fn(f64) -> bool| {
            let mut of: Vec<_> = self
                .starts
                .iter()
                .filter_map(|row| row.difference)
                .filter(|it| is_it(*it))
                .collect();
            of.sort_by(f64::total_cmp);
            of.get(of.len().saturating_sub(1) / 2).map(|median| duration(median.abs()))
        };
        let by = |count: usize, is_it| match by(is_it) {
            Some(median) if count > 0 => format!(", by {median} (median)"),
            _ => String::new(),
        };
        let (sooner, after) = (by(earlier, |it| it < 0.0), by(later, |it| it > 0.0));
        format!(
            "requests that start earlier: {earlier}{sooner}; later: {later}{after}; when they would: {same}"
        )
    }

    fn never_line(&self) -> String {
        let Differences { only_in_a, only_in_b, in_neither, .. } = self.differences;
        let horizon = span(self.horizon);
        let mut line =
            format!("requests that do not start within {horizon}: {}", only_in_a + in_neither);
        if only_in_a > 0 {
            let _ = write!(line, ", {only_in_a} of which do without the change");
        }
        if only_in_b > 0 {
            let _ = write!(line, "; {only_in_b} others start only with it");
        }
        let Differences { submitted_started: started, submitted_waiting: waiting, .. } =
            self.differences;
        if started + waiting > 0 {
            let _ = write!(line, "; of what is submitted {started} start, {waiting} do not");
        }
        line
    }

    /// The tables below the first screen.
    pub(super) fn tables(&self) -> Vec<SummaryTable> {
        let mut tables = Vec::new();
        if !self.evicted.is_empty() {
            tables.push(evicted(&self.evicted));
        }
        if !self.starts.is_empty() {
            tables.push(starts(&self.starts));
        }
        if !self.never.is_empty() {
            tables.push(never(&self.never));
        }
        tables.push(shares("Queue", &self.queues));
        tables.push(shares("User", &self.users));
        tables
    }

    /// The whole answer as text.
    pub fn text(&self) -> String {
        let mut text = self.lines().join("\n") + "\n\n";
        text += text_of(&self.tables()).trim_end();
        text.push('\n');
        text
    }

    /// The whole answer as JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

/// How the durations are known of what runs and of what starts.
pub(super) fn durations_line(of: &SideTotals) -> String {
    let mut counts = of.running_durations;
    counts.add(of.started_durations);
    let DurationCounts { limit, measured, unknown } = counts;
    let mut line = format!("run times: {limit} by their limit, {measured} by what ended like them");
    if unknown > 0 {
        let _ = write!(line, ", {unknown} unknown: taken to run until the horizon");
    }
    line
}

/// For whom, or by which rule, an allocation is evicted.
fn grounds(row: &EvictedRow) -> String {
    let queue = row.for_queue.as_deref().unwrap_or("-");
    match row.grounds {
        "guarantee" => format!("for the guarantee of {queue}"),
        "quota" => format!("above the maximum of {queue}"),
        "requiredNode" => "for what can run on that node only".to_owned(),
        "nodeRemoved" => "with a removed node".to_owned(),
        _ => "for other reasons".to_owned(),
    }
}

/// Formats a horizon: in whole hours up to three days.
pub(super) fn span(seconds: f64) -> String {
    let hours = seconds / 3_600.0;
    if hours.fract() == 0.0 && (1.0..=72.0).contains(&hours) {
        return format!("{hours} h");
    }
    duration(seconds)
}

fn time(at: Option<f64>) -> String {
    at.map_or("-".to_owned(), duration)
}

/// Adds a row that says how many more there are.
fn with_rest(mut rows: Vec<Vec<String>>, all: usize) -> Vec<Vec<String>> {
    if let (true, Some(columns)) = (all > rows.len(), rows.first().map(Vec::len)) {
        let mut row = vec![String::new(); columns];
        row[0] = format!("and {} more", all - rows.len());
        rows.push(row);
    }
    rows
}

fn evicted(rows: &[EvictedRow]) -> SummaryTable {
    let row = |row: &EvictedRow| {
        let again = match row.again {
            Some(again) => format!("+{}", duration(again - row.time)),
            None if row.is_asked_anew => "waits".to_owned(),
            None => "-".to_owned(),
        };
        let of = &row.of;
        let names = [&of.application, &of.key, &of.queue, &row.node].map(String::clone);
        let mut fields = names.to_vec();
        fields.extend([grounds(row), duration(row.time), duration(row.ran), again]);
        fields
    };
    let columns =
        ["Evicted", "request", "queue", "node", "why", "after", "had run", "starts again"];
    let shown = rows.iter().take(ROWS).map(row).collect();
    SummaryTable { head: head(&columns), rows: with_rest(shown, rows.len()), n_texts: 5 }
}

fn starts(rows: &[StartRow]) -> SummaryTable {
    let row = |row: &StartRow| {
        let difference = match row.difference {
            Some(difference) if difference > 0.0 => format!("+{}", duration(difference)),
            Some(difference) => format!("-{}", duration(-difference)),
            None => "-".to_owned(),
        };
        let of = &row.of;
        let mut fields = [&of.application, &of.key, &of.queue].map(String::clone).to_vec();
        fields.extend([time(row.a), time(row.b), difference]);
        fields
    };
    let columns = ["Starts", "request", "queue", "without", "with", "difference"];
    let shown = rows.iter().take(ROWS).map(row).collect();
    SummaryTable { head: head(&columns), rows: with_rest(shown, rows.len()), n_texts: 3 }
}

pub(super) fn never(rows: &[NeverRow]) -> SummaryTable {
    let row = |row: &NeverRow| {
        let of = &row.of;
        let mut fields = [&of.application, &of.key, &of.queue].map(String::clone).to_vec();
        let why = [&row.gang, &row.why].into_iter().filter(|text| !text.is_empty());
        fields.push(why.cloned().collect::<Vec<_>>().join("; "));
        fields.push(row.count.to_string());
        fields
    };
    let columns = ["Waits at the end", "request", "queue", "why", "allocations"];
    let shown = rows.iter().take(ROWS).map(row).collect();
    SummaryTable { head: head(&columns), rows: with_rest(shown, rows.len()), n_texts: 4 }
}

fn shares(of: &str, rows: &[ShareRow]) -> SummaryTable {
    let row = |row: &ShareRow| {
        let (a, b) = (&row.a, &row.b);
        let mut fields = vec![row.name.clone(), percent(a.mean), percent(b.mean)];
        fields.extend([a, b].map(|side| side.started.to_string()));
        fields.extend([a.wait_median, b.wait_median, a.wait_p95, b.wait_p95].map(duration));
        fields
    };
    let columns = [
        of,
        "share without",
        "with",
        "started without",
        "with",
        "median wait without",
        "with",
        "p95 without",
        "with",
    ];
    let shown = rows.iter().take(ROWS).map(row).collect();
    SummaryTable { head: head(&columns), rows: with_rest(shown, rows.len()), n_texts: 1 }
}
