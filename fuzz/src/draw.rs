//! Choices that are read off the bytes of a fuzzer, so that whatever it changes is another choice.

/// Names that mean something in the sessions which are fed, and some that should not.
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

/// Choices; all are the first when the bytes are used up.
#[derive(Clone, Debug)]
pub struct Draw<'b>(&'b [u8]);

impl<'b> Draw<'b> {
    /// Those of these bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there are no more.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// True in about one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// Some bytes.
    pub fn bytes(&mut self) -> &'b [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// A number: mostly a small one, sometimes one at an edge.
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

    /// The lower half of a number.
    pub fn small_number(&mut self) -> i32 {
        #[expect(clippy::cast_possible_truncation, reason = "whichever it is, it is a choice")]
        let number = self.number() as i32;
        number
    }

    /// A text: mostly a name that is used elsewhere, too.
    pub fn text(&mut self) -> String {
        match self.byte() {
            255 => "x".repeat(1_025),
            254 => "x".repeat(5_000),
            200..254 => String::from_utf8_lossy(self.bytes()).into_owned(),
            other => NAMES[usize::from(other) % NAMES.len()].to_owned(),
        }
    }

    /// A name, as an application or a node would have one.
    pub fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }

    /// A few of something.
    pub fn list<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        // Now and then more than a chunk holds.
        let most = if self.one_in(32) { 600 } else { self.below(4) };
        std::iter::from_fn(|| (!self.is_over()).then(|| one(self))).take(most).collect()
    }
}
