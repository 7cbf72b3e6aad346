//! Stories of a client whose owner is lost, told by members that are no scheduler, in virtual time.

mod admin;
mod leave;
mod members;
mod successors;
mod tls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_proto::v1 as cb;
use tokio::time::{Instant, sleep, timeout};
use tonic::Status;

use self::members::{Members, refusal};
use crate::{Callbacks, Client, Event, Events, Fit, Options, Report};

/// Servers of the services, which only tests need.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::pedantic, reason = "generated")]
mod servers {
    include!(concat!(env!("OUT_DIR"), "/servers/monoceros.si.v1.rs"));

    /// Package `monoceros.v1`.
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/servers/monoceros.v1.rs"));
    }
}

const PATIENCE: Duration = Duration::from_secs(300);

/// A program that reports its allocations and pending asks.
struct Program {
    client: Client,
    events: Events,
    known: Arc<Mutex<Vec<si::Allocation>>>,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn options(members: &Members, addresses: &[&str]) -> Options {
    let url = |address: &str| format!("http://{address}");
    let options = Options::at(url(addresses[0]), "rm").unwrap();
    let mut options = options.other_addresses(addresses[1..].iter().map(|it| url(it))).unwrap();
    options.dial = members.dial();
    // Members are tried in the order of their names.
    options.shuffle = |_| {};
    options
}

impl Program {
    fn start(options: Options) -> Self {
        let known: Arc<Mutex<Vec<si::Allocation>>> = Arc::default();
        let of_state = Arc::clone(&known);
        let state =
            move || Report { allocations: of_state.lock().unwrap().clone(), ..Report::default() };
        let (client, events) = Client::start(options, state);
        Self { client, events, known }
    }

    /// Starts, and waits for a session.
    async fn registered(options: Options) -> Self {
        let mut program = Self::start(options);
        assert_eq!(program.session().await, 1);
        program
    }

