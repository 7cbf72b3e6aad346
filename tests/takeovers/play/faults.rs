//! The faults, and what they do to a bed.

use std::time::Duration;

use monoceros_proto::v1;
use tokio::time::{Instant, sleep};

use super::bed::{Bed, MEMBERS, PATIENCE};
use crate::harness::Dice;
use crate::servers::Server;

/// Reason why an RM needs another owner, or another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The owner is killed and started again, with its id or with another.
    Kill,
    /// The owner is terminated, hands over, and is started again.
    End,
    /// The owner stands still for a while.
    Freeze,
    /// The line between the owner and its clients is cut for a while.
    Cut,
    /// The same line stands still, and breaks in the end.
    Stall,
    /// Neither clients nor members reach the owner for more than a lease, which reaches etcd.
    Isolate,
    /// The line between the owner and etcd is cut for more than a lease.
    CutStore,
    /// The line between the owner and one other member is cut for more than a lease, and clients
    /// of the owner have to connect again.
    Part,
    /// All etcds are killed, and started again after a while.
    KillStore,
    /// The same for [`AWAY`].
    LoseStore,
    /// Another etcd leads the others.
    MoveStore,
    /// The etcd that leads stands still until long after another one was elected.
    FreezeStore,
    /// Another process of the RM registers, or two do at once, of which the second one counts.
    Swap,
    /// One RM is moved to another member.
    Move,
    /// The owner is drained, and undrained when its RMs are served elsewhere.
    Drain,
}

impl Cause {
    /// Causes of each round.
    pub const ALL: [Self; 14] = [
        Self::Kill,
        Self::End,
        Self::Freeze,
        Self::Cut,
        Self::Stall,
        Self::Isolate,
        Self::CutStore,
        Self::Part,
        Self::KillStore,
        Self::MoveStore,
        Self::FreezeStore,
        Self::Swap,
        Self::Move,
        Self::Drain,
    ];

    /// The causes of these names, separated by commas.
    pub fn named(names: &str) -> Vec<Self> {
        let known = Self::ALL.into_iter().chain([Self::LoseStore]);
        let is_asked = |cause: &Self| names.split(',').any(|name| format!("{cause:?}") == name);
        known.filter(is_asked).collect()
    }

    /// Its row in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "owner killed",
            Self::End => "owner ended in order",
            Self::Freeze => "owner frozen 1–10 s",
            Self::Cut => "line of clients cut",
            Self::Stall => "line of clients silent",
            Self::Isolate => "owner reached by etcd alone",
            Self::CutStore => "owner cut from etcd",
            Self::Part => "owner cut from one other member",
            Self::KillStore => "etcd away, since its return",
            Self::LoseStore => "etcd away 60 s, since its return",
            Self::MoveStore => "leader of etcd moved",
            Self::FreezeStore => "leader of etcd frozen",
            Self::Swap => "another process of the RM",
            Self::Move => "RM moved",
            Self::Drain => "owner drained",
        }
    }
}

/// How long all etcds are away in a long play.
const AWAY: Duration = Duration::from_secs(60);

/// A fault that was begun.
pub struct Fault {
    cause: Cause,
    /// Place of the member that it struck.
    victim: usize,
    /// Time from its begin to its end.
    lasts: Duration,
    /// Place of the etcd that leads.
    leader: usize,
    /// Whether a member restarts with its id, and other details that have two ways.
    draw: bool,
}

impl Fault {
    /// Draws the details of a fault. `is_short` bounds its duration, for tests.
    pub fn new(
        cause: Cause,
        victim: usize,
        lease: Duration,
        dice: &mut Dice,
        is_short: bool,
    ) -> Self {
        let mut seconds = |from: u64, to: u64| {
            let span = usize::try_from((to - from) * 10 + 1).unwrap_or(1);
            Duration::from_secs(from)
                + Duration::from_millis(100) * u32::try_from(dice.below(span)).unwrap_or(0)
        };
        let lasts = match cause {
            Cause::Kill
            | Cause::End
            | Cause::Swap
            | Cause::Move
            | Cause::Drain
            | Cause::MoveStore => Duration::ZERO,
            Cause::Freeze if is_short => seconds(1, 4),
            Cause::FreezeStore => seconds(2, 4),
            Cause::Freeze => seconds(1, 10),
            Cause::Cut | Cause::Stall => seconds(1, 3),
            Cause::CutStore | Cause::Isolate | Cause::Part => lease * 3 / 2,
            Cause::KillStore => lease + seconds(0, 2),
            Cause::LoseStore => AWAY,
        };
        Self { cause, victim, lasts, leader: 0, draw: dice.one_in(2) }
    }

