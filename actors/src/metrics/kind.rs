//! The kinds of actors, as a label.

/// The kind of an actor, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the actors")]
pub enum ActorKind {
    RmProxy,
    Rm,
    Partition,
    Queue,
    Application,
    Node,
}

impl ActorKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::RmProxy, Self::Rm, Self::Partition, Self::Queue, Self::Application, Self::Node];

    /// The value of the label.
    pub fn text(self) -> &'static str {
        match self {
            Self::RmProxy => "rm_proxy",
            Self::Rm => "rm",
            Self::Partition => "partition",
            Self::Queue => "queue",
            Self::Application => "application",
            Self::Node => "node",
        }
    }
}
