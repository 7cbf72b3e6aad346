//! Which keys each mapping of the document has, in one table each: whoever mistypes one is told the
//! closest of these.

/// The keys of one kind of mapping.
pub(super) struct Keys {
    /// What the mapping describes, with its article.
    pub(super) of: &'static str,
    pub(super) known: &'static [&'static str],
}

/// Why a match over the keys that [`fields`](super::Reader::fields) returned is complete.
pub(super) const KNOWN_ONLY: &str = "a key outside `known` is reported and not returned";

pub(super) const DOCUMENT: Keys =
    Keys { of: "the configuration", known: &["partitions", "checksum"] };

pub(super) const PARTITION: Keys = Keys {
    of: "a partition",
    known: &[
        "name",
        "queues",
        "placementrules",
        "limits",
        "preemption",
        "nodesortpolicy",
        "usergroupresolver",
    ],
};

pub(super) const RULE: Keys =
    Keys { of: "a placement rule", known: &["name", "create", "filter", "parent", "value"] };

pub(super) const FILTER: Keys =
    Keys { of: "the filter of a placement rule", known: &["type", "users", "groups"] };

pub(super) const PREEMPTION: Keys =
    Keys { of: "`preemption` of a partition", known: &["enabled", "quotapreemptionenabled"] };

pub(super) const NODE_ORDER: Keys =
    Keys { of: "a node sort policy", known: &["type", "resourceweights"] };

pub(super) const RESOLVER: Keys = Keys { of: "a user group resolver", known: &["type"] };

pub(super) const QUEUE: Keys = Keys {
    of: "a queue",
    known: &[
        "name",
        "parent",
        "queues",
        "resources",
        "maxapplications",
        "properties",
        "adminacl",
        "submitacl",
        "childtemplate",
        "limits",
    ],
};

pub(super) const RESOURCES: Keys =
    Keys { of: "`resources` of a queue", known: &["guaranteed", "max"] };

pub(super) const TEMPLATE: Keys =
    Keys { of: "a child template", known: &["maxapplications", "properties", "resources"] };

pub(super) const LIMIT: Keys =
    Keys { of: "a limit", known: &["limit", "users", "groups", "maxresources", "maxapplications"] };

/// Mappings whose keys are free.
pub(super) const TEXTS: Keys = Keys { of: "this", known: &[] };
pub(super) const WEIGHTS: Keys = Keys { of: "`resourceweights`", known: &[] };

/// The word a writer most likely meant: spelled the same but for case and separators, or with a
/// third of its letters wrong at most.
pub(crate) fn closest<'w>(written: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let bare = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
    };
    let written = bare(&written.chars().take(64).collect::<String>());
    words
        .map(|word| (strsim::damerau_levenshtein(&written, &bare(word)), word))
        .filter(|(distance, word)| *distance <= word.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
