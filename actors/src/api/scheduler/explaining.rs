//! Why asks wait: `docs/explain.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ExplainError, ReadError, SchedulerHandle, ask};
use crate::application::Explained;
use crate::partition::surveys::{self, Found};
use crate::snapshot::ExplanationSnapshot;

impl SchedulerHandle {
    /// Why the asks of an application wait, class by class in their order: at most 20 classes, from
    /// the one behind the first `offset` on. Nothing is tried and nothing changes.
    pub async fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let which = Explained::Classes { offset, most: surveys::CLASSES_MAX };
        self.explain_one(partition, application, which).await
    }

    /// Why one ask of an application waits: its class, with its key first; nothing, if nothing of
    /// the ask is pending.
    pub async fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        self.explain_one(partition, application, Explained::Ask(key.to_owned())).await
    }

    /// Why asks of many applications wait, as they are between two steps: of each application that
    /// is there the first `most` classes, with all of their keys.
    pub async fn explain_all(
        &self,
        partition: &str,
        applications: Vec<Arc<str>>,
        most: usize,
    ) -> Result<BTreeMap<Arc<str>, Vec<ExplanationSnapshot>>, ReadError> {
        let entry = self.find(partition).await?;
        let which = Explained::Classes { offset: 0, most };
        let found =
            ask(&entry, |reply| surveys::Explain::new(applications, which, usize::MAX, reply));
        let explained = found.await?.into_iter().filter_map(|(id, found)| match found {
            Found::Explained(explained) => Some((id, explained)),
            Found::NoSuchAsk => None,
        });
        Ok(explained.collect())
    }

    async fn explain_one(
        &self,
        partition: &str,
        application: &str,
        which: Explained,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let entry = self.find(partition).await?;
        let key = match &which {
            Explained::Ask(key) => key.clone(),
            Explained::Classes { .. } => String::new(),
        };
        let id: Arc<str> = Arc::from(application);
        let ids = vec![Arc::clone(&id)];
        let mut found =
            ask(&entry, |reply| surveys::Explain::new(ids, which, surveys::KEYS_MAX, reply))
                .await?;
        match found.remove(&id) {
            Some(Found::Explained(explained)) => Ok(explained),
            Some(Found::NoSuchAsk) => {
                Err(ExplainError::AskNotFound { application: application.to_owned(), ask: key })
            }
            None => Err(ExplainError::ApplicationNotFound(application.to_owned())),
        }
    }
}
