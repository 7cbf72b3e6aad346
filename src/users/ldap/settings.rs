//! Settings of the directory: one file per setting, as secrets are mounted.
//!
//! One setting is a password, and orchestrators mount secrets as folders of files. The other
//! settings are there too, so that all are replaced together.
//!
//! # Invariants
//! * The password is neither logged nor shown: [`Password`] cannot be printed.
//! * A message about a value never shows the value, since a password may be in the wrong file.

use std::fmt;
use std::io;
use std::path::Path;

use tracing::warn;

use crate::input;

/// The keys without which a lookup is impossible.
const REQUIRED: [&str; 8] =
    ["Host", "Port", "BaseDN", "Filter", "GroupAttr", "ReturnAttr", "BindUser", "BindPassword"];
/// The placeholder for the user's name in a filter.
pub(super) const USER: &str = "%s";
/// The port of LDAP over TLS.
const LDAPS: u16 = 636;

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LdapSettingsError {
    /// The folder cannot be read.
    #[error("cannot read the LDAP settings in `{directory}`: {reason}")]
    Unreadable {
        /// The folder.
        directory: String,
        /// Error of the system.
        reason: io::Error,
    },
    /// The folder has no files with known names.
    #[error("there are no LDAP settings in `{0}`")]
    None(String),
    /// Some files are missing.
    #[error("LDAP settings in `{directory}`: {} missing", list(.keys))]
    Missing {
        /// The folder.
        directory: String,
        /// The missing keys.
        keys: Vec<&'static str>,
    },
}

/// A password, which is never printed.
#[derive(Clone)]
pub(super) struct Password(String);

impl Password {
    /// Returns the password, for the directory only.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
pub(super) fn tests_password(text: &str) -> Password {
    Password(text.to_owned())
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("********")
    }
}

/// Address of the directory, credentials of the service, and search parameters.
#[derive(Clone, Debug)]
pub(crate) struct LdapSettings {
    /// Name or address, without a port.
    pub(super) host: String,
    pub(super) port: u16,
    /// The entry below which users are searched.
    pub(super) base_dn: String,
    /// The filter of a search, with [`USER`] in it.
    pub(super) filter: String,
    /// The attribute whose values are the groups, as distinguished names.
    pub(super) group_attribute: String,
    pub(super) return_attributes: Vec<String>,
    pub(super) bind_user: String,
    pub(super) bind_password: Password,
    /// Whether TLS certificates are not verified.
    pub(super) insecure: bool,
    /// Whether the connection begins with TLS.
    pub(super) ssl: bool,
}

impl Default for LdapSettings {
    /// Values for settings that cannot be used.
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            port: 389,
            base_dn: "dc=example,dc=com".to_owned(),
            filter: "(&(sAMAccountName=%s))".to_owned(),
            group_attribute: "memberOf".to_owned(),
            return_attributes: vec!["memberOf".to_owned()],
            bind_user: "admin".to_owned(),
            bind_password: Password("admin".to_owned()),
            insecure: false,
            ssl: false,
        }
    }
}

impl LdapSettings {
    /// Reads the files of a folder once. Unusable values are logged and replaced by defaults.
    pub(crate) fn load(directory: &Path) -> Result<Self, LdapSettingsError> {
        let (settings, warnings) = Self::read(directory)?;
        for warning in warnings.into_iter().chain(settings.doubts()) {
            warn!(directory = %directory.display(), %warning, "LDAP settings");
        }
        Ok(settings)
    }

