//! Orders to etcd that only tests give.

use monoceros_cluster::Revision;
use tonic::{Response, Status};

use super::connection::Server;
use super::proto::auth_client::AuthClient;
use super::proto::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest, CompactionRequest, Permission, permission,
};
use super::{Etcd, end_of, signed};
use crate::store::Failure;

impl Etcd {
    /// Reads this many records at once, so that a test needs few records to have several pages.
    #[must_use]
    pub fn with_page(mut self, page: u32) -> Self {
        self.page = Some(page);
        self
    }

    /// Has the server forget revisions before `revision`: they can no longer be read or watched.
    pub async fn compact(&self, revision: Revision) -> Result<(), Failure> {
        let request = CompactionRequest { revision: signed(revision.0), physical: true };
        let call = |server: Server| {
            let request = server.request(request);
            async move { server.kv().compact(request).await }
        };
        self.connections.call(call).await?;
        Ok(())
    }

    /// Adds the users `root` and `name` with this password, and switches authentication on. `name`
    /// may read and write the records of this cluster only.
    pub async fn require_user(&self, name: &str, password: &str) -> Result<(), Failure> {
        let call = |server: Server| async move {
            let mut auth = AuthClient::new(server.channel());
            for user in ["root", name] {
                let (name, password) = (user.to_owned(), password.to_owned());
                auth.user_add(AuthUserAddRequest { name: name.clone(), password }).await?;
                auth.role_add(AuthRoleAddRequest { name }).await?;
                let (user, role) = (user.to_owned(), user.to_owned());
                auth.user_grant_role(AuthUserGrantRoleRequest { user, role }).await?;
            }
            let perm = Some(Permission {
                perm_type: permission::Type::Readwrite.into(),
                key: self.root.clone().into(),
                range_end: end_of(&self.root),
            });
            let name = name.to_owned();
            auth.role_grant_permission(AuthRoleGrantPermissionRequest { name, perm }).await?;
            auth.auth_enable(AuthEnableRequest {}).await?;
            Ok::<_, Status>(Response::new(()))
        };
        Ok(self.connections.call(call).await?)
    }
}
