//! Rolling restarts: one member after the other is ended in order and started again, while the RMs
//! ask and release all the time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::bed::{MEMBERS, PATIENCE};
use super::rm::Kind;
use super::{Game, Outcome, Played};

/// Longest time of each kind of client between two answered asks, by rolling restarts.
pub type Gaps = BTreeMap<Kind, Vec<Duration>>;

/// Restarts all members in turn, this many times. Stops at the first violation. `None` without a
/// program of etcd.
pub async fn roll(lease: Duration, seed: u64, times: usize) -> Option<(Gaps, Outcome)> {
    let mut game = Game::start(lease, seed).await?;
    let mut gaps = Gaps::new();
    for _ in 0..times {
        game.all_served(Instant::now()).await;
        for Played { rm, .. } in &game.rms {
            rm.take_longest_gap();
        }
        game.restart_all().await;
        for Played { rm, .. } in &game.rms {
            gaps.entry(rm.kind).or_default().push(rm.take_longest_gap());
        }
        game.compare().await;
        game.check();
        if !game.outcome.verdict.is_good() {
            break;
        }
    }
    Some((gaps, game.outcome))
}

impl Game {
    /// Ends each member in order and starts it again with its id. The next one follows when it may
    /// decide.
    async fn restart_all(&mut self) {
        for at in 0..MEMBERS {
            for Played { rm, .. } in &self.rms {
                rm.note(format!("member {at} is ended in order"));
            }
            self.bed.service(at).terminate();
            let service = self.bed.members[at].service.as_mut().unwrap();
            assert_eq!(service.wait(PATIENCE).await.code(), Some(0));
            self.bed.restart(at, true);
            self.bed.until_ready().await;
        }
        self.all_served(Instant::now()).await;
    }
}

/// Returns a row for each kind of client.
pub fn table(gaps: &Gaps) -> String {
    let mut text =
        "| client | rolling restarts | longest gap: p50, s | worst, s |\n|---|---|---|---|"
            .to_owned();
    for (kind, gaps) in gaps {
        let mut gaps = gaps.clone();
        gaps.sort();
        let [median, worst] = [gaps.len() / 2, gaps.len() - 1].map(|at| gaps[at].as_secs_f64());
        let _ = write!(text, "\n| {} | {} | {median:.2} | {worst:.2} |", kind.name(), gaps.len());
    }
    text
}
