//! Users and groups of the operating system (`usergroupresolver.type: os`).
//!
//! The system's database may be files or a remote service, and its calls block. They run on threads
//! for blocking work, and a call that never returns keeps its thread.

use std::ffi::{CStr, CString};

use monoceros_actors::{Lookup, LookupError, UserGroupResolver};
use nix::unistd::{Gid, Group, User};
use tokio::task::spawn_blocking;

/// Looks users up in the system's database.
pub(super) struct OsResolver;

impl UserGroupResolver for OsResolver {
    fn look_up(&self, user: &str) -> Lookup {
        let user = user.to_owned();
        Box::pin(async move {
            let groups = spawn_blocking(move || groups_of(&user)).await;
            groups.unwrap_or_else(|_| Err(LookupError::new("the lookup ended without an answer")))
        })
    }
}

/// Returns the primary group, then all others. A group without a name is given by its number.
fn groups_of(user: &str) -> Result<Vec<String>, LookupError> {
    let failed = |error| LookupError::new(format!("the system cannot look the user up: {error}"));
    let unknown = || LookupError::new("the system has no such user");
    let name = CString::new(user).map_err(|_| unknown())?;
    let entry = User::from_name(user).map_err(failed)?.ok_or_else(unknown)?;
    let mut groups = vec![group_name(entry.gid)];
    let all = all_groups(&name, entry.gid).map_err(|error| LookupError {
        why: format!("the system cannot list the user's groups: {error}"),
        groups: groups.clone(),
    })?;
    groups.extend(all.into_iter().filter(|gid| *gid != entry.gid).map(group_name));
    Ok(groups)
}

/// Returns the ids of all groups of a user.
#[cfg(not(target_vendor = "apple"))]
fn all_groups(user: &CStr, primary: Gid) -> nix::Result<Vec<Gid>> {
    nix::unistd::getgrouplist(user, primary)
}

/// Fails, because the call has no safe binding on this system.
#[cfg(target_vendor = "apple")]
fn all_groups(_user: &CStr, _primary: Gid) -> nix::Result<Vec<Gid>> {
    Err(nix::errno::Errno::ENOSYS)
}

fn group_name(gid: Gid) -> String {
    let group = Group::from_gid(gid).ok().flatten();
    group.map_or_else(|| gid.to_string(), |group| group.name)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::unistd::Uid;

    use super::*;

    async fn look_up(user: &str) -> Result<Vec<String>, LookupError> {
        OsResolver.look_up(user).await
    }

    /// Returns the output of the command `id`.
    fn id(arguments: &[&str]) -> String {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[tokio::test]
    async fn the_primary_group_comes_first_and_once() {
        let present = User::from_uid(Uid::current()).unwrap().unwrap().name;
        for user in ["root", &present] {
            let groups = look_up(user).await.unwrap();
            assert_eq!(groups[0], id(&["-gn", user]), "{user}");
            let mut expected: Vec<_> = id(&["-Gn", user]).split(' ').map(str::to_owned).collect();
            let mut found = groups.clone();
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{user}");
        }
    }

    #[tokio::test]
    async fn an_unknown_user_is_an_error() {
        for user in ["no-such-user-here", "ro\0ot", "", "bad><+"] {
            let error = look_up(user).await.unwrap_err();
            assert_eq!(error.to_string(), "the system has no such user", "{user:?}");
            assert!(error.groups.is_empty());
        }
    }

    #[test]
    fn a_group_without_a_name_is_its_number() {
        assert_eq!(group_name(Gid::from_raw(3_999_999_999)), "3999999999");
        assert_eq!(group_name(Gid::from_raw(0)), "root");
    }
}
