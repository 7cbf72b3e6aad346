//! Explanations why asks are pending: `docs/explain.md`.

use std::sync::Arc;

use monoceros_config as config;
use tokio::sync::oneshot;

use super::SchedulerHandle;
use crate::api::outcomes::{ExplainError, ReadError};
use crate::application::explained::Explained;
use crate::partition::surveys::{self, Found};
use crate::snapshot::ExplanationSnapshot;

impl SchedulerHandle {
    /// Why the asks of an application are pending, class by class in their order: at most 20 classes, after the
    /// first `offset` ones. Nothing is tried and nothing changes.
    pub async fn explain(
        &self,
        partition: &str,
        application: &str,
        offset: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let which = Explained::Classes { offset, most: surveys::CLASSES_MAX };
        self.explained(partition, application, which, surveys::KEYS_MAX).await
    }

    /// Why one ask of an application is pending: its class, with its key first. Empty if the ask is satisfied.
    pub async fn explain_ask(
        &self,
        partition: &str,
        application: &str,
        key: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let which = Explained::Ask(key.to_owned());
        self.explained(partition, application, which, surveys::KEYS_MAX).await
    }

    /// As [`Self::explain`] from the first class on, with up to 1,000 keys of each class.
    pub async fn explain_with_keys(
        &self,
        partition: &str,
        application: &str,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let which = Explained::Classes { offset: 0, most: surveys::CLASSES_MAX };
        self.explained(partition, application, which, surveys::KEYS_WITH_ASKS_MAX).await
    }

    async fn explained(
        &self,
        partition: &str,
        application: &str,
        which: Explained,
        keys: usize,
    ) -> Result<Vec<ExplanationSnapshot>, ExplainError> {
        let entry = self.find(partition)?;
        let key = match &which {
            Explained::Ask(key) => key.clone(),
            Explained::Classes { .. } => String::new(),
        };
        let id = Arc::from(application);
        let (reply, found) = oneshot::channel();
        let survey = surveys::Explain::new(id, which, keys, reply);
        entry.mailbox.post(surveys::ReadAhead(Box::new(survey)));
        let found =
            found.await.map_err(|_| ReadError::PartitionNotFound(entry.name.to_string()))?;
        let application = application.to_owned();
        match found {
            Found::Explained(explained) => Ok(explained),
            Found::NoSuchAsk => Err(ExplainError::AskNotFound { application, ask: key }),
            Found::NoSuchApplication => Err(ExplainError::ApplicationNotFound(application)),
            Found::Removed { at_ns, work } => {
                let rm = config::rm_id(&entry.name).to_owned();
                Err(ExplainError::ApplicationRemoved { application, rm, at_ns, work })
            }
            Found::Ended { state, at_ns, rejected } => {
                Err(ExplainError::ApplicationEnded { application, state, at_ns, rejected })
            }
        }
    }
}
