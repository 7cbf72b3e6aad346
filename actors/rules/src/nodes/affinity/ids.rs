//! The numbers of selectors, families, counters and ranges.

crate::slot! {
    /// A selector that is in use.
    pub(in crate::nodes) struct SelectorId;
}
crate::slot! {
    /// A family: the allocations whose tags satisfy the same expressions.
    pub(in crate::nodes) struct FamilyId;
}
crate::slot! {
    /// A counter: the numbers of a family's allocations in the groups of a scope.
    pub(in crate::nodes) struct CounterId;
}
crate::slot! {
    /// A range: the bounds on a counter in a group.
    pub(in crate::nodes) struct RangeId;
}
