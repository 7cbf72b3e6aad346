//! The declaration of a gang: the members that it needs, group by group.
//!
//! # Why checked once
//! A declaration arrives as a message or as JSON. Both become [`DeclaredGroup`]s, and only
//! [`Declaration::new`] checks them for faults. Code that has a declaration can rely on the
//! invariants below.
//!
//! # Invariants
//! * There is at least one group. Names are unique and not empty.
//! * Every group needs at least one member; all groups together need at most [`MAX_MEMBERS`].
//! * The amount of a member is above zero in some resource and below zero in none; zeros are
//!   removed.
//!
//! ```
//! use monoceros_rules::specs::declaration::{Declaration, DeclaredGroup};
//! use monoceros_rules::values::resources::Resources;
//!
//! let cores = |n| Some(Resources::of(&[("vcore", n)]));
//! let group = |name: &str, members, size| DeclaredGroup::new(name, members, size);
//! let gang = Declaration::new(vec![group("driver", 1, cores(2)), group("worker", 4, cores(3))]);
//! assert_eq!(gang.unwrap().total().to_string(), "map[vcore:14]");
//!
//! let fault = Declaration::new(vec![group("worker", 0, cores(3))]).unwrap_err();
//! assert_eq!(fault.to_string(), "task group `worker`: needs 0 members, it must be 1 or more");
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::specs::ask::{Preemption, TaskGroup};
use crate::specs::constraint::{AskConstraint, Constraint, ConstraintFault};
use crate::specs::tags::Tags;
use crate::values::names::shown;
use crate::values::quantity::all_written;
use crate::values::resources::{QUANTITY_MAX, Resources};

/// The most members that all groups of an application may need together.
pub const MAX_MEMBERS: i64 = 100_000;
/// The most groups that an application may declare.
pub const MAX_GROUPS: usize = 1_000;
/// The most attributes that a group may prefer.
pub const PREFERRED_MAX: usize = 8;
/// The longest name of a group, or of an attribute of its topology, in bytes.
pub const NAME_BYTES: usize = 1_024;

/// The members that an application needs all at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    groups: Vec<DeclaredGroup>,
}

/// A group of members that are alike, as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredGroup {
    /// The name of the group, which the asks of its members have.
    pub name: TaskGroup,
    /// The number of members that are needed.
    pub min_members: i64,
    /// The amount that is held for a member that has no ask. `None`: nothing is held, and the gang
    /// waits for its asks.
    pub member: Option<Resources>,
    /// The topology of the members.
    pub topology: Option<Topology>,
    /// The placement constraint of each member.
    pub constraint: Option<Constraint>,
    /// The tags of a place that is held for a member.
    pub tags: Option<Tags>,
    /// The only node on which a place may be held, if the tags name one.
    pub required_node: Option<Arc<str>>,
    /// The priority of a place that is held for a member.
    pub priority: i32,
    /// The preemption policy of a place that is held for a member.
    pub preemption: Preemption,
}

/// The domains in which members should be together. A domain is all nodes with one value of an
/// attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The attribute that has to have one value on the nodes of all members.
    pub required: Option<String>,
    /// Attributes that should have one value on these nodes, the narrowest first.
    pub preferred: Vec<String>,
}

impl DeclaredGroup {
    /// Builds a group with defaults for all other fields. An amount without names counts as `None`.
    pub fn new(name: &str, min_members: i64, member: Option<Resources>) -> Self {
        Self {
            name: TaskGroup::new(name.to_owned()),
            min_members,
            member: member.filter(|amount| !amount.is_empty()),
            topology: None,
            constraint: None,
            tags: None,
            required_node: None,
            priority: 0,
            preemption: Preemption::default(),
        }
    }

    /// Returns the constraint of a place that is held for a member.
    pub fn ask_constraint(&self) -> Option<Arc<AskConstraint>> {
        let constraint = self.constraint.clone()?;
        let checked = AskConstraint::new(constraint, self.tags.as_deref().map(|tags| &**tags));
        checked.ok().flatten().map(Arc::new)
    }