    async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.events.next()).await.expect("in time").expect("goes on")
    }

    /// Waits for the next session.
    async fn session(&mut self) -> u64 {
        loop {
            if let Event::Registered { session, .. } = self.next().await {
                return session;
            }
        }
    }

    /// Waits for the loss of the session, and returns its status.
    async fn loss(&mut self) -> Status {
        loop {
            if let Event::Disconnected(status) = self.next().await {
                return status;
            }
        }
    }

    async fn ask(&self, key: &str) {
        let ask = si::Allocation::ask("app", key, [("vcore", 1)]);
        self.known.lock().unwrap().push(ask.clone());
        self.client.ask(vec![ask]).await.unwrap();
    }

    /// Waits until the ask is placed, and returns the member that placed it.
    async fn placed(&mut self, key: &str) -> String {
        loop {
            let Event::Allocations(reply) = self.next().await else { continue };
            for new in reply.new {
                let mut known = self.known.lock().unwrap();
                let of_key = known.iter_mut().find(|it| it.allocation_key == new.allocation_key);
                of_key.unwrap().node_id.clone_from(&new.node_id);
                if new.allocation_key == key {
                    return new.node_id;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_owner_is_replaced_at_once() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    program.ask("a").await;
    assert_eq!(program.placed("a").await, "m1");
    sleep(Duration::from_secs(2)).await;

    members.kill("m1");
    let killed = Instant::now();
    program.ask("b").await;
    assert_eq!(program.placed("b").await, "m2");
    assert!(killed.elapsed() < ms(50), "{:?}", killed.elapsed());

    let calls = members.calls();
    let [first, second] = &calls[..] else { panic!("{calls:?}") };
    let proof = first.text("x-si-proof").unwrap();
    assert!(proof.len() == 32 && proof.bytes().all(|byte| byte.is_ascii_hexdigit()), "{proof}");
    assert_eq!(second.text("x-si-proof"), Some(proof));
    assert_eq!((first.text("x-si-session"), second.text("x-si-session")), (None, Some("1")));
    assert_eq!(second.text("x-si-redirect"), Some("yes"));
    assert_eq!(second.text("x-si-suspects"), None);
    let attempt = |text: &str| text.split_once('.').unwrap().1.parse::<u64>().unwrap();
    let attempts = [first, second].map(|call| attempt(call.text("x-si-attempt").unwrap()));
    assert!(attempts[0] < attempts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_owner_is_given_up_and_delivers_nothing_more() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(3)).await;
    members.freeze("m1");
    let frozen = Instant::now();
    program.ask("a").await;
    assert_eq!(program.placed("a").await, "m2");
    let taken = frozen.elapsed();
    assert!((ms(200)..ms(450)).contains(&taken), "{taken:?}");
    assert_eq!(members.calls()[1].text("x-si-suspects"), Some("of m1"));

    // It has placed the ask, too.
    members.thaw("m1");
    sleep(Duration::from_secs(3)).await;
    program.ask("b").await;
    assert_eq!(program.placed("b").await, "m2");
    assert!(program.known.lock().unwrap().iter().all(|known| known.node_id == "m2"));
    assert_eq!(members.registrations(), ["m1", "m2"]);
}

#[tokio::test(start_paused = true)]
async fn a_false_alarm_leads_back_to_the_owner() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(3)).await;
    members.mute("m1");
    assert!(program.loss().await.message().contains("nothing came for 3"));
    assert_eq!(program.session().await, 2);
    assert_eq!(members.registrations(), ["m1", "m2", "m1"]);
    let suspects: Vec<_> =
        members.calls().iter().map(|call| call.text("x-si-suspects").is_some()).collect();
    assert_eq!(suspects, [false, true, false]);
    // The second alarm comes after twice the time.
    let again = Instant::now();
    program.loss().await;
    assert!((ms(590)..ms(700)).contains(&again.elapsed()), "{:?}", again.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_only_seems_alive_is_tried_once() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    members.freeze("m1");
    members.seem_alive("m1");
    let frozen = Instant::now();
    assert_eq!(program.session().await, 2);
    assert!(frozen.elapsed() < ms(5_500), "{:?}", frozen.elapsed());
    // The frozen one never reads the second call, and who denied the suspicion is asked again.
    assert_eq!(members.registrations(), ["m1", "m2", "m2"]);
    assert_eq!(members.calls()[2].text("x-si-suspects"), None);
}

#[tokio::test(start_paused = true)]
async fn a_suspicion_is_kept_until_a_member_has_answered() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(3)).await;
    members.freeze("m1");
    members.freeze("m2");
    assert_eq!(program.session().await, 2);
    let calls = members.calls();
    let last = calls.last().unwrap();
    assert_eq!((&*last.member, last.text("x-si-suspects")), ("m3", Some("of m1")));
}

#[tokio::test(start_paused = true)]
async fn a_moved_session_goes_to_its_new_owner() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    members.end(1, &refusal("SESSION_MOVED", Some("m3")));
    let moved = Instant::now();
    program.ask("a").await;
    assert_eq!(program.placed("a").await, "m3");
    assert!(moved.elapsed() < ms(50), "{:?}", moved.elapsed());
    assert_eq!(members.registrations(), ["m1", "m3"]);
}

