//! Resolvers of the groups of users, and the cache of their answers: `docs/users.md`.
//!
//! # Lookups
//! Each partition has a resolver, by the name in its configuration. A request that needs an answer
//! waits for it, and so do all later requests of its RM; other RMs are not delayed. The `default`
//! resolver, groups that the RM gives, and cached answers need no lookup.
//!
//! # The cache
//! An answer of a resolver holds for all partitions with this resolver. Groups that an RM gives for
//! a user hold for the partition of the request only, and take precedence: an RM cannot change
//! another RM's users.
//!
//! # When things go wrong
//! If a resolver fails, panics or does not answer in time, the user cannot be resolved. The RM that
//! asked loses that time once in 30 s for each user. A resolver that blocks its thread delays all
//! RMs: see [`UserGroupResolver`].
//!
//! Everything here except the resolvers themselves runs on the front's thread.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::identity::{self, Identity, Known, LookupError, UserCache, UserError};
use monoceros_rules::values::partition_name::rm_id;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The most cached users of each resolver, and of each partition for users whose groups were given.
const USERS: usize = 10_000;
/// The most lookups at a time for one request.
const AT_ONCE: usize = 32;
/// The timeout of a lookup, unless set.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The groups of a user, or an error.
type Answer = Result<Vec<String>, LookupError>;

/// A lookup under way: the groups of a user, or an error.
pub type Lookup = Pin<Box<dyn Future<Output = Result<Vec<String>, LookupError>> + Send>>;

/// A resolver of the groups of users, for partitions whose configuration names it
/// (`usergroupresolver.type`).
///
/// It is called on the thread that all RMs share, and the lookup that it returns is polled there.
/// Work that blocks or computes for long belongs on another thread (`tokio::task::spawn_blocking`). A
/// lookup that takes too long is dropped.
pub trait UserGroupResolver: Send + Sync {
    /// Looks up a user, whose name is not empty and may be any other text. The primary group comes
    /// first in the answer.
    fn look_up(&self, user: &str) -> Lookup;
}

/// The resolvers that a scheduler is configured with.
#[derive(Clone)]
pub(crate) struct Resolvers {
    by_type: BTreeMap<String, Arc<dyn UserGroupResolver>>,
    timeout: Duration,
}

impl Resolvers {
    pub(crate) fn add(&mut self, name: String, resolver: Arc<dyn UserGroupResolver>) {
        self.by_type.insert(name, resolver);
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }
}

impl Default for Resolvers {
    fn default() -> Self {
        Self { by_type: BTreeMap::new(), timeout: TIMEOUT }
    }
}

impl fmt::Debug for Resolvers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.by_type.keys()).finish()
    }
}

/// The resolvers of a scheduler with their cached answers, for all RMs.
pub(crate) struct Users {
    by_type: BTreeMap<String, Rc<Resolver>>,
    timeout: Duration,
    start: Instant,
}

struct Resolver {
    name: Arc<str>,
    asked: Arc<dyn UserGroupResolver>,
    known: RefCell<UserCache>,
}

impl Users {
    pub(crate) fn new(resolvers: &Resolvers) -> Rc<Self> {
        let resolver = |(name, asked): (&String, &Arc<dyn UserGroupResolver>)| {
            let known = RefCell::new(UserCache::new(USERS));
            let resolver =
                Resolver { name: Arc::from(name.as_str()), asked: Arc::clone(asked), known };
            (name.clone(), Rc::new(resolver))
        };
        Rc::new(Self {
            by_type: resolvers.by_type.iter().map(resolver).collect(),
            timeout: resolvers.timeout,
            start: Instant::now(),
        })
    }

    /// The users of a new partition, with the resolver that its configuration names.
    pub(crate) fn of(&self, partition: &str, configured: &str) -> PartitionUsers {
        let resolver = self.by_type.get(configured).filter(|_| !configured.is_empty()).cloned();
        if resolver.is_none() && !configured.is_empty() {
            tracing::warn!(
                rm = rm_id(partition),
                partition,
                resolver = configured,
                "user group resolver is not known: each user is in one group, of the same name"
            );
        }
        PartitionUsers { configured: configured.to_owned(), resolver, given: UserCache::new(USERS) }
    }

    /// The time since the scheduler was started.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Caches answers of resolvers.
    pub(crate) fn learn(&self, answers: &GroupAnswers) {
        let now = self.now();
        for (name, of_type) in &answers.by_type {
            let Some(resolver) = self.by_type.get(&**name) else {
                debug_assert!(false, "only configured resolvers are asked");
                continue;
            };
            let mut known = resolver.known.borrow_mut();
            for (user, answer) in of_type {
                known.resolved(user, answer.clone(), now);
            }
        }
    }
}

/// The users of one partition. The resolver is that of its first configuration; another one needs a
/// restart of the scheduler.
pub(crate) struct PartitionUsers {
    configured: String,
    /// `None`: the default.
    resolver: Option<Rc<Resolver>>,
    given: UserCache,
}

impl PartitionUsers {
    /// The type of the resolver in the first configuration of the partition.
    pub(crate) fn configured(&self) -> &str {
        &self.configured
    }

