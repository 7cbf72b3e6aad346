use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A resolver that knows any user after a second, and counts its lookups at a time.
#[derive(Default)]
struct Busy {
    present: AtomicUsize,
    most: AtomicUsize,
}

impl UserGroupResolver for Arc<Busy> {
    fn look_up(&self, user: &str) -> Lookup {
        let (busy, groups) = (Arc::clone(self), vec![user.to_owned()]);
        Box::pin(async move {
            let present = busy.present.fetch_add(1, Ordering::SeqCst) + 1;
            busy.most.fetch_max(present, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            busy.present.fetch_sub(1, Ordering::SeqCst);
            Ok(groups)
        })
    }
}

fn users(busy: &Arc<Busy>) -> Rc<Users> {
    let mut resolvers = Resolvers::default();
    resolvers.add("busy".to_owned(), Arc::new(Arc::clone(busy)));
    Users::new(&resolvers)
}

fn ugi(user: &str, groups: &[&str]) -> si::UserGroupInformation {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    si::UserGroupInformation { user: user.to_owned(), groups }
}

#[tokio::test(start_paused = true)]
async fn lookups_of_many_users_are_bounded_and_all_answered() {
    let busy = Arc::new(Busy::default());
    let users = users(&busy);
    let partition = users.of("p", "busy");
    let mut questions = Questions::default();
    for user in 0..100 {
        for _ in 0..2 {
            partition.enquire(
                &ugi(&format!("u{user}"), &[]),
                &GroupAnswers::default(),
                &mut questions,
            );
        }
    }
    let answers = questions.ask("rm", users.timeout()).await;
    assert_eq!(answers.by_type["busy"].len(), 100);
    assert_eq!(busy.most.load(Ordering::SeqCst), AT_ONCE);
    assert_eq!(users.now(), Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_resolver_name_behaves_as_default() {
    let users = users(&Arc::default());
    for name in ["", "Busy", "os", "ldap", "nothing at all"] {
        let mut partition = users.of("p", name);
        assert!(!partition.may_ask(), "`{name}`");
        let found = partition.identity(ugi("sue", &[]), false, &GroupAnswers::default()).unwrap();
        assert_eq!(found.groups, ["sue"], "`{name}`");
    }
}

#[tokio::test(start_paused = true)]
async fn empty_resolver_name_is_always_the_default() {
    let mut resolvers = Resolvers::default();
    resolvers.add(String::new(), Arc::new(Arc::<Busy>::default()));
    assert!(!Users::new(&resolvers).of("p", "").may_ask());
}

#[tokio::test(start_paused = true)]
async fn resolved_groups_are_shared_and_given_groups_are_per_partition() {
    let users = users(&Arc::default());
    let (mut one, mut other) = (users.of("one", "busy"), users.of("other", "busy"));
    let mut questions = Questions::default();
    let now = GroupAnswers::default();
    one.enquire(&ugi("sue", &[]), &now, &mut questions);
    users.learn(&questions.ask("rm", users.timeout()).await);
    let groups = |partition: &mut PartitionUsers, given: &[&str]| {
        partition.identity(ugi("sue", given), false, &GroupAnswers::default()).unwrap().groups
    };
    assert_eq!(groups(&mut other, &[]), ["sue"]);
    assert_eq!(groups(&mut one, &["g"]), ["g"]);
    assert_eq!(groups(&mut one, &[]), ["g"], "the groups that were given are remembered");
    assert_eq!(groups(&mut other, &[]), ["sue"]);
}