#[tokio::test(start_paused = true)]
async fn a_resync_goes_to_the_same_owner() {
    let members = Members::start(&["m1", "m2"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    members.end(1, &refusal("RESYNC_REQUIRED", None));
    assert_eq!(program.session().await, 2);
    assert_eq!(members.registrations(), ["m1", "m1"]);
}

#[tokio::test(start_paused = true)]
async fn redirects_in_a_circle_are_bounded() {
    let members = Members::start(&["m1", "m2"]);
    members.refuse("m1", refusal("NOT_OWNER", Some("m2")), 20);
    members.refuse("m2", refusal("NOT_OWNER", Some("m1")), 20);
    let mut program = Program::start(options(&members, &["m1", "m2"]));
    let begun = Instant::now();
    assert_eq!(program.session().await, 1);
    let calls = members.calls();
    let at_once = calls.iter().filter(|call| call.at.duration_since(begun) < ms(500)).count();
    assert!((2..=4).contains(&at_once), "{at_once} of {}", calls.len());
}

#[tokio::test(start_paused = true)]
async fn members_that_come_back_are_found() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    for member in ["m1", "m2", "m3"] {
        members.kill(member);
    }
    program.ask("a").await;
    sleep(Duration::from_secs(60)).await;
    members.add("m3");
    let back = Instant::now();
    assert_eq!(program.placed("a").await, "m3");
    assert!(back.elapsed() < Duration::from_secs(65), "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_the_arbiter_pauses_stay_short() {
    let members = Members::start(&["m1", "m2"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    for member in ["m1", "m2"] {
        members.refuse(member, refusal("ARBITER_UNAVAILABLE", None), 60);
    }
    members.end(1, &refusal("MEMBER_FENCED", None));
    assert_eq!(program.session().await, 2);
    let calls = members.calls();
    let distance = |pair: &[members::Call]| pair[1].at.duration_since(pair[0].at);
    let longest = calls[1..].windows(2).map(distance).max().unwrap();
    assert!(longest <= ms(1_100), "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn of_two_addresses_one_never_answers() {
    for (is_frozen, seconds) in [(true, 5), (false, 1)] {
        let members = Members::start(&["m1", "m2"]);
        let break_it = if is_frozen { Members::freeze } else { Members::darken };
        break_it(&members, "m1");
        let begun = Instant::now();
        let program = Program::registered(options(&members, &["m1", "m2"])).await;
        assert!(begun.elapsed() < ms(seconds * 1_000 + 100), "{:?}", begun.elapsed());
        assert_eq!(members.registrations(), ["m2"]);
        drop(program);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_lost_owner_are_not_delivered() {
    let members = Members::start(&["m1", "m2"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    program.ask("a").await;
    sleep(Duration::from_secs(2)).await;
    members.kill("m1");
    // The answer is queued for the program by now.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(program.placed("a").await, "m2");
}

/// Records by which member its callbacks are called.
#[derive(Clone, Default)]
struct Callers(Arc<Mutex<Vec<String>>>);

impl Callbacks for Callers {
    fn fits(&self, _: &cb::PredicateQuery, _: &str) -> Fit {
        Fit::Yes
    }

    fn assume(&self, sync: &cb::CacheSync) -> Vec<cb::CacheSyncFailure> {
        let args = sync.args.as_ref().unwrap();
        let member = args.assumed_allocations[0].node_id.clone();
        self.0.lock().unwrap().push(member);
        Vec::new()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_owner_calls_no_callbacks() {
    let members = Members::start(&["m1", "m2"]);
    let callers = Callers::default();
    let options = options(&members, &["m1"]).callbacks(callers.clone());
    let mut program = Program::registered(options).await;
    sleep(Duration::from_secs(2)).await;
    assert!(callers.0.lock().unwrap().len() > 10);
    members.freeze("m1");
    program.session().await;
    callers.0.lock().unwrap().clear();
    members.thaw("m1");
    sleep(Duration::from_secs(2)).await;
    let callers = callers.0.lock().unwrap();
    assert!(callers.len() > 10 && callers.iter().all(|member| member == "m2"), "{callers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_one_session_ends_with_its_owner() {
    let members = Members::start(&["m1", "m2"]);
    let mut program = Program::registered(options(&members, &["m1"]).once()).await;
    members.freeze("m1");
    let Event::Ended(status) = program.next().await else { panic!("it goes on") };
    assert!(crate::is_lost(&status), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn the_only_member_is_registered_at_again_when_it_is_silent() {
    let members = Members::start(&["m1"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    members.mute("m1");
    assert_eq!(crate::reason(&program.loss().await), Some("C_SILENT"));
    assert_eq!(program.session().await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_only_member_continues_the_session_after_a_broken_stream() {
    let members = Members::start(&["m1"]);
    let mut program = Program::registered(options(&members, &["m1"])).await;
    sleep(Duration::from_secs(2)).await;
    members.end(1, &Status::unavailable("broken"));
    assert_eq!(crate::reason(&program.loss().await), None);
    program.ask("a").await;
    assert_eq!(program.placed("a").await, "m1");
    assert_eq!(members.registrations(), ["m1"]);
}
