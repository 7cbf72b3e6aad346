//! Where the service looks up which groups a user is in: the operating system, or a directory that
//! speaks LDAP.
//!
//! `os` is always there. `ldap` needs settings, in files of their own as secrets are mounted:
//! * where their directory is there, they must be right, or the service does not start;
//! * where it is not, a file `scheduler.queues` that wants `ldap` cannot be served either;
//! * otherwise whoever comes later with a configuration that wants `ldap` has no user resolved, and
//!   is told why with each application. A user without groups might get in where the user's groups
//!   would be kept out, so there is nothing to fall back to.

mod ldap;
mod os;

use std::io;
use std::path::Path;
use std::sync::Arc;

use monoceros_actors::config;
use monoceros_actors::{Lookup, LookupError, SchedulerBuilder, UserGroupResolver};
use tokio::runtime::Handle;
use tracing::info;

pub use self::ldap::LdapSettingsError;
use self::ldap::{LdapResolver, LdapSettings};
use self::os::OsResolver;
use crate::settings::UserSettings;

/// The type of the resolver that needs settings.
const LDAP: &str = "ldap";

/// Lets the scheduler look users up as `settings` say; `queues` is the queue configuration that is
/// there from the start. In a tokio runtime, on which a directory is spoken to.
pub fn apply(
    settings: &UserSettings,
    queues: &str,
    builder: SchedulerBuilder,
) -> Result<SchedulerBuilder, LdapSettingsError> {
    let directory = &settings.ldap_dir;
    let ldap: Arc<dyn UserGroupResolver> = if is_there(directory) || wants_ldap(queues) {
        let settings = LdapSettings::load(directory)?;
        info!(directory = %directory.display(), "users can be looked up by LDAP");
        Arc::new(LdapResolver::new(settings, Handle::current()))
    } else {
        Arc::new(Unavailable(format!("LDAP has no settings, `{}` is missing", directory.display())))
    };
    Ok(builder
        .user_lookup_timeout(settings.lookup_timeout)
        .user_group_resolver("os", Arc::new(OsResolver))
        .user_group_resolver(LDAP, ldap))
}

/// A directory that cannot be looked at counts as there.
fn is_there(directory: &Path) -> bool {
    !directory.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn wants_ldap(queues: &str) -> bool {
    let configuration = config::parse(queues);
    configuration.is_ok_and(|is| is.partitions.iter().any(|partition| partition.resolver == LDAP))
}

/// Says of everybody why nobody can be looked up.
struct Unavailable(String);

impl UserGroupResolver for Unavailable {
    fn look_up(&self, _user: &str) -> Lookup {
        let error = LookupError::new(&self.0);
        Box::pin(async { Err(error) })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use monoceros_actors::Scheduler;

    use super::*;

    const WANTS: &str = "
partitions:
  - name: default
    usergroupresolver: { type: ldap }
    queues: [ { name: root, submitacl: '*' } ]
";

    fn settings(ldap_dir: PathBuf) -> UserSettings {
        UserSettings { ldap_dir, lookup_timeout: Duration::from_secs(10) }
    }

    #[tokio::test]
    async fn without_settings_ldap_is_fatal_only_where_the_queue_file_wants_it() {
        let missing = settings(PathBuf::from("/does/not/exist"));
        assert!(apply(&missing, "", Scheduler::builder()).is_ok());
        assert!(apply(&missing, &WANTS.replace("ldap", "os"), Scheduler::builder()).is_ok());
        let error = apply(&missing, WANTS, Scheduler::builder()).unwrap_err().to_string();
        assert!(error.contains("`/does/not/exist`"), "{error}");
    }

    #[tokio::test]
    async fn settings_that_are_there_must_be_right_whoever_wants_them() {
        let file = std::env::current_exe().unwrap();
        assert!(apply(&settings(file), "", Scheduler::builder()).is_err());
    }

    #[tokio::test]
    async fn whoever_wants_ldap_without_settings_is_told_so() {
        let error = Unavailable("no settings".to_owned()).look_up("ada").await.unwrap_err();
        assert_eq!(error.to_string(), "no settings");
    }
}