    fn check(&mut self) -> Result<(), GroupFault> {
        match self.name.len() {
            0 => return Err(GroupFault::Unnamed),
            length if length > NAME_BYTES => return Err(GroupFault::NameTooLong),
            _ => {}
        }
        if self.min_members < 1 {
            return Err(GroupFault::Members(self.min_members));
        }
        if let Some(member) = &mut self.member {
            if !member.is_positive() {
                return Err(GroupFault::NotPositive(all_written(&member.sorted())));
            }
            if let Some((name, _)) = member.entries().find(|(_, quantity)| *quantity > QUANTITY_MAX)
            {
                return Err(GroupFault::TooMuch(name.text().to_string()));
            }
            member.prune();
        }
        self.topology.as_ref().map_or(Ok(()), Topology::check)?;
        self.constraint.as_ref().map_or(Ok(()), Constraint::check).map_err(GroupFault::Constraint)
    }
}

impl Topology {
    /// Builds a topology as sent. An empty required attribute counts as absent; `None` if there is
    /// no attribute at all.
    pub fn new(required: String, preferred: Vec<String>) -> Option<Self> {
        let required = Some(required).filter(|key| !key.is_empty());
        (required.is_some() || !preferred.is_empty()).then_some(Self { required, preferred })
    }

    fn check(&self) -> Result<(), GroupFault> {
        if self.preferred.iter().any(String::is_empty) {
            return Err(GroupFault::EmptyDomain);
        }
        if self.preferred.len() > PREFERRED_MAX {
            return Err(GroupFault::Preferred(self.preferred.len()));
        }
        let mut keys = self.required.iter().chain(&self.preferred);
        let is_too_long = keys.any(|key| key.len() > NAME_BYTES);
        if is_too_long { Err(GroupFault::DomainTooLong) } else { Ok(()) }
    }
}

impl Declaration {
    /// Checks the groups of an application, in their order, and builds the declaration.
    pub fn new(mut groups: Vec<DeclaredGroup>) -> Result<Self, Fault> {
        if groups.is_empty() {
            return Err(Fault::Empty);
        }
        if groups.len() > MAX_GROUPS {
            return Err(Fault::Groups(groups.len()));
        }
        let (mut names, mut members) = (BTreeSet::new(), 0_i64);
        for (at, group) in groups.iter_mut().enumerate() {
            group.check().map_err(|fault| fault.of(&group.name, at))?;
            if !names.insert(TaskGroup::clone(&group.name)) {
                return Err(GroupFault::Twice.of(&group.name, at));
            }
            members = members.saturating_add(group.min_members);
        }
        if members > MAX_MEMBERS {
            return Err(Fault::Members(members));
        }
        Ok(Self { groups })
    }

    /// Returns the declaration, which may be sent in a field or in a tag. If it is in both, they
    /// must be equal.
    pub fn agreed(field: Option<Self>, tag: Option<Self>) -> Result<Option<Self>, Fault> {
        match (field, tag) {
            (Some(field), Some(tag)) if field != tag => Err(Fault::Differ),
            (field, tag) => Ok(field.or(tag)),
        }
    }

    /// The groups, as declared.
    pub fn groups(&self) -> &[DeclaredGroup] {
        &self.groups
    }

    /// Returns the sum of the amounts of all needed members; members of groups without an amount
    /// are not in it.
    pub fn total(&self) -> Resources {
        let mut total = Resources::new();
        for group in &self.groups {
            if let Some(member) = &group.member {
                total.add(&member.times(group.min_members));
            }
        }
        total
    }
}

