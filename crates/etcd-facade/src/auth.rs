//! The `Auth` service: authentication is disabled, so every client may do everything.

use crate::context::FacadeContext;
use optik_etcd_api::errors::AUTH_NOT_ENABLED;
use optik_etcd_api::etcdserverpb::auth_server::Auth;
use optik_etcd_api::etcdserverpb::{
    AuthRoleListRequest, AuthRoleListResponse, AuthStatusRequest, AuthStatusResponse,
    AuthUserListRequest, AuthUserListResponse, AuthenticateRequest, AuthenticateResponse,
};
use tonic::{Request, Response, Status};

/// The auth revision of an etcd whose users were never changed.
const AUTH_REVISION: u64 = 1;

#[derive(Clone, Debug)]
pub(crate) struct AuthService(pub(crate) FacadeContext);

#[tonic::async_trait]
impl Auth for AuthService {
    async fn auth_status(
        &self,
        _: Request<AuthStatusRequest>,
    ) -> Result<Response<AuthStatusResponse>, Status> {
        Ok(Response::new(AuthStatusResponse {
            header: self.0.header_now(),
            enabled: false,
            auth_revision: AUTH_REVISION,
        }))
    }

    async fn authenticate(
        &self,
        _: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        Err(AUTH_NOT_ENABLED.into())
    }

    async fn user_list(
        &self,
        _: Request<AuthUserListRequest>,
    ) -> Result<Response<AuthUserListResponse>, Status> {
        Ok(Response::new(AuthUserListResponse {
            header: self.0.header_now(),
            users: Vec::new(),
        }))
    }

    async fn role_list(
        &self,
        _: Request<AuthRoleListRequest>,
    ) -> Result<Response<AuthRoleListResponse>, Status> {
        Ok(Response::new(AuthRoleListResponse {
            header: self.0.header_now(),
            roles: Vec::new(),
        }))
    }
}
