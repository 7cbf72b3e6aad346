//! Configurations of policy groups on several members.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures::future::{BoxFuture, join_all};
use monoceros_cluster::{GroupId, Owner};

use super::super::membership::Membership;
use super::super::operations::{GroupReport, MemberReport};
use super::super::sharing::TrialFailure;
use super::*;
use crate::grpc::end::ChangeRefusal;
use crate::grpc::registry::GroupChange;
use crate::identity::Identity;

thread_local! {
    /// Schedulers of the processes of this test, by the ids of their members.
    static SCHEDULERS: RefCell<BTreeMap<String, SchedulerHandle>> = RefCell::default();
}

/// Makes a scheduler known to [`trial`].
pub(super) fn note(id: &str, handle: &SchedulerHandle) {
    SCHEDULERS.with_borrow_mut(|all| all.insert(id.to_owned(), handle.clone()));
}

/// Tries a text at another process of this test.
pub(super) fn trial<'a>(
    _: &'a Arc<Membership>,
    owner: &'a Owner,
    request: si::UpdateConfigurationRequest,
    _: &'a Identity,
) -> BoxFuture<'a, Result<(), TrialFailure>> {
    let handle = SCHEDULERS.with_borrow(|all| all.get(&*owner.member.0).cloned());
    async move {
        let nobody = || TrialFailure::Unanswered("no such process".to_owned());
        let tried = handle.ok_or_else(nobody)?.validate_configuration(request).await;
        tried.map(drop).map_err(TrialFailure::from)
    }
    .boxed()
}

/// A configuration with a leaf, or a parent, `root.a`, and a note that makes the text another one.
fn queues(root_a: &str, note: &str) -> String {
    format!(
        "# {note}\npartitions:\n  - name: default\n    queues:\n      - name: root\n        \
         submitacl: \"*\"\n        queues:\n          - name: a\n{root_a}          - name: b\n"
    )
}

pub(super) fn first() -> String {
    queues("", "first")
}

pub(super) fn second() -> String {
    queues("", "second")
}

/// A configuration that an RM with an application in `root.a` cannot have.
fn parent() -> String {
    queues("            parent: true\n", "parent")
}

/// A registration of `rm` in the group `etl`.
pub(super) async fn register(
    process: &Process,
    rm: &str,
    config: &str,
    is_again: bool,
) -> Result<u64, RegistrationRefusal> {
    let request = si::RegisterResourceManagerRequest {
        rm_id: rm.to_owned(),
        config: config.to_owned(),
        policy_group: "etl".to_owned(),
        extra_config: [("a.key".to_owned(), "a value".to_owned())].into(),
        ..Default::default()
    };
    let proof = Proof::parse(&format!("a secret of the process of {rm}"));
    let shown = is_again.then_some(1);
    let origin = Origin { proof, shown, ..Origin::default() };
    let deadline = process.registry.registration_deadline();
    process.registry.register(request, origin, deadline).await.map(|registered| registered.session)
}

/// The text in force for an RM.
pub(super) async fn text_of(process: &Process, rm: &str) -> String {
    process.handle.configuration(rm).await.unwrap().config
}

/// Sets a configuration as an operator does, at the process that serves `rm`.
pub(super) async fn set(process: &Process, rm: &str, config: String) -> Result<u64, ChangeRefusal> {
    let shared = process.registry.configurations().unwrap();
    let change = GroupChange { rm_id: rm.to_owned(), policy_group: "etl".to_owned(), config };
    let caller = Identity::anybody();
    let tried = shared.try_on_all(&change, &caller).await?;
    shared.set(&change, tried, &caller).await
}

/// Submits an application in `root.a`.
async fn submit(process: &Process, rm: &str) {
    let application = si::AddApplicationRequest {
        application_id: "app".to_owned(),
        queue_name: "root.a".to_owned(),
        partition_name: format!("[{rm}]default"),
        ugi: Some(si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() }),
        ..Default::default()
    };
    let new = vec![application];
    let request = si::ApplicationRequest { new, rm_id: rm.to_owned(), ..Default::default() };
    process.handle.update_application(request).await.unwrap();
}

/// Removes the application.
async fn remove(process: &Process, rm: &str) {
    let remove = si::RemoveApplicationRequest {
        application_id: "app".to_owned(),
        partition_name: format!("[{rm}]default"),
    };
    let remove = vec![remove];
    let request = si::ApplicationRequest { remove, rm_id: rm.to_owned(), ..Default::default() };
    process.handle.update_application(request).await.unwrap();
}

