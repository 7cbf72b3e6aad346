//! Makes plans without questions to the RM: member by member, the best node first.

use super::demand::Judge;
use super::plan::Plan;
use super::planner::{Draft, Planner};
use super::ranking::Emission;
use crate::asks::preemption::NoPreemption;

impl Planner {
    /// Returns a plan that lets the preemptor run, without asking the RM. It is the best allowed
    /// plan if no node has more than 16 candidates.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn plan(&mut self, judge: &dyn Judge) -> Result<Plan, NoPreemption> {
        self.begin()?;
        let mut draft = Draft::default();
        for member in self.members() {
            let goal = self.goal(member, &draft);
            let mut emission = Emission::default();
            let Some(best) = emission.next(self, judge, &goal) else {
                self.drop_draft(draft);
                return Err(self.no_node());
            };
            self.settle(&mut draft, member, best);
        }
        self.complete(draft)
    }
}
