//! Takeovers: three members on an etcd serve RMs of several kinds, which ask and release all the
//! time, while one fault after the other strikes. How long each RM was without an owner is
//! measured, and the histories of the RMs are checked.

pub mod bed;
mod connections;
pub mod faults;
pub mod figures;
pub mod history;
mod library;
mod one_stream;
pub mod rm;
pub mod rolling;
pub mod stock;
mod three_streams;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use self::bed::{Bed, MEMBERS, PATIENCE};
use self::faults::{Cause, Fault};
use self::figures::Sample;
use self::history::Verdict;
use self::rm::{Kind, TestRm};
use crate::harness::Dice;

/// Rounds of a long play between two in which etcd is away for a minute.
const ROUNDS: usize = 8;
/// Time for both sides to agree at rest.
const AGREE: Duration = Duration::from_secs(10);

/// What to play.
pub struct Plan {
    pub seed: u64,
    pub lease: Duration,
    /// Number of takeovers to measure.
    pub takeovers: usize,
    /// Whether faults are short, and follow each other at once, for tests.
    pub is_short: bool,
    /// The only causes, if there are some.
    pub only: Option<Vec<Cause>>,
}

/// Results of a play.
#[derive(Default)]
pub struct Outcome {
    pub samples: Vec<Sample>,
    /// Violations of all RMs.
    pub verdict: Verdict,
    /// Number of faults by their cause, also of those that ended no session.
    pub faults: BTreeMap<Cause, usize>,
    /// Allocations that were received.
    pub n_allocations: usize,
    /// Sessions and history of the first RM with a violation, and logs of the members.
    pub account: String,
}

/// Plays a plan. Stops at the first violation. `None` without a program of etcd.
pub async fn play(plan: &Plan) -> Option<Outcome> {
    let mut game = Game::start(plan.lease, plan.seed).await?;
    let (mut causes, mut rounds) = (Vec::new(), 0);
    let is_enough = |outcome: &Outcome| match plan.only {
        // They may end no session.
        Some(_) => outcome.faults.values().sum::<usize>() >= plan.takeovers,
        None => outcome.samples.len() >= plan.takeovers,
    };
    while !is_enough(&game.outcome) && game.outcome.verdict.is_good() {
        if causes.is_empty() {
            causes = Cause::ALL.to_vec();
            if let Some(only) = &plan.only {
                causes = only.clone();
            } else if !plan.is_short && rounds % ROUNDS == 0 {
                causes.push(Cause::LoseStore);
            }
            rounds += 1;
        }
        let cause = causes.swap_remove(game.dice.below(causes.len()));
        game.strike(cause, plan.is_short).await;
        game.compare().await;
        game.check();
    }
    Some(game.outcome)
}

/// A process of an RM.
enum Process {
    Stock(stock::Process),
    Library(library::Process),
}

impl Process {
    /// Lets it register no more.
    fn retire(&self) {
        match self {
            Self::Stock(process) => process.retire(),
            Self::Library(process) => process.retire(),
        }
    }
}

/// Starts a process of an RM, with a proof of its own if its kind has one.
fn start(rm: &TestRm, bed: &Bed, dice: &mut Dice, first: usize) -> Process {
    let addresses = bed.addresses(first);
    if rm.kind == Kind::Library {
        return Process::Library(library::Process::start(rm, addresses));
    }
    let draws = [dice.below(usize::MAX), dice.below(usize::MAX)];
    let proof = format!("{:016x}{:016x}", draws[0], draws[1]);
    let proof = rm.kind.proves().then_some(proof);
    Process::Stock(stock::Process::start(rm, addresses, proof))
}

/// An RM with its present process.
struct Played {
    rm: TestRm,
    process: Process,
}

struct Game {
    bed: Bed,
    rms: Vec<Played>,
    dice: Dice,
    /// Whether the sessions before each takeover are printed.
    shows: bool,
    outcome: Outcome,
}