/// The configuration of the group `etl` at a process.
fn state(process: &Process) -> GroupReport {
    let states = process.member.shared.groups.reports();
    states.into_iter().find(|state| state.group.as_deref() == Some("etl")).unwrap()
}

/// Waits until members have read and applied a change.
pub(super) async fn a_moment() {
    sleep(Duration::from_millis(200)).await;
}

#[test]
fn the_first_text_of_a_group_applies_to_rms_without_one() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&b, "silent", "", false).await.unwrap();
        register(&a, "brings", &first(), false).await.unwrap();
        a_moment().await;
        assert_eq!(text_of(&b, "silent").await, first());
        register(&b, "later", "", false).await.unwrap();
        assert_eq!(text_of(&b, "later").await, first());
        let in_force = |state: GroupReport| (state.in_force, state.in_arbiter, state.why_not);
        assert_eq!(in_force(state(&a)), (Some(1), Some(1), None));
        assert_eq!(in_force(state(&b)), (Some(1), Some(1), None));
    });
}

#[test]
fn a_text_that_is_set_counts_everywhere_and_at_the_next_registration() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        register(&b, "silent", "", false).await.unwrap();
        set(&a, "one", second()).await.unwrap();
        a_moment().await;
        for (process, rm) in [(&a, "one"), (&b, "two"), (&b, "silent")] {
            let present = process.handle.configuration(rm).await.unwrap();
            assert_eq!(present.config, second(), "{rm}");
            assert_eq!(present.extra_config.len(), 1, "its other settings stay");
        }
        // The process of an RM that moves brings the text of its first registration.
        register(&b, "one", &first(), true).await.unwrap();
        assert_eq!(text_of(&b, "one").await, second());
        assert_eq!(state(&b).in_arbiter, Some(2));
    });
}

#[test]
fn a_member_that_cannot_have_a_text_refuses_it_for_all() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        submit(&b, "two").await;
        let refusal = set(&a, "one", parent()).await.unwrap_err();
        let begins = "member `b`, resource manager `two`: ";
        let is_final = matches!(&refusal, ChangeRefusal::Refused(why) if why.starts_with(begins));
        assert!(is_final, "{refusal:?}");
        a_moment().await;
        assert_eq!((state(&a).in_arbiter, text_of(&a, "one").await), (Some(1), first()));
    });
}

#[test]
fn a_member_that_does_not_answer_puts_a_text_off() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        let of_b = SCHEDULERS.with_borrow_mut(|all| all.remove("b")).unwrap();
        let refusal = set(&a, "one", second()).await.unwrap_err();
        let why = "member `b`, resource manager `two`: no such process".to_owned();
        assert_eq!(refusal, ChangeRefusal::Untried(why));
        note("b", &of_b);
        assert_eq!(set(&a, "one", second()).await, Ok(2));
        a.store.set_away(true);
        let refusal = set(&a, "one", first()).await.unwrap_err();
        assert_eq!(refusal, ChangeRefusal::Claim(ClaimRefusal::ArbiterUnavailable));
    });
}

#[test]
fn a_member_that_cannot_apply_a_text_keeps_the_old_one_and_tries_again() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        submit(&b, "two").await;
        // A file is not tried before.
        let file = std::path::Path::new("etl.yaml");
        for text in [second(), parent()] {
            a.member.shared_texts().offer(Some("etl"), file, &text.into()).await;
        }
        a_moment().await;
        assert_eq!((text_of(&a, "one").await, state(&a).in_force), (parent(), Some(3)));
        assert_ne!(text_of(&b, "two").await, parent());
        let behind = state(&b);
        assert_eq!(behind.in_arbiter, Some(3));
        assert_ne!(behind.in_force, Some(3));
        let why = behind.why_not.unwrap();
        assert!(why.starts_with("resource manager `two`: "), "{why}");
        cluster.acquainted().await;
        let shown = |process: &Process| {
            let report = process.member.operations().report();
            let n_behind = |member: MemberReport| member.not_in_force;
            let members: Vec<_> = report.members.into_iter().map(n_behind).collect();
            (members, report.not_in_force)
        };
        assert_eq!(shown(&a), (vec![0, 1], vec![]));
        assert_eq!(shown(&b), (vec![0, 1], vec![state(&b)]));
        remove(&b, "two").await;
        sleep(Duration::from_secs(6)).await;
        assert_eq!(text_of(&b, "two").await, parent());
        assert_eq!((state(&b).in_force, state(&b).why_not), (Some(3), None));
    });
}

