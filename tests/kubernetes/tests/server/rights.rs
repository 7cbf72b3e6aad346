//! Rights of the scheduler: all rights of the manifests, or all except some.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::bed::ACCOUNT;
use crate::cluster::{Cluster, eventually};

/// A right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    pub group: &'static str,
    pub resource: &'static str,
    pub verb: &'static str,
}

/// Returns the rules without a right.
fn without(rules: &Value, right: Right) -> Value {
    let has = |list: &Value, what: &str| {
        list.as_array().is_some_and(|all| all.iter().any(|one| one == what))
    };
    let leave_out = |list: &Value, what: &str| -> Value {
        list.as_array().into_iter().flatten().filter(|one| **one != *what).cloned().collect()
    };
    let mut left = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        let is_it = has(&rule["apiGroups"], right.group)
            && has(&rule["resources"], right.resource)
            && has(&rule["verbs"], right.verb);
        if !is_it {
            left.push(rule.clone());
            continue;
        }
        let mut others = rule.clone();
        others["resources"] = leave_out(&rule["resources"], right.resource);
        let mut rest = rule.clone();
        rest["resources"] = json!([right.resource]);
        rest["verbs"] = leave_out(&rule["verbs"], right.verb);
        let is_some =
            |rule: &Value| ["resources", "verbs"].iter().all(|key| rule[*key] != json!([]));
        left.extend([others, rest].into_iter().filter(is_some));
    }
    Value::Array(left)
}

impl Right {
    /// Counts the log lines that report the right as missing.
    pub fn missed(self, log: &str) -> usize {
        let Self { resource, verb, .. } = self;
        let said = format!("cannot {verb} resource \"{resource}\"");
        // The log escapes quotation marks in a text.
        log.lines().filter(|line| line.replace('\\', "").contains(&said)).count()
    }
}

/// Returns the rules of the chart.
fn rules() -> anyhow::Result<Value> {
    let text = include_str!("../../../../deploy/helm/monoceros/files/rules.yaml");
    Ok(serde_saphyr::from_str(&text.replace("LEASE", "monoceros"))?)
}

impl Cluster {
    /// Gives the service account the rights of the manifests, except some.
    pub async fn grant(&self, left_out: &[Right]) -> anyhow::Result<()> {
        let rules = rules()?;
        let base = "/apis/rbac.authorization.k8s.io/v1";
        let name = json!({"name": "monoceros"});
        let group = "rbac.authorization.k8s.io";
        let subject = json!([{"kind": "User", "apiGroup": group, "name": ACCOUNT}]);
        for (kind, plural, path, rules) in [
            ("ClusterRole", "clusterroles", base.to_owned(), &rules["cluster"]),
            ("Role", "roles", format!("{base}/namespaces/monoceros"), &rules["own"]),
        ] {
            let rules = left_out.iter().fold(rules.clone(), |rules, right| without(&rules, *right));
            let role = json!({"metadata": name, "rules": rules});
            self.put(&format!("{path}/{plural}"), role).await?;
            let of = json!({"apiGroup": group, "kind": kind, "name": "monoceros"});
            let binding = json!({"metadata": name, "roleRef": of, "subjects": subject});
            let plural = plural.replace("roles", "rolebindings");
            self.put(&format!("{path}/{plural}"), binding).await?;
        }
        Ok(())
    }

    /// Gives the user `member` the rights of a member of a cluster.
    pub async fn grant_member(&self) -> anyhow::Result<()> {
        let base = "/apis/rbac.authorization.k8s.io/v1/namespaces/monoceros";
        let (name, group) = (json!({"name": "member"}), "rbac.authorization.k8s.io");
        let role = json!({"metadata": name, "rules": rules()?["member"]});
        self.put(&format!("{base}/roles"), role).await?;
        let of = json!({"apiGroup": group, "kind": "Role", "name": "member"});
        let subject = json!([{"kind": "User", "apiGroup": group, "name": "member"}]);
        let binding = json!({"metadata": name, "roleRef": of, "subjects": subject});
        self.put(&format!("{base}/rolebindings"), binding).await
    }

    /// Takes rights away, and waits until that has taken effect.
    pub async fn take(&self, rights: &[Right]) -> anyhow::Result<()> {
        for right in rights {
            anyhow::ensure!(self.may(*right).await?, "{right:?} was never granted");
        }
        self.grant(rights).await?;
        for right in rights {
            self.wait_may(*right, false).await?;
        }
        Ok(())
    }

    /// Gives the rights back.
    pub async fn give(&self, rights: &[Right]) -> anyhow::Result<()> {
        self.grant(&[]).await?;
        for right in rights {
            self.wait_may(*right, true).await?;
        }
        Ok(())
    }

    async fn wait_may(&self, right: Right, may: bool) -> anyhow::Result<()> {
        eventually(&format!("{right:?} to be {may}"), async || {
            Ok(if self.may(right).await? == may { Ok(()) } else { Err(String::new()) })
        })
        .await
    }

    /// Returns whether the service account has a right on the object that the rules name.
    async fn may(&self, right: Right) -> anyhow::Result<bool> {
        let Right { group, resource, verb } = right;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let name = match (resource, verb) {
            ("leases", "get" | "update") => "monoceros",
            ("configmaps", _) => "monoceros-configs",
            _ => "",
        };
        let review = json!({"spec": {"user": ACCOUNT, "resourceAttributes": {
            "namespace": "monoceros", "group": group, "resource": resource,
            "subresource": subresource, "verb": verb, "name": name}}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.create(path, review).await?;
        answer["status"]["allowed"].as_bool().context("an answer")
    }

    /// Creates or replaces the object.
    async fn put(&self, path: &str, body: Value) -> anyhow::Result<()> {
        match self.send("POST", path, &body).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let name = body["metadata"]["name"].as_str().context("a name")?;
                let path = format!("{path}/{name}");
                self.send("PUT", &path, &body).await.with_context(|| format!("PUT {path}"))?;
                Ok(())
            }
            other => other.map(drop).with_context(|| format!("POST {path} {body}")),
        }
    }
}