impl Game {
    /// Starts three etcds, three members, and an RM of each kind, and waits until all are served.
    /// `None` without a program of etcd.
    async fn start(lease: Duration, seed: u64) -> Option<Self> {
        let bed = Bed::start(lease).await?;
        let mut dice = Dice(seed);
        let mut rms = Vec::new();
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            let rm = TestRm::start(kind);
            let process = start(&rm, &bed, &mut dice, at);
            rms.push(Played { rm, process });
        }
        let shows = std::env::var_os("TAKEOVERS_SHOW").is_some();
        let game = Self { bed, rms, dice, shows, outcome: Outcome::default() };
        game.all_served(Instant::now()).await;
        Some(game)
    }

    /// Lets one fault strike, and measures how long the RMs that it concerns are not served.
    async fn strike(&mut self, cause: Cause, is_short: bool) {
        if !is_short && matches!(cause, Cause::Freeze | Cause::Stall) {
            self.renew_library().await;
        }
        let owners = self.bed.owners().await;
        let owned = |at| owners.values().filter(|owner| **owner == at).count();
        let most = (0..MEMBERS).map(owned).max().unwrap_or_default();
        let busiest: Vec<_> = (0..MEMBERS).filter(|at| owned(*at) == most).collect();
        let victim = self.dice.one_of(&busiest).unwrap_or_default();
        let is_owned = |at: &usize| owners.get(self.rms[*at].rm.id()) == Some(&victim);
        let mut concerned: Vec<_> = (0..self.rms.len()).filter(is_owned).collect();
        let chosen = self.dice.one_of(&concerned).unwrap_or_default();
        match cause {
            Cause::KillStore | Cause::LoseStore | Cause::MoveStore | Cause::FreezeStore => {
                concerned = (0..self.rms.len()).collect();
            }
            Cause::Swap | Cause::Move => concerned = vec![chosen],
            _ => {}
        }
        if cause == Cause::Freeze {
            for played in (0..).zip(&self.rms).filter(|(at, _)| !concerned.contains(at)) {
                played.1.rm.delay();
            }
        }
        let state = |at: &usize| (self.rms[*at].rm.clone(), self.rms[*at].rm.session());
        let concerned: Vec<_> = concerned.iter().map(state).collect();
        let mut fault = Fault::new(cause, victim, self.bed.lease, &mut self.dice, is_short);
        for (rm, _) in &concerned {
            rm.note(format!("{cause:?} of member {victim}"));
        }
        let begun = fault.begin(&mut self.bed, self.rms[chosen].rm.id()).await;
        if cause == Cause::Swap {
            let played = &mut self.rms[chosen];
            played.process.retire();
            played.process = start(&played.rm, &self.bed, &mut self.dice, victim);
            if fault.swaps_twice() {
                // The first one may be registering, or reporting.
                let pauses = [0, 5, 20, 50].map(Duration::from_millis);
                sleep(self.dice.one_of(&pauses).unwrap_or_default()).await;
                played.process.retire();
                played.process = start(&played.rm, &self.bed, &mut self.dice, victim + 1);
            }
        }
        fault.mend(&mut self.bed).await;
        if cause == Cause::Swap {
            // Until then the former process may still be served.
            let (rm, session) = &concerned[0];
            rm.until(PATIENCE, || rm.served_after(*session).is_some()).await;
        }
        self.all_served(Instant::now()).await;
        for (rm, session) in concerned {
            // An RM may have kept its session through a short fault.
            if let Some(served) = rm.served_after(session) {
                let took = served.saturating_duration_since(begun);
                if self.shows {
                    eprintln!("{cause:?} {} {took:?}\n{}", rm.id(), rm.sessions());
                }
                self.outcome.samples.push(Sample { cause, kind: rm.kind, took });
            }
        }
        *self.outcome.faults.entry(cause).or_default() += 1;
    }

    /// Replaces the process of the library, which waits longer in silence after each alarm of the
    /// last minute.
    async fn renew_library(&mut self) {
        for played in self.rms.iter_mut().filter(|played| played.rm.kind == Kind::Library) {
            let session = played.rm.session();
            played.process.retire();
            played.process = start(&played.rm, &self.bed, &mut self.dice, 0);
            played.rm.until(PATIENCE, || played.rm.served_after(session).is_some()).await;
        }
    }

    /// Waits until every RM is served again.
    async fn all_served(&self, since: Instant) {
        for Played { rm, .. } in &self.rms {
            if !rm.until(PATIENCE, || rm.last_served() > since).await {
                let logs = self.bed.logs();
                panic!("not served: {}\n{logs}", rm.account());
            }
        }
    }

    /// Lets the RMs rest, and compares their books with those of their owners. Both have time to
    /// agree.
    async fn compare(&mut self) {
        for Played { rm, .. } in &self.rms {
            rm.pause(true);
        }
        for Played { rm, .. } in &self.rms {
            let begun = Instant::now();
            let books = loop {
                let books = self.bed.books(rm.id()).await;
                if rm.is_at_rest() && books.as_ref() == Ok(&rm.books()) {
                    break books;
                }
                if begun.elapsed() > AGREE {
                    break books;
                }
                sleep(Duration::from_millis(20)).await;
            };
            match books {
                Ok(books) => rm.compare(&books),
                Err(why) => self.outcome.verdict.wrong.push(format!("{}: {why}", rm.id())),
            }
        }
        for Played { rm, .. } in &self.rms {
            rm.pause(false);
        }
    }

    /// Reads the verdicts until now, of which the first that is bad counts.
    fn check(&mut self) {
        let outcome = &mut self.outcome;
        outcome.n_allocations = self.rms.iter().map(|played| played.rm.n_allocations()).sum();
        for Played { rm, .. } in &self.rms {
            if outcome.verdict.is_good() {
                outcome.verdict = rm.verdict();
                outcome.account = rm.account();
            }
        }
        outcome.account += &self.bed.logs();
    }
}
