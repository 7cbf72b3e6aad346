//! The known keys of each mapping of the document, one type per mapping. A message about an unknown
//! key suggests the closest of them.

/// The known keys of one type of mapping, in the order in which messages list them.
pub(super) trait Key: Copy + 'static {
    /// The mapping as messages call it, with its article.
    const OF: &'static str;
    const KNOWN: &'static [(&'static str, Self)];
}

/// Defines a type with one variant for each known key, so that a reader which misses a key does not
/// compile.
macro_rules! keys {
    ($($key:ident of $of:literal { $($variant:ident = $name:literal),* })*) => {$(
        #[derive(Clone, Copy, Debug)]
        pub(super) enum $key {
            $($variant),*
        }

        impl Key for $key {
            const OF: &'static str = $of;
            const KNOWN: &'static [(&'static str, Self)] = &[$(($name, Self::$variant)),*];
        }
    )*};
}

keys! {
    DocumentKey of "the configuration" { Partitions = "partitions", Checksum = "checksum" }
    PartitionKey of "a partition" {
        Name = "name",
        Queues = "queues",
        PlacementRules = "placementrules",
        Limits = "limits",
        Preemption = "preemption",
        NodeSortPolicy = "nodesortpolicy",
        UserGroupResolver = "usergroupresolver"
    }
    RuleKey of "a placement rule" {
        Name = "name",
        Create = "create",
        Filter = "filter",
        Parent = "parent",
        Value = "value"
    }
    FilterKey of "the filter of a placement rule" {
        Type = "type",
        Users = "users",
        Groups = "groups"
    }
    PreemptionKey of "`preemption` of a partition" {
        Enabled = "enabled",
        QuotaPreemptionEnabled = "quotapreemptionenabled"
    }
    NodeOrderKey of "a node sort policy" { Type = "type", ResourceWeights = "resourceweights" }
    ResolverKey of "a user group resolver" { Type = "type" }
    QueueKey of "a queue" {
        Name = "name",
        Parent = "parent",
        Queues = "queues",
        Resources = "resources",
        MaxApplications = "maxapplications",
        Properties = "properties",
        AdminAcl = "adminacl",
        SubmitAcl = "submitacl",
        ChildTemplate = "childtemplate",
        Limits = "limits"
    }
    ResourcesKey of "`resources` of a queue" { Guaranteed = "guaranteed", Max = "max" }
    TemplateKey of "a child template" {
        MaxApplications = "maxapplications",
        Properties = "properties",
        Resources = "resources"
    }
    LimitKey of "a limit" {
        Limit = "limit",
        Users = "users",
        Groups = "groups",
        MaxResources = "maxresources",
        MaxApplications = "maxapplications"
    }
}

/// Names of mappings whose keys are chosen by the author.
pub(super) const TEXTS: &str = "this";
pub(super) const WEIGHTS: &str = "`resourceweights`";