#[test]
fn an_rm_among_others_keeps_its_own_text_to_itself() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &second(), false).await.unwrap();
        a_moment().await;
        assert_eq!(text_of(&a, "one").await, first());
        assert_eq!(text_of(&b, "two").await, second());
        set(&a, "one", queues("", "third")).await.unwrap();
        a_moment().await;
        assert_eq!(text_of(&b, "two").await, second());
        // Alone, it decides for its group.
        a.registry.stop("one", None, "operator").await.unwrap();
        register(&b, "two", &second(), false).await.unwrap();
        register(&a, "silent", "", false).await.unwrap();
        assert_eq!(text_of(&a, "silent").await, second());
    });
}

#[test]
fn a_conflict_is_refused_where_the_settings_say_so() {
    play(async |mut cluster| {
        cluster.conflict = PolicyGroupConflict::Reject;
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        let refusal = register(&b, "two", &second(), false).await.unwrap_err();
        let text = "policy group `etl` is used by `one` with another queue configuration";
        assert_eq!(refusal.to_string(), text);
        assert!(b.registry.session("two").is_none());
        register(&b, "two", &first(), false).await.unwrap();
    });
}

#[test]
fn a_refused_registration_changes_no_configuration() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        cluster.acquainted().await;
        let request = si::RegisterResourceManagerRequest {
            rm_id: "one".to_owned(),
            config: second(),
            policy_group: "etl".to_owned(),
            ..Default::default()
        };
        let deadline = b.registry.registration_deadline();
        let refused = b.registry.register(request, Origin::default(), deadline).await;
        assert!(matches!(refused, Err(RegistrationRefusal::Claim(_))));
        a_moment().await;
        assert_eq!((state(&a).in_arbiter, text_of(&a, "one").await), (Some(1), first()));
    });
}

#[test]
fn a_fenced_member_reads_the_configuration_before_it_decides_again() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        a.store.set_away(true);
        sleep(2 * LEASE).await;
        assert!(!a.registry.may_decide());
        let file = std::path::Path::new("etl.yaml");
        for text in [first(), second()] {
            b.member.shared_texts().offer(Some("etl"), file, &text.into()).await;
        }
        a.store.set_away(false);
        a.until_ready().await;
        register(&a, "one", &first(), true).await.unwrap();
        assert_eq!(text_of(&a, "one").await, second(), "at once");
    });
}

#[test]
fn the_newest_file_counts_and_not_that_of_a_member_which_starts_again() {
    play(async |cluster| {
        let file = std::path::Path::new("queues.yaml");
        let a = cluster.ready("a").await;
        a.member.shared_texts().offer(None, file, &first().into()).await;
        register(&a, "rm", "", false).await.unwrap();
        assert_eq!(text_of(&a, "rm").await, first());
        let b = cluster.ready("b").await;
        b.member.shared_texts().offer(None, file, &second().into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "rm").await, second());
        // `c` starts with the file of `a`, which it changes later.
        let c = cluster.ready("c").await;
        c.member.shared_texts().offer(None, file, &first().into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "rm").await, second());
        c.member.shared_texts().offer(None, file, &queues("", "third").into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "rm").await, queues("", "third"));
        // A group with a text of its own does not have that of all others.
        b.member.shared_texts().offer(Some("etl"), file, &first().into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "rm").await, first());
        b.member.shared_texts().offer(Some("etl"), file, &"".into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "rm").await, queues("", "third"));
    });
}

#[test]
fn rms_that_come_back_together_share_reads() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let file = std::path::Path::new("etl.yaml");
        a.member.shared_texts().offer(Some("etl"), file, &first().into()).await;
        let delay = Duration::from_millis(100);
        a.store.set_delay(delay);
        let begun = Instant::now();
        let rms: Vec<_> = (0..50).map(|n| format!("rm-{n}")).collect();
        for registered in join_all(rms.iter().map(|rm| register(&a, rm, "", false))).await {
            registered.unwrap();
        }
        let took = begun.elapsed();
        assert!(took < 10 * delay, "{took:?}");
        for rm in &rms {
            assert_eq!(text_of(&a, rm).await, first());
        }
    });
}

