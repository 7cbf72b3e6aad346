//! Draws choices from the bytes of a fuzzer, so that a changed byte is a changed choice.

/// Names that have a meaning in the fed sessions, and some that should have none.
const NAMES: [&str; 12] = [
    "applicationID",
    "allocationKey",
    "nodeID",
    "default",
    "partitionName",
    "[rmID]default",
    "[other]default",
    "",
    "a",
    "b",
    "line\nbreak\u{202e}",
    "\u{1f4a3}",
];

/// The remaining bytes; when they are used up, every choice is the first.
#[derive(Clone, Debug)]
pub struct Draw<'b>(&'b [u8]);

impl<'b> Draw<'b> {
    /// Draws from these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether the bytes are used up.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Draws a byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Draws a number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// Draws true in about one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// Draws some bytes.
    pub fn bytes(&mut self) -> &'b [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// Draws a number: mostly a small one, sometimes an edge case.
    pub fn number(&mut self) -> i64 {
        match self.byte() {
            250 => i64::MAX,
            251 => i64::MIN,
            252 => -1,
            253 => i64::from(i32::MAX),
            254 => i64::MAX / 1_000_000 + 1,
            255 => {
                let mut bytes = [0; 8];
                bytes.fill_with(|| self.byte());
                i64::from_le_bytes(bytes)
            }
            small => i64::from(small),
        }
    }

    /// Draws the lower half of a number.
    pub fn small_number(&mut self) -> i32 {
        #[expect(clippy::cast_possible_truncation, reason = "whichever it is, it is a choice")]
        let number = self.number() as i32;
        number
    }

    /// Draws a text: mostly a name that is used elsewhere, too.
    pub fn text(&mut self) -> String {
        match self.byte() {
            255 => "x".repeat(1_025),
            254 => "x".repeat(5_000),
            200..254 => String::from_utf8_lossy(self.bytes()).into_owned(),
            other => NAMES[usize::from(other) % NAMES.len()].to_owned(),
        }
    }

    /// Draws a valid name of an application or a node.
    pub fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    /// Draws a short list.
    pub fn list<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        // Now and then more than one chunk holds.
        let most = if self.one_in(32) { 600 } else { self.below(4) };
        std::iter::from_fn(|| (!self.is_over()).then(|| one(self))).take(most).collect()
    }
}
