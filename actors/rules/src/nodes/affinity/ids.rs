//! Typed ids for what constraints are compiled to: selectors, families (allocations whose tags
//! satisfy the same expressions), counters and ranges.

crate::slot! {
    /// A selector that is in use.
    pub(in crate::nodes) struct SelectorId;
}
crate::slot! {
    /// A family: the allocations whose tags satisfy the same expressions.
    pub(in crate::nodes) struct FamilyId;
}
crate::slot! {
    /// A counter: how many allocations of a family each group of a scope has.
    pub(in crate::nodes) struct CounterId;
}
crate::slot! {
    /// A range: the bounds on a counter in a group.
    pub(in crate::nodes) struct RangeId;
}