    /// Whether a second process of the RM registers at once after the first.
    pub fn swaps_twice(&self) -> bool {
        self.draw
    }

    /// The member with which the victim does not speak.
    fn other(&self) -> usize {
        (self.victim + 1 + usize::from(self.draw)) % MEMBERS
    }

    /// Begins the fault. Returns the time from which on its takeovers are measured.
    /// `rm` is the one that is moved.
    pub async fn begin(&mut self, bed: &mut Bed, rm: &str) -> Instant {
        let begun = Instant::now();
        match self.cause {
            Cause::Kill => bed.service(self.victim).send_signal("-KILL"),
            Cause::End => bed.service(self.victim).terminate(),
            Cause::Freeze => bed.service(self.victim).send_signal("-STOP"),
            Cause::Cut => bed.members[self.victim].front.lead_to(None),
            Cause::Stall => bed.members[self.victim].front.stand_still(true),
            Cause::Isolate => bed.isolate(self.victim, true),
            Cause::CutStore => bed.cut_from_store(self.victim, true),
            Cause::Part => {
                bed.part([self.victim, self.other()], true);
                bed.members[self.victim].front.cut();
            }
            Cause::KillStore | Cause::LoseStore => {
                bed.etcds.iter_mut().for_each(Server::stop);
                sleep(self.lasts).await;
                for etcd in &mut bed.etcds {
                    etcd.start().unwrap();
                }
                // They elect one first.
                bed.owners().await;
                return Instant::now();
            }
            Cause::MoveStore => bed.move_leading_etcd().await,
            Cause::FreezeStore => {
                self.leader = bed.leading_etcd().await.0;
                bed.etcds[self.leader].signal("-STOP").unwrap();
            }
            Cause::Swap => {}
            Cause::Move => {
                let to = bed.members[(self.victim + 1) % MEMBERS].id.clone();
                let (rm_id, reason) = (rm.to_owned(), String::new());
                let request = v1::MoveResourceManagerRequest { rm_id, to, reason };
                // Refused while a registration of the RM is under way.
                let moved = bed.admin(self.victim).await.move_resource_manager(request).await;
                if let Err(status) = moved {
                    eprintln!("`{rm}` is not moved: {status}");
                }
            }
            Cause::Drain => self.drain(bed, true).await,
        }
        begun
    }

    /// Waits for the end of the fault, and mends what it broke.
    pub async fn mend(&self, bed: &mut Bed) {
        let slot = &mut bed.members[self.victim];
        match self.cause {
            Cause::Kill => bed.restart(self.victim, self.draw),
            Cause::End => {
                let ended = slot.service.as_mut().unwrap().wait(PATIENCE).await;
                assert_eq!(ended.code(), Some(0));
                bed.restart(self.victim, self.draw);
            }
            Cause::Freeze => {
                sleep(self.lasts).await;
                bed.service(self.victim).send_signal("-CONT");
            }
            Cause::Cut => {
                sleep(self.lasts).await;
                let service = slot.service.as_ref().unwrap().grpc;
                slot.front.lead_to(Some(service));
            }
            Cause::Stall => {
                sleep(self.lasts).await;
                // What is under way would be received long after the session was displaced.
                slot.front.cut();
                slot.front.stand_still(false);
            }
            Cause::Isolate => {
                sleep(self.lasts).await;
                bed.isolate(self.victim, false);
            }
            Cause::CutStore => {
                sleep(self.lasts).await;
                bed.cut_from_store(self.victim, false);
            }
            Cause::Part => {
                sleep(self.lasts).await;
                bed.part([self.victim, self.other()], false);
            }
            Cause::FreezeStore => {
                sleep(self.lasts).await;
                bed.etcds[self.leader].signal("-CONT").unwrap();
            }
            Cause::Drain => self.drain(bed, false).await,
            Cause::KillStore | Cause::LoseStore | Cause::MoveStore | Cause::Swap | Cause::Move => {}
        }
        bed.until_ready().await;
    }

    async fn drain(&self, bed: &Bed, drain: bool) {
        let member_id = bed.members[self.victim].id.clone();
        let request = v1::DrainMemberRequest { member_id, drain, reason: String::new() };
        let answer = bed.admin(self.victim).await.drain_member(request).await.unwrap();
        assert_eq!(answer.into_inner().remaining, 0);
    }
}
