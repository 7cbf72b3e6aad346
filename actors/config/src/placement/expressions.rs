//! Regular expressions of filters, and the bounds of their cost.
//!
//! A short expression can stand for a very large automaton (`\w{1000}`), and a text may hold many
//! of them. So there is a bound for each expression and one for all expressions of a configuration:
//! checking a text is always fast and needs little memory. The charge for an expression is its
//! text, which bounds the work to read it, and the memory of its automaton, which bounds the work
//! to build and use it. An expression that is too large is charged the maximum of one expression,
//! because finding that out cost as much.

use regex_automata::meta::{BuildError, Config, Regex};

/// Longest text of one expression, bytes.
const LONGEST: usize = 1 << 10;
/// Longest texts of all expressions together, bytes.
const LONGEST_TOGETHER: usize = 64 << 10;
/// Largest automaton of one expression, bytes.
const LARGEST: usize = 4 << 20;
/// Largest automata of all expressions together, bytes.
const LARGEST_TOGETHER: usize = 8 << 20;
/// Bytes of computed states that a search keeps, for each searching thread.
const SEARCH_CACHE: usize = 64 << 10;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    /// The expression as written.
    pub(super) text: String,
    machine: Regex,
}

/// Compares the texts as written.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Expression {
    /// Whether the expression matches anywhere in the name.
    pub(super) fn is_in(&self, name: &str) -> bool {
        self.machine.is_match(name)
    }
}

/// The remaining budget for the expressions of a configuration.
#[derive(Debug)]
pub(crate) struct Expressions {
    text: usize,
    machines: usize,
}

impl Default for Expressions {
    fn default() -> Self {
        Self { text: LONGEST_TOGETHER, machines: LARGEST_TOGETHER }
    }
}

impl Expressions {
    /// Compiles `text` as an expression that is searched anywhere in a name. The error says why it
    /// cannot be used.
    pub(super) fn build(&mut self, text: &str) -> Result<Expression, String> {
        if text.len() > LONGEST {
            let length = text.len();
            return Err(format!(
                "a regular expression has at most {LONGEST} bytes; this one has {length}"
            ));
        }
        let Some(left) = self.text.checked_sub(text.len()) else {
            return Err(format!(
                "`{text}` is one too many: the regular expressions of all filters have at most \
                 {LONGEST_TOGETHER} bytes together"
            ));
        };
        self.text = left;
        if self.machines == 0 {
            return Err(needs_too_much_together(text));
        }
        let machine = match machine(text) {
            Ok(machine) => machine,
            Err(error) if error.size_limit().is_none() => {
                return Err(format!("`{text}` is not a regular expression"));
            }
            Err(_) => {
                self.machines = self.machines.saturating_sub(LARGEST);
                return Err(format!(
                    "`{text}` is a regular expression that needs more than {LARGEST} bytes once it \
                     is compiled; repeat less, or write `[a-z0-9]` where `\\w` says more than is \
                     meant"
                ));
            }
        };
        let needs = machine.memory_usage();
        if needs > self.machines {
            self.machines = 0;
            return Err(needs_too_much_together(text));
        }
        self.machines -= needs;
        Ok(Expression { text: text.to_owned(), machine })
    }
}

fn machine(text: &str) -> Result<Regex, Box<BuildError>> {
    let bounds = Config::new()
        .nfa_size_limit(Some(LARGEST))
        .onepass_size_limit(Some(LARGEST))
        .dfa_size_limit(Some(LARGEST))
        .hybrid_cache_capacity(SEARCH_CACHE);
    Regex::builder().configure(bounds).build(text).map_err(Box::new)
}

fn needs_too_much_together(text: &str) -> String {
    format!(
        "`{text}` is one too many: the regular expressions of all filters may need \
         {LARGEST_TOGETHER} bytes together once they are compiled"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles all texts and returns the reasons of those that were rejected.
    fn refused<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut expressions = Expressions::default();
        texts.into_iter().filter_map(|text| expressions.build(text).err()).collect()
    }

    #[test]
    fn usual_expressions_are_accepted_in_any_number() {
        let usual = [
            "^user[0-9]+$",
            "^(alice|bob|carol)$",
            r"^[\w.-]+@example\.org$",
            "(?i)^svc-",
            "team-.*-dev",
            "^[a-z_][a-z0-9_-]{0,63}$",
        ];
        assert_eq!(refused(usual.into_iter().cycle().take(100)), Vec::<String>::new());
        assert_eq!(refused([r"^\w{1,60}$"]), Vec::<String>::new());
    }

    #[test]
    fn each_bound_refuses_by_its_name() {
        let long = "a".repeat(LONGEST + 1);
        let cases = [
            ("(", "is not a regular expression"),
            (&*long, "at most 1024 bytes; this one has 1025"),
            (r"\w{1000}", "more than 4194304 bytes"),
            ("(((a{99}){99}){99}){99}", "more than 4194304 bytes"),
        ];
        for (text, reason) in cases {
            let reasons = refused([text]);
            assert!(reasons.len() == 1 && reasons[0].contains(reason), "{text}: {reasons:?}");
        }
    }

    #[test]
    fn expressions_share_a_bound_of_text_and_memory() {
        let long = "a".repeat(LONGEST);
        let reasons = refused(std::iter::repeat_n(&*long, 70));
        assert_eq!(reasons.len(), 6);
        assert!(reasons.iter().all(|reason| reason.contains("65536 bytes together")));
        // Each may use the maximum or exceed it, so after some dozens none is compiled.
        for large in [r"\w{20}", r"\w{1000}"] {
            let reasons = refused(std::iter::repeat_n(large, 1_000));
            let together =
                reasons.iter().filter(|reason| reason.contains("8388608 bytes together")).count();
            assert!(together > 800, "{large}: {together}");
        }
    }

    #[test]
    fn an_expression_is_searched_anywhere_in_a_name() {
        let mut expressions = Expressions::default();
        let team = expressions.build("team-[0-9]").unwrap();
        assert!(team.is_in("my-team-7-dev") && !team.is_in("team-x"));
    }
}
