//! The word that a writer most likely meant, for messages about unknown words.

/// Most letters of a written word that are compared.
const LETTERS_MAX: usize = 64;

/// Returns the first of the words with the fewest differences from the written one. Case and
/// separators do not count. At most a third of a word's letters may differ, or one letter of a
/// short word, and never all letters.
pub fn closest<'w>(written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let written = bare(&written.chars().take(LETTERS_MAX).collect::<String>());
    let n_written = written.chars().count();
    let close = words.filter_map(|word| {
        let compared = bare(word);
        let n_compared = compared.chars().count();
        let longer = n_written.max(n_compared);
        let most = (word.chars().count() / 3).max(1).min(longer.saturating_sub(1));
        if n_written.abs_diff(n_compared) > most {
            return None;
        }
        let differences = strsim::damerau_levenshtein(&written, &compared);
        (differences <= most).then_some((differences, word))
    });
    close.min_by_key(|(differences, _)| *differences).map(|(_, word)| word)
}

/// Returns the letters and digits of a text, in lower case.
fn bare(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_word_keeps_most_letters() {
        for (written, words, close) in [
            ("aa", &["a", "b"][..], Some("a")),
            ("a", &["b"], None),
            ("batc", &["bat", "batch"], Some("bat")),
            ("analytisc", &["analytics", "statistics"], Some("analytics")),
            ("maxApplications", &["queues", "maxapplications"], Some("maxapplications")),
            ("team_a", &["team-b", "team-a"], Some("team-a")),
            ("etl", &["dev", "prod"], None),
            ("--", &["a", "ab"], None),
            ("é", &["à"], None),
            ("x", &[], None),
        ] {
            assert_eq!(closest(written, words.iter().copied()), close, "{written}");
        }
    }
}