    fn read(directory: &Path) -> Result<(Self, Vec<String>), LdapSettingsError> {
        let named = directory.display().to_string();
        let unreadable =
            |reason| LdapSettingsError::Unreadable { directory: named.clone(), reason };
        let (mut settings, mut warnings) = (Self::default(), Vec::new());
        let mut missing = REQUIRED.to_vec();
        let mut is_empty = true;
        for entry in directory.read_dir().map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A mounted volume keeps the targets of its links under such names.
            if key.starts_with("..") || path.is_dir() {
                continue;
            }
            let text = match input::read_text(&path) {
                Ok(text) => text,
                Err(error) => {
                    warnings.push(error.to_string());
                    continue;
                }
            };
            match settings.set(&key, text.trim()) {
                Ok(()) => {}
                Err(Unusable::Key) => {
                    warnings.push(format!("`{key}` is not known"));
                    continue;
                }
                Err(Unusable::Value(wanted)) => {
                    warnings.push(format!("`{key}` is not used, it must be {wanted}"));
                }
            }
            is_empty = false;
            missing.retain(|required| *required != key);
        }
        if is_empty {
            return Err(LdapSettingsError::None(named));
        }
        if !missing.is_empty() {
            return Err(LdapSettingsError::Missing { directory: named, keys: missing });
        }
        Ok((settings, warnings))
    }

    fn set(&mut self, key: &str, text: &str) -> Result<(), Unusable> {
        match key {
            "Host" => self.host = some(text)?,
            "Port" => {
                let port = text.parse().ok().filter(|port| *port != 0);
                self.port = port.ok_or(Unusable::Value("a number from 1 to 65535"))?;
            }
            "BaseDN" => self.base_dn = some(text)?,
            "Filter" => {
                let is_filter = text.contains(USER) && is_balanced(text);
                let wanted = "a filter with `%s` and as many `(` as `)`";
                self.filter = is_filter.then(|| text.to_owned()).ok_or(Unusable::Value(wanted))?;
            }
            "GroupAttr" => self.group_attribute = some(text)?,
            "ReturnAttr" => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                let names: Vec<_> = names.map(str::to_owned).collect();
                if names.is_empty() {
                    return Err(Unusable::Value("names with commas between them"));
                }
                self.return_attributes = names;
            }
            "BindUser" => self.bind_user = some(text)?,
            "BindPassword" => self.bind_password = Password(some(text)?),
            "Insecure" => self.insecure = switch(text)?,
            "SSL" => self.ssl = switch(text)?,
            _ => return Err(Unusable::Key),
        }
        Ok(())
    }

    /// Returns warnings about values that are valid but probably mistakes.
    fn doubts(&self) -> Vec<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let is_attribute = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || ".-;".contains(c))
        };
        let attributes = self.return_attributes.iter().chain([&self.group_attribute]);
        let doubts = [
            (!self.host.chars().all(is_name), "`Host` does not look like a name or an address"),
            (!self.base_dn.contains('='), "`BaseDN` does not look like a distinguished name"),
            (
                !attributes.into_iter().all(is_attribute),
                "`GroupAttr` or `ReturnAttr` does not look like names of attributes",
            ),
            (self.bind_password.0.chars().count() < 3, "`BindPassword` is shorter than 3"),
            (self.ssl && self.port != LDAPS, "`SSL` with a `Port` other than 636"),
            (self.ssl && self.insecure, "`Insecure` takes `SSL` from whoever answers"),
        ];
        let doubts = doubts.into_iter().filter(|(is_doubtful, _)| *is_doubtful);
        doubts.map(|(_, doubt)| doubt.to_owned()).collect()
    }
}

enum Unusable {
    Key,
    /// The expected form.
    Value(&'static str),
}

fn some(text: &str) -> Result<String, Unusable> {
    if text.is_empty() { Err(Unusable::Value("a text")) } else { Ok(text.to_owned()) }
}

fn switch(text: &str) -> Result<bool, Unusable> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(Unusable::Value("`true` or `false`")),
    }
}

fn is_balanced(filter: &str) -> bool {
    let mut open = 0_usize;
    for c in filter.chars() {
        match c {
            '(' => open += 1,
            ')' if open == 0 => return false,
            ')' => open -= 1,
            _ => {}
        }
    }
    open == 0
}