/// A fault of a declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The text cannot be read, with the reason.
    Unreadable(String),
    /// The declaration has no group.
    Empty,
    /// There are more than [`MAX_GROUPS`] groups.
    Groups(usize),
    /// More than [`MAX_MEMBERS`] members are needed.
    Members(i64),
    /// The declaration in the field and the one in the tag differ.
    Differ,
    /// The application announces placeholders as well.
    WithPlaceholders,
    /// A group has a fault.
    Group {
        /// The name of the group, or its position in the list if it has no name.
        group: String,
        /// The fault.
        what: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "task groups cannot be read: {why}"),
            Self::Empty => f.write_str("there is no task group in the list"),
            Self::Groups(n) => write!(f, "{n} task groups, at most {MAX_GROUPS} are taken"),
            Self::Members(n) => {
                write!(f, "task groups need {n} members, at most {MAX_MEMBERS} are taken")
            }
            Self::Differ => f.write_str("the task groups of the field and of the tag differ"),
            Self::WithPlaceholders => {
                f.write_str("task groups and placeholderAsk exclude each other")
            }
            Self::Group { group, what } => write!(f, "task group {group}: {what}"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Returns the name of a group in a fault: its own, or its position in the list if the name is
    /// empty.
    pub fn shown_group(name: &str, at: usize) -> String {
        if name.is_empty() { format!("number {}", at + 1) } else { format!("`{}`", shown(name)) }
    }
}

/// A fault of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GroupFault {
    Unnamed,
    NameTooLong,
    Twice,
    Members(i64),
    NotPositive(String),
    TooMuch(String),
    EmptyDomain,
    Preferred(usize),
    DomainTooLong,
    Constraint(ConstraintFault),
}

impl GroupFault {
    /// Builds the fault with the name of the group, or its position in the list if the name is
    /// empty.
    fn of(self, name: &str, at: usize) -> Fault {
        Fault::Group { group: Fault::shown_group(name, at), what: self.to_string() }
    }
}

