//! The connection attempt to which a call belongs.
//!
//! A client whose connection breaks opens another one and starts again. Calls on the broken
//! connection may still be processed after calls on the new one: they were in socket buffers, or
//! waited for a thread. A stream opened so late would displace the client's current stream, and the
//! client would conclude that another process acts for its resource manager. So clients may number
//! their attempts, and late calls of an earlier attempt change nothing.

/// Maximum length of a client's name in bytes.
const NAME_BYTES: usize = 64;

/// A connection attempt of a client, `CLIENT.NUMBER` in the metadata of its calls. Attempts of
/// different clients cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Identifies the client for as long as it runs.
    client: String,
    number: u64,
}

impl Attempt {
    /// Parses the metadata value. `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (client, number) = text.rsplit_once('.')?;
        let number = number.parse().ok()?;
        let is_name = (1..=NAME_BYTES).contains(&client.len());
        is_name.then(|| Self { client: client.to_owned(), number })
    }

    /// The number, which rises with each attempt of the client.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the client has abandoned this attempt: `latest` is a later one of the same client.
    pub fn is_left_over(&self, latest: Option<&Self>) -> bool {
        latest.is_some_and(|latest| latest.client == self.client && latest.number > self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(text: &str) -> Attempt {
        Attempt::parse(text).unwrap()
    }

    #[test]
    fn earlier_attempt_of_the_same_client_is_left_over() {
        let latest = attempt("c1.7");
        for (text, is_left_over) in
            [("c1.6", true), ("c1.7", false), ("c1.8", false), ("c2.6", false), ("c.1.6", false)]
        {
            assert_eq!(attempt(text).is_left_over(Some(&latest)), is_left_over, "{text}");
        }
        assert!(!attempt("c1.1").is_left_over(None));
    }

    #[test]
    fn invalid_attempts_are_refused() {
        let long = format!("{}.1", "c".repeat(NAME_BYTES + 1));
        for text in ["", "1", ".1", "c.", "c.-1", "c.1.x", "c.18446744073709551616", &long] {
            assert_eq!(Attempt::parse(text), None, "{text}");
        }
        assert_eq!(attempt("a.b.3"), Attempt { client: "a.b".to_owned(), number: 3 });
    }
}