#[test]
fn rms_without_a_text_get_a_newer_one_though_a_pass_is_under_way() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&a, "silent", "", false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        a.store.set_delay(Duration::from_millis(100));
        let texts = (0..20).map(|n| queues("", &format!("text {n}")));
        for (n, text) in texts.enumerate() {
            set(&b, "two", text.clone()).await.unwrap();
            let rm = format!("rm-{n}");
            register(&a, &rm, "", false).await.unwrap();
            assert_eq!(text_of(&a, &rm).await, text);
            a.registry.stop(&rm, None, "operator").await.unwrap();
        }
        sleep(Duration::from_secs(1)).await;
        for rm in ["one", "silent"] {
            assert_eq!(text_of(&a, rm).await, queues("", "text 19"), "{rm}");
        }
        assert_eq!((state(&a).in_force, state(&a).in_arbiter), (Some(21), Some(21)));
    });
}

#[test]
fn a_text_that_was_changed_since_its_trial_is_refused() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        let shared = a.registry.configurations().unwrap();
        let [rm_id, policy_group] = ["one", "etl"].map(str::to_owned);
        let change = GroupChange { rm_id, policy_group, config: queues("", "third") };
        let caller = Identity::anybody();
        let tried = shared.try_on_all(&change, &caller).await.unwrap();
        set(&b, "two", second()).await.unwrap();
        let refusal = shared.set(&change, tried, &caller).await.unwrap_err();
        let ChangeRefusal::ChangedMeanwhile(why) = refusal else { panic!("{refusal:?}") };
        let begins = "the configuration of policy group `etl` was changed meanwhile: version 2, set \
                      for `two` by ";
        assert!(why.starts_with(begins) && why.ends_with(", member `b`"), "{why}");
        a_moment().await;
        assert_eq!(text_of(&a, "one").await, second());
    });
}

#[test]
fn a_text_is_set_again_after_a_call_that_was_cut_off() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "silent", "", false).await.unwrap();
        let file = std::path::Path::new("etl.yaml");
        b.member.shared_texts().offer(Some("etl"), file, &first().into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "silent").await, first());
        // The task cannot read, and the call below is the first one that can.
        a.store.set_away(true);
        b.member.shared_texts().offer(Some("etl"), file, &second().into()).await;
        sleep(2 * TIMEOUT).await;
        a.store.set_away(false);
        let id = GroupId::Named("etl".into());
        let mut call = Box::pin(a.member.shared.groups.read_and_apply(&id));
        while text_of(&a, "silent").await != second() {
            assert!(futures::poll!(&mut call).is_pending(), "not cut off");
            sleep(Duration::from_millis(1)).await;
        }
        drop(call);
        b.member.shared_texts().offer(Some("etl"), file, &first().into()).await;
        a_moment().await;
        assert_eq!(text_of(&a, "silent").await, first());
    });
}

#[test]
fn an_rm_keeps_its_own_text_though_its_session_opens_late() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "one", &first(), false).await.unwrap();
        register(&b, "two", &first(), false).await.unwrap();
        let slot = b.registry.slot("two").unwrap();
        b.registry.stop("two", None, "operator").await.unwrap();
        let used = slot.read().await;
        let opens_late = async {
            a_moment().await;
            // A change of any group: all members look at the groups that they serve.
            let file = std::path::Path::new("other.yaml");
            a.member.shared_texts().offer(Some("other"), file, &first().into()).await;
            a_moment().await;
            drop(used);
        };
        let brought = second();
        let (registered, ()) = tokio::join!(register(&b, "two", &brought, false), opens_late);
        registered.unwrap();
        set(&a, "one", queues("", "third")).await.unwrap();
        a_moment().await;
        assert_eq!(text_of(&b, "two").await, second());
    });
}

/// Number of configurations that are not in force, as the metrics have it.
fn not_in_force(process: &Process) -> f64 {
    let families = process.handle.metrics().gather();
    let is_it = |family: &&prometheus::proto::MetricFamily| {
        family.name() == "monoceros_cluster_configurations_not_in_force"
    };
    families.iter().find(is_it).unwrap().get_metric()[0].get_gauge().get_value()
}

#[test]
fn a_group_that_is_served_no_more_is_not_counted() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&b, "two", &first(), false).await.unwrap();
        submit(&b, "two").await;
        let file = std::path::Path::new("etl.yaml");
        for text in [second(), parent()] {
            a.member.shared_texts().offer(Some("etl"), file, &text.into()).await;
        }
        a_moment().await;
        assert_eq!(not_in_force(&b).to_string(), "1");
        b.registry.stop("two", None, "operator").await.unwrap();
        sleep(Duration::from_secs(6)).await;
        assert_eq!(not_in_force(&b).to_string(), "0");
    });
}
