//! Which of a client's attempts to connect a call belongs to.
//!
//! A client whose connection breaks opens another one and begins anew. What it had said by the broken
//! one may be dealt with later than what it says by the new one: it lay in the buffers of a socket, or
//! waited for a thread. A stream that is opened so late would displace the one that its client has
//! open, and the client would hear that somebody else speaks for its resource manager. So clients may
//! count their attempts, and what is left of an earlier one changes nothing.

/// The longest name of a client, in bytes.
const NAME_BYTES: usize = 64;

/// An attempt of a client to connect, `CLIENT.NUMBER` in the metadata of its calls. Attempts of two
/// clients cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Names the client as long as it runs.
    client: String,
    number: u64,
}

impl Attempt {
    /// Reads what a call says; nothing if it is not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        let (client, number) = text.rsplit_once('.')?;
        let number = number.parse().ok()?;
        let is_name = (1..=NAME_BYTES).contains(&client.len());
        is_name.then(|| Self { client: client.to_owned(), number })
    }

    /// Whether its client has given it up: `latest` is a later one of the same client.
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
    fn an_attempt_is_left_over_once_a_later_one_of_its_client_has_come() {
        let latest = attempt("c1.7");
        for (text, is_left_over) in
            [("c1.6", true), ("c1.7", false), ("c1.8", false), ("c2.6", false), ("c.1.6", false)]
        {
            assert_eq!(attempt(text).is_left_over(Some(&latest)), is_left_over, "{text}");
        }
        assert!(!attempt("c1.1").is_left_over(None));
    }

    #[test]
    fn what_is_no_attempt_is_not_read_as_one() {
        let long = format!("{}.1", "c".repeat(NAME_BYTES + 1));
        for text in ["", "1", ".1", "c.", "c.-1", "c.1.x", "c.18446744073709551616", &long] {
            assert_eq!(Attempt::parse(text), None, "{text}");
        }
        assert_eq!(attempt("a.b.3"), Attempt { client: "a.b".to_owned(), number: 3 });
    }
}
