use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Knows everybody after a second, and counts how many it looks up at a time.
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
async fn many_users_are_looked_up_some_at_a_time_and_all_get_an_answer() {
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
async fn the_empty_name_is_the_default_whatever_is_registered() {
    let mut resolvers = Resolvers::default();
    resolvers.add(String::new(), Arc::new(Arc::<Busy>::default()));
    assert!(!Users::new(&resolvers).of("p", "").may_ask());
}

#[tokio::test(start_paused = true)]
async fn what_a_resolver_said_holds_for_each_partition_that_has_it_and_given_groups_for_one() {
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