impl fmt::Display for GroupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unnamed => f.write_str("has no name"),
            Self::NameTooLong => write!(f, "has a name of more than {NAME_BYTES} bytes"),
            Self::Twice => f.write_str("is declared twice"),
            Self::Members(n) => write!(f, "needs {n} members, it must be 1 or more"),
            Self::NotPositive(amount) => {
                write!(
                    f,
                    "a member takes {amount}, it must be above zero in some resource and below in none"
                )
            }
            Self::TooMuch(resource) => {
                write!(f, "a member takes more than {QUANTITY_MAX} of `{resource}`")
            }
            Self::EmptyDomain => f.write_str("an empty attribute among the preferred ones"),
            Self::Preferred(n) => {
                write!(f, "{n} preferred attributes, at most {PREFERRED_MAX} are taken")
            }
            Self::DomainTooLong => {
                write!(f, "an attribute of its topology has more than {NAME_BYTES} bytes")
            }
            Self::Constraint(fault) => write!(f, "its placement constraint has {fault}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::constraint::{Expression, Operator, Simple};

    fn vcores(n: i64) -> Resources {
        Resources::of(&[("vcore", n)])
    }

    fn group(name: &str, members: i64) -> DeclaredGroup {
        DeclaredGroup::new(name, members, Some(vcores(1)))
    }

    fn fault(groups: Vec<DeclaredGroup>) -> String {
        Declaration::new(groups).unwrap_err().to_string()
    }

    #[test]
    fn a_fault_names_its_group_and_says_what_is_wrong() {
        let long = "x".repeat(NAME_BYTES + 1);
        let sized =
            |amount: &[(&str, i64)]| DeclaredGroup::new("g", 1, Some(Resources::of(amount)));
        let preferred = Topology::new(String::new(), vec!["rack".into(), String::new()]);
        let many = Topology::new(String::new(), vec!["rack".into(); PREFERRED_MAX + 1]);
        let lengthy = Topology::new("x".repeat(NAME_BYTES + 1), vec![]);
        let keyless = Expression { operator: Operator::In, key: String::new(), values: vec![] };
        let keyless = Constraint::Simple(Simple { node: vec![keyless], near: None });
        for (groups, expected) in [
            (vec![group("a", 1), group("", 1)], "task group number 2: has no name"),
            (vec![group("a", 1), group("a", 2)], "task group `a`: is declared twice"),
            (vec![group("a", -1)], "task group `a`: needs -1 members, it must be 1 or more"),
            (
                vec![sized(&[("vcore", 0)])],
                "task group `g`: a member takes {vcore: 0}, it must be above zero in some \
                 resource and below in none",
            ),
            (
                vec![sized(&[("vcore", 2), ("memory", -1)])],
                "task group `g`: a member takes {memory: -1, vcore: 2m}, it must be above zero in \
                 some resource and below in none",
            ),
            (
                vec![sized(&[("vcore", QUANTITY_MAX + 1)])],
                "task group `g`: a member takes more than 9007199254740992 of `vcore`",
            ),
            (
                vec![DeclaredGroup { topology: preferred, ..group("g", 1) }],
                "task group `g`: an empty attribute among the preferred ones",
            ),
            (
                vec![DeclaredGroup { topology: many, ..group("g", 1) }],
                "task group `g`: 9 preferred attributes, at most 8 are taken",
            ),
            (
                vec![DeclaredGroup { topology: lengthy, ..group("g", 1) }],
                "task group `g`: an attribute of its topology has more than 1024 bytes",
            ),
            (
                vec![DeclaredGroup { constraint: Some(keyless), ..group("g", 1) }],
                "task group `g`: its placement constraint has an expression without a key",
            ),
        ] {
            assert_eq!(fault(groups), expected);
        }
        let long = fault(vec![group(&long, 1)]);
        assert!(long.ends_with("(1025 characters)`: has a name of more than 1024 bytes"), "{long}");
    }

    #[test]
    fn a_hundred_thousand_members_and_a_thousand_groups_are_the_most() {
        let groups = |n| (0..n).map(|at| group(&format!("g{at}"), 1)).collect::<Vec<_>>();
        assert!(Declaration::new(groups(1_000)).is_ok());
        assert_eq!(fault(groups(1_001)), "1001 task groups, at most 1000 are taken");
        assert!(Declaration::new(vec![group("a", 99_999), group("b", 1)]).is_ok());
        let more = "task groups need 100001 members, at most 100000 are taken";
        assert_eq!(fault(vec![group("a", 99_999), group("b", 2)]), more);
        let most = vec![group("a", i64::MAX), group("b", i64::MAX)];
        assert!(fault(most).ends_with("at most 100000 are taken"));
        assert_eq!(fault(vec![]), "there is no task group in the list");
    }

    #[test]
    fn two_forms_agree_where_they_mean_the_same() {
        let with_zero = Some(Resources::of(&[("vcore", 1), ("gpu", 0)]));
        let of = |group| Declaration::new(vec![group]).ok();
        let field = of(DeclaredGroup::new("a", 2, with_zero));
        let tag = of(group("a", 2));
        assert_eq!(Declaration::agreed(field.clone(), tag), Ok(field.clone()));
        assert_eq!(Declaration::agreed(field.clone(), None), Ok(field.clone()));
        assert_eq!(Declaration::agreed(None, field.clone()), Ok(field.clone()));
        assert_eq!(Declaration::agreed(None, None), Ok(None));
        assert_eq!(Declaration::agreed(field, of(group("a", 3))), Err(Fault::Differ));
    }

    #[test]
    fn a_group_without_a_size_counts_nothing_in_the_total() {
        let sizeless = DeclaredGroup::new("a", 7, Some(Resources::new()));
        assert_eq!(sizeless.member, None);
        let gang = Declaration::new(vec![sizeless, DeclaredGroup::new("b", 3, Some(vcores(2)))]);
        assert_eq!(gang.unwrap().total(), Resources::of(&[("vcore", 6)]));
    }
}
