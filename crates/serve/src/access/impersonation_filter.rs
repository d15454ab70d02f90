//! User impersonation with the `Impersonate-*` headers.

use crate::handler::Handler;
use http::HeaderMap;
use optik_auth::{AuthorizationAttributes, User, impersonation};
use optik_object::Status;
use std::sync::Arc;

/// The impersonated user, and the user that the headers describe.
pub(crate) struct ImpersonatedUser {
    pub(crate) requested: User,
    pub(crate) user: Arc<User>,
}

/// Authorizes the impersonation that the headers ask for; `None` if they ask for none. The headers
/// are removed, so that no later filter sees them.
pub(crate) fn apply_impersonation<H: Handler>(
    handler: &H,
    caller: &User,
    headers: &mut HeaderMap,
    asked: &AuthorizationAttributes<'_>,
) -> Result<Option<ImpersonatedUser>, Status> {
    let is_one = |name: &http::HeaderName| name.as_str().starts_with(impersonation::PREFIX);
    if !headers.keys().any(is_one) {
        return Ok(None);
    }
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    let Some(wanted) = impersonation::requested_user(pairs)? else {
        return Ok(None);
    };
    let user = Arc::new(handler.impersonate(caller, &wanted, asked)?);
    let names: Vec<_> = headers
        .keys()
        .filter(|name| is_one(name))
        .cloned()
        .collect();
    for name in names {
        headers.remove(name);
    }
    Ok(Some(ImpersonatedUser {
        requested: wanted,
        user,
    }))
}