fn list(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    keys.join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A temporary folder of files, removed when dropped.
    struct Mounted(PathBuf);

    impl Mounted {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("ldap-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                fs::write(path.join(file), text).unwrap();
            }
            Self(path)
        }
    }

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const WHOLE: [(&str, &str); 8] = [
        ("Host", " ldap.example.com\n"),
        ("Port", "1389"),
        ("BaseDN", "ou=people,dc=example,dc=com"),
        ("Filter", "(&(objectClass=person)(uid=%s))"),
        ("GroupAttr", "isMemberOf"),
        ("ReturnAttr", "isMemberOf, cn,"),
        ("BindUser", "cn=reader"),
        ("BindPassword", "s3cret"),
    ];

    fn read(name: &str, files: &[(&str, &str)]) -> Result<(LdapSettings, Vec<String>), String> {
        let mounted = Mounted::new(name, files);
        LdapSettings::read(&mounted.0).map_err(|error| error.to_string())
    }

    #[test]
    fn each_key_is_a_file_with_trimmed_text() {
        let mounted = Mounted::new("whole", &WHOLE);
        fs::write(mounted.0.join("..data"), "not a key").unwrap();
        fs::create_dir(mounted.0.join("SSL")).unwrap();
        let (settings, warnings) = LdapSettings::read(&mounted.0).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!((&*settings.host, settings.port), ("ldap.example.com", 1389));
        assert_eq!(settings.return_attributes, ["isMemberOf", "cn"]);
        assert_eq!(settings.bind_password.reveal(), "s3cret");
        assert!(!settings.ssl && !settings.insecure);
        assert_eq!(settings.doubts(), [""; 0]);
    }

    #[test]
    fn a_missing_required_key_is_fatal() {
        for at in 0..WHOLE.len() {
            let mut files = WHOLE.to_vec();
            let (key, _) = files.remove(at);
            let error = read(&format!("missing-{key}"), &files).unwrap_err();
            assert!(error.ends_with(&format!(": `{key}` missing")), "{error}");
        }
        let error = read("strange", &[("Hots", "x")]).unwrap_err();
        assert!(error.starts_with("there are no LDAP settings"), "{error}");
        let error = read("empty", &[]).unwrap_err();
        assert!(error.starts_with("there are no LDAP settings"), "{error}");
        let error = LdapSettings::read(Path::new("/does/not/exist")).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn unusable_values_are_reported_and_defaulted() {
        let mut files = WHOLE.to_vec();
        for (key, text) in [
            ("Host", ""),
            ("Port", "65536"),
            ("BaseDN", " "),
            ("Filter", "(uid=%s"),
            ("GroupAttr", ""),
            ("ReturnAttr", " , "),
            ("BindUser", ""),
            ("BindPassword", ""),
            ("SSL", "yes"),
            ("Insecure", ""),
            ("Bindpassword", "unheard-of"),
        ] {
            files.retain(|(known, _)| *known != key);
            files.push((key, text));
        }
        let (settings, warnings) = read("unusable", &files).unwrap();
        assert_eq!(warnings.len(), 11, "{warnings:#?}");
        assert!(!warnings.concat().contains("unheard-of"), "no value is shown");
        let built_in = LdapSettings::default();
        assert_eq!(format!("{settings:?}"), format!("{built_in:?}"));
        assert_eq!(settings.bind_password.reveal(), "admin");
    }

    #[test]
    fn ports_filters_and_switches() {
        for (key, text, is_good) in [
            ("Port", "1", true),
            ("Port", "65535", true),
            ("Port", "0", false),
            ("Port", "ldap", false),
            ("Filter", "uid=%s", true),
            ("Filter", "(|(uid=%s)(mail=%s))", true),
            ("Filter", "(uid=x)", false),
            ("Filter", ")uid=%s(", false),
            ("SSL", "True", true),
            ("Insecure", "0", true),
            ("Insecure", "maybe", false),
        ] {
            let taken = LdapSettings::default().set(key, text).is_ok();
            assert_eq!(taken, is_good, "{key} = {text}");
        }
    }

    #[test]
    fn odd_values_are_only_doubted() {
        let plain = LdapSettings::default;
        for (settings, fragment) in [
            (LdapSettings { host: "ldap://x".to_owned(), ..plain() }, "`Host`"),
            (LdapSettings { base_dn: "example".to_owned(), ..plain() }, "`BaseDN`"),
            (LdapSettings { group_attribute: "1 2".to_owned(), ..plain() }, "`GroupAttr`"),
            (LdapSettings { bind_password: tests_password("ab"), ..plain() }, "shorter than 3"),
            (LdapSettings { ssl: true, ..plain() }, "other than 636"),
            (LdapSettings { ssl: true, port: 636, insecure: true, ..plain() }, "whoever answers"),
        ] {
            let doubts = settings.doubts();
            assert!(doubts.len() == 1 && doubts[0].contains(fragment), "{fragment}: {doubts:?}");
        }
        assert_eq!(plain().doubts(), [""; 0]);
    }

    #[test]
    fn the_password_is_not_shown() {
        let mut settings = LdapSettings::default();
        assert!(settings.set("BindPassword", "s3cret").is_ok());
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