    /// Whether there is a resolver other than the default.
    pub(crate) fn may_ask(&self) -> bool {
        self.resolver.is_some()
    }

    /// Adds the user to `questions` if [`identity`](Self::identity) needs a lookup whose answer is
    /// neither in `answers` nor cached.
    pub(crate) fn enquire(
        &self,
        ugi: &si::UserGroupInformation,
        answers: &GroupAnswers,
        questions: &mut Questions,
    ) {
        if let Some(resolver) = &self.resolver
            && identity::needs_lookup(&ugi.user, &ugi.groups)
            && self.given.get(&ugi.user, answers.at) == Known::Nothing
            && answers.of(&resolver.name, &ugi.user).is_none()
            && resolver.known.borrow().get(&ugi.user, answers.at) == Known::Nothing
        {
            let of_type = questions.0.entry(Arc::clone(&resolver.name));
            let of_type = of_type.or_insert_with(|| QuestionsOfType {
                resolver: Arc::clone(&resolver.asked),
                users: BTreeSet::new(),
            });
            if !of_type.users.contains(&ugi.user) {
                of_type.users.insert(ugi.user.clone());
            }
        }
    }

    /// The identity of the user of an application as submitted. `answers` are those for its request.
    pub(crate) fn identity(
        &mut self,
        ugi: si::UserGroupInformation,
        forced: bool,
        answers: &GroupAnswers,
    ) -> Result<Identity, UserError> {
        let si::UserGroupInformation { user, groups, .. } = ugi;
        if identity::gives_groups(&user, &groups) {
            self.given.given(&user, &groups, answers.at);
        }
        identity::convert(user, groups, forced, |user| self.look_up(user, answers))
    }

    fn look_up(&self, user: &str, answers: &GroupAnswers) -> Answer {
        if let Known::Groups(groups) = self.given.get(user, answers.at) {
            return Ok(groups.to_vec());
        }
        let Some(resolver) = &self.resolver else { return Ok(identity::default_groups(user)) };
        if let Some(answer) = answers.of(&resolver.name, user) {
            return answer.clone();
        }
        match resolver.known.borrow().get(user, answers.at) {
            Known::Groups(groups) => Ok(groups.to_vec()),
            Known::Failed(error) => Err(error.clone()),
            // The RM gave the groups, but they were dropped from the cache for those of the many
            // later users of this request.
            Known::Nothing => Err(LookupError::new("too many users at a time")),
        }
    }
}

/// Users to be looked up, by the type of the resolver.
#[derive(Default)]
pub(crate) struct Questions(BTreeMap<Arc<str>, QuestionsOfType>);

struct QuestionsOfType {
    resolver: Arc<dyn UserGroupResolver>,
    users: BTreeSet<String>,
}

/// The answers of resolvers for one request.
#[derive(Debug, Default)]
pub(crate) struct GroupAnswers {
    by_type: BTreeMap<Arc<str>, HashMap<String, Answer>>,
    /// The time of the answers, since the start of the scheduler: the age of cached answers is counted
    /// from it.
    pub(crate) at: Duration,
}

impl GroupAnswers {
    fn of(&self, resolver: &str, user: &str) -> Option<&Answer> {
        self.by_type.get(resolver)?.get(user)
    }

    /// Adds later answers.
    pub(crate) fn join(&mut self, later: Self) {
        for (name, of_type) in later.by_type {
            self.by_type.entry(name).or_default().extend(of_type);
        }
    }
}

impl Questions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks up all users for an RM, some at a time. Every user gets an answer or an error.
    pub(crate) async fn ask(self, rm: &str, patience: Duration) -> GroupAnswers {
        let mut waiting =
            self.0.into_iter().flat_map(|(name, QuestionsOfType { resolver, users })| {
                users.into_iter().map(move |user| (Arc::clone(&name), Arc::clone(&resolver), user))
            });
        let (mut asked, mut lookups) = (HashMap::new(), JoinSet::new());
        let mut answers = GroupAnswers::default();
        loop {
            while asked.len() < AT_ONCE
                && let Some((name, resolver, user)) = waiting.next()
            {
                let task = lookups.spawn(look_up(resolver, user.clone(), patience));
                asked.insert(task.id(), (name, user));
            }
            let Some(done) = lookups.join_next_with_id().await else { return answers };
            let (task, answer) = match done {
                Ok((task, answer)) => (task, answer),
                Err(error) => (error.id(), Err(LookupError::new("the resolver panicked"))),
            };
            let Some((name, user)) = asked.remove(&task) else {
                debug_assert!(false, "each lookup is noted when it is spawned");
                continue;
            };
            if let Err(error) = &answer {
                tracing::warn!(rm, resolver = %name, user, %error, "user cannot be resolved");
            }
            answers.by_type.entry(name).or_default().insert(user, answer);
        }
    }
}

async fn look_up(resolver: Arc<dyn UserGroupResolver>, user: String, patience: Duration) -> Answer {
    let answer = timeout(patience, async { resolver.look_up(&user).await }).await;
    answer.unwrap_or_else(|_| Err(LookupError::new(format!("no answer within {patience:?}"))))
}
