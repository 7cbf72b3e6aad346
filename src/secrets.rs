//! Masks secret values among the settings outside the queue configuration.
//!
//! A value is masked if its key looks secret, even for administrators: a document that they may
//! read can be stored or passed on to people who may not. If a client sends the mask back, the
//! present value is kept, so a document can be read, changed and sent back as a whole.

use std::collections::BTreeMap;

/// The text shown in place of a secret.
const MASK: &str = "********";

/// Parts of keys that mark a secret value.
const SIGNS: [&str; 4] = ["secret", "password", "token", "credential"];

/// Returns the settings with secret values masked.
pub fn masked(settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mask = |(key, value): (String, String)| {
        let value = if is_secret(&key) { MASK.to_owned() } else { value };
        (key, value)
    };
    settings.into_iter().map(mask).collect()
}

/// Returns the settings with each mask replaced by the present value of its key. `Err` names a key
/// that has no present value.
pub fn unmasked(
    mut settings: BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    for (key, value) in settings.iter_mut().filter(|(key, value)| is_secret(key) && *value == MASK)
    {
        present.get(key).ok_or_else(|| key.clone())?.clone_into(value);
    }
    Ok(settings)
}

fn is_secret(key: &str) -> bool {
    let key = key.to_lowercase();
    SIGNS.iter().any(|sign| key.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn secrets_are_masked_by_key() {
        let shown = masked(settings(&[
            ("log.level", "info"),
            ("ldap.bindPassword", "a"),
            ("apiToken", "b"),
            ("CLIENT_SECRET", "c"),
            ("credentials", "d"),
        ]));
        for (key, value) in shown {
            assert_eq!(value, if key == "log.level" { "info" } else { MASK }, "{key}");
        }
    }

    #[test]
    fn a_returned_mask_keeps_the_value() {
        let present = settings(&[("token", "t"), ("log.level", "info")]);
        let mut sent = masked(present.clone());
        assert_eq!(unmasked(sent.clone(), &present), Ok(present.clone()));
        sent.insert("token".to_owned(), "new".to_owned());
        assert_eq!(unmasked(sent, &present).unwrap()["token"], "new");
        let unknown = settings(&[("password", MASK)]);
        assert_eq!(unmasked(unknown, &present), Err("password".to_owned()));
        let harmless = settings(&[("log.level", MASK)]);
        assert_eq!(unmasked(harmless.clone(), &present), Ok(harmless));
    }
}
