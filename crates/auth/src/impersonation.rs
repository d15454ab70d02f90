//! User impersonation: reads the `Impersonate-*` headers and authorizes the caller.
//!
//! Constrained impersonation (verbs `impersonate:<mode>`) is tried before the legacy verb
//! `impersonate`.

use crate::attributes::{AuthorizationAttributes, ResourceAttributes};
use crate::user::{
    AUTHENTICATED, Extra, MASTERS, UNAUTHENTICATED, User, service_account_groups,
    split_service_account,
};
use optik_object::{Status, dns1123_subdomain, qualified_name, quote};
use percent_encoding::percent_decode_str;

pub const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA_PREFIX: &str = "impersonate-extra-";
/// The common prefix of all impersonation headers.
pub const PREFIX: &str = "impersonate-";

const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From this many values on, one check of `*` is tried before the checks of single values.
const WILDCARD_CHECK_MIN: usize = 4;

/// The user that the impersonation headers of a request name. Header names are lower case.
///
/// # Errors
/// 400 if there are impersonation headers but none that names a user.
pub fn requested_user<'a>(
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Result<Option<User>, Status> {
    let mut user = User::default();
    let mut others = false;
    for (name, value) in headers {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            // The first of several headers counts.
            USER if user.name.is_empty() => user.name = text(),
            UID if user.uid.is_empty() => user.uid = text(),
            GROUP => user.groups.push(text()),
            name => {
                let Some(key) = name.strip_prefix(EXTRA_PREFIX) else {
                    continue;
                };
                let decoded = percent_decode_str(key).decode_utf8();
                let key = decoded.map_or_else(|_| key.to_owned(), Into::into);
                user.extra.entry(key).or_default().push(text());
                others = true;
            }
        }
    }
    let others = others || !user.uid.is_empty() || !user.groups.is_empty();
    match (user.name.is_empty(), others) {
        (false, _) => Ok(Some(user)),
        (true, false) => Ok(None),
        (true, true) => Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            go_format(&user)
        ))),
    }
}

/// Formats a user like Go's `%#v`, for upstream's error message.
fn go_format(user: &User) -> String {
    let list = |items: &[String]| {
        let quoted: Vec<_> = items.iter().map(|item| quote(item)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = match user.groups.is_empty() {
        true => "[]string(nil)".to_owned(),
        false => list(&user.groups),
    };
    let extra = user.extra.iter();
    let extra: Vec<_> = extra
        .map(|(key, values)| format!("{}:{}", quote(key), list(values)))
        .collect();
    let extra = match extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => format!("map[string][]string{{{}}}", extra.join(", ")),
    };
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

/// The authorizer: returns why `user` is denied a request; `None` if it is allowed.
pub trait ImpersonationAuthorizer {
    fn denial_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Option<String>;
}

/// The modes of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpersonationMode {
    /// A service account impersonates the node that its pod runs on.
    AssociatedNode,
    AnyNode,
    ServiceAccount,
    UserInfo,
    /// The unconstrained verb `impersonate`.
    Legacy,
}

const IMPERSONATION_MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::AnyNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Legacy,
];

impl ImpersonationMode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::AnyNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".into(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    fn applies(self, caller: &User, requested_user: &User) -> bool {
        let only_name = requested_user.uid.is_empty()
            && requested_user.groups.is_empty()
            && requested_user.extra.is_empty();
        let node = node_name(&requested_user.name);
        let account = split_service_account(&requested_user.name).is_some();
        match self {
            Self::AssociatedNode => {
                let own = caller.extra.get(NODE_NAME).map(Vec::as_slice);
                let own = matches!((own, node), (Some([own]), Some(node)) if own == node);
                only_name && own && split_service_account(&caller.name).is_some()
            }
            Self::AnyNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && account,
            Self::UserInfo => node.is_none() && !account,
            Self::Legacy => true,
        }
    }
}

fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix(NODE_PREFIX)?;
    dns1123_subdomain(name).is_empty().then_some(name)
}

/// Authorizes impersonation and returns the user that the request is executed as.
///
/// # Errors
/// 403 if no mode allows the caller to impersonate this user. The message is about the first mode
/// that was tried.
pub fn impersonate(
    caller: &User,
    requested_user: &User,
    asked: &AuthorizationAttributes<'_>,
    judge: &impl ImpersonationAuthorizer,
) -> Result<User, Status> {
    let mut first = None;
    for mode in IMPERSONATION_MODES
        .into_iter()
        .filter(|mode| mode.applies(caller, requested_user))
    {
        let attempt = ImpersonationAttempt {
            mode,
            verb: mode.verb(),
            caller,
            authorizer: judge,
        };
        match attempt.run(requested_user, asked) {
            Ok(user) => return Ok(user),
            Err(status) => drop(first.get_or_insert(status)),
        }
    }
    Err(first.unwrap_or_else(|| asked.forbidden(caller, "")))
}

struct ImpersonationAttempt<'a, J> {
    mode: ImpersonationMode,
    verb: String,
    caller: &'a User,
    authorizer: &'a J,
}

impl<J: ImpersonationAuthorizer> ImpersonationAttempt<'_, J> {
    fn run(
        &self,
        requested_user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<User, Status> {
        if self.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", self.mode.name(), asked.verb);
            self.authorize(&asked.with_verb(&verb))?;
        }
        let mut user = requested_user.clone();
        self.check_name(requested_user, &mut user)?;
        if !requested_user.uid.is_empty() {
            self.check(AUTHENTICATION, "uids", &requested_user.uid)?;
        }
        self.check_groups(&requested_user.groups)?;
        self.check_extra(&requested_user.extra)?;
        Ok(if user.is_anonymous() {
            user.with_group(UNAUTHENTICATED)
        } else if user.has_group(UNAUTHENTICATED) {
            user
        } else {
            user.with_group(AUTHENTICATED)
        })
    }

    fn is_constrained(&self) -> bool {
        self.mode != ImpersonationMode::Legacy
    }

    /// The API group in which users and groups are checked.
    fn group(&self) -> &'static str {
        match self.mode {
            ImpersonationMode::Legacy => "",
            _ => AUTHENTICATION,
        }
    }

    fn authorize(&self, asked: &AuthorizationAttributes<'_>) -> Result<(), Status> {
        match self.authorizer.denial_reason(self.caller, asked) {
            None => Ok(()),
            Some(reason) => Err(asked.forbidden(self.caller, &reason)),
        }
    }

    fn check(&self, group: &str, resource: &str, name: &str) -> Result<(), Status> {
        self.authorize(&self.resource_attributes(group, resource, name))
    }

    fn resource_attributes<'b>(
        &'b self,
        group: &'b str,
        resource: &'b str,
        name: &'b str,
    ) -> AuthorizationAttributes<'b> {
        let resource = ResourceAttributes {
            group,
            version: "v1",
            resource,
            name,
            ..ResourceAttributes::default()
        };
        AuthorizationAttributes::for_resource(&self.verb, resource)
    }

    fn check_name(&self, requested_user: &User, user: &mut User) -> Result<(), Status> {
        let group = self.group();
        if let Some(node) = node_name(&requested_user.name).filter(|_| self.is_constrained()) {
            user.groups = vec![NODES.into()];
            let node = match self.mode {
                // The mode applies only if the node is the caller's own.
                ImpersonationMode::AssociatedNode => "*",
                _ => node,
            };
            return self.check(group, "nodes", node);
        }
        let Some((namespace, name)) = split_service_account(&requested_user.name) else {
            return self.check(group, "users", &requested_user.name);
        };
        if requested_user.groups.is_empty() {
            user.groups = service_account_groups(namespace);
        }
        let resource = ResourceAttributes {
            group,
            version: "v1",
            resource: "serviceaccounts",
            namespace,
            name,
            ..ResourceAttributes::default()
        };
        self.authorize(&AuthorizationAttributes::for_resource(&self.verb, resource))
    }

    fn check_groups(&self, groups: &[String]) -> Result<(), Status> {
        let group = self.group();
        if self.is_constrained() {
            let refuse = |name: &str, text: &str| {
                Err(self
                    .resource_attributes(group, "groups", name)
                    .forbidden(self.caller, text))
            };
            if groups.iter().any(String::is_empty) {
                return refuse("", "impersonating the empty string group is not allowed");
            }
            if groups.iter().any(|group| group == MASTERS) {
                return refuse(
                    MASTERS,
                    "impersonating the system:masters group is not allowed",
                );
            }
            if groups.len() >= WILDCARD_CHECK_MIN && self.check(group, "groups", "*").is_ok() {
                return Ok(());
            }
        }
        groups
            .iter()
            .try_for_each(|name| self.check(group, "groups", name))
    }

    fn check_extra(&self, extra: &Extra) -> Result<(), Status> {
        let of = |subresource, name| {
            let resource = ResourceAttributes {
                group: AUTHENTICATION,
                version: "v1",
                resource: "userextras",
                subresource,
                name,
                ..ResourceAttributes::default()
            };
            AuthorizationAttributes::for_resource(&self.verb, resource)
        };
        if self.is_constrained() {
            if let Some(problem) = extra_problem(extra) {
                return Err(of("", "").forbidden(self.caller, &problem));
            }
            let many = extra.len().max(extra.values().map(Vec::len).sum()) >= WILDCARD_CHECK_MIN;
            if many && self.authorize(&of("*", "*")).is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.authorize(&of(key, value))?;
            }
        }
        Ok(())
    }
}

fn extra_problem(extra: &Extra) -> Option<String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".into());
        }
        // A valid key is a domain, a slash and a path.
        let path = key.split_once('/');
        if path.is_none_or(|(domain, path)| {
            !dns1123_subdomain(domain).is_empty()
                || path.is_empty()
                || !qualified_name(path).is_empty()
        }) {
            let text = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            let text = format!("extra.key: Invalid value: {}: {text}", quote(key));
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: {text}"
            ));
        }
        if values.iter().any(String::is_empty) {
            return Some("impersonating the empty string value in extra is not allowed".into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allows the listed requests: `verb resource name` or `verb resource/sub name`.
    struct AllowList<'a>(&'a [&'a str]);

    impl ImpersonationAuthorizer for AllowList<'_> {
        fn denial_reason(&self, _: &User, asked: &AuthorizationAttributes<'_>) -> Option<String> {
            let crate::AccessTarget::Resource(of) = asked.target else {
                return Some(String::new());
            };
            let slash = if of.subresource.is_empty() { "" } else { "/" };
            let dot = if of.group.is_empty() { "" } else { "." };
            let text = format!(
                "{} {}{dot}{}{slash}{} {}",
                asked.verb, of.resource, of.group, of.subresource, of.name
            );
            (!self.0.contains(&text.trim_end())).then(String::new)
        }
    }

    fn check(headers: &[(&str, &str)], allowed: &[&str]) -> Result<String, String> {
        let headers = headers
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()));
        let pods = ResourceAttributes {
            resource: "pods",
            version: "v1",
            ..ResourceAttributes::default()
        };
        let asked = AuthorizationAttributes::for_resource("list", pods);
        let bob = User {
            name: "bob".into(),
            ..User::default()
        };
        let said = |status: Status| status.message().to_owned();
        let user = requested_user(headers).map_err(said)?.unwrap();
        let user = impersonate(&bob, &user, &asked, &AllowList(allowed)).map_err(said)?;
        Ok(format!("{} {}", user.name, user.groups.join(",")))
    }

    #[test]
    fn impersonation_modes_check_their_verbs_and_set_the_user() {
        let legacy = [
            "impersonate users ann",
            "impersonate groups g",
            "impersonate serviceaccounts s",
            "impersonate userextras.authentication.k8s.io/a.b/c 1",
        ];
        let constrained = [
            "impersonate-on:user-info:list pods",
            "impersonate:user-info users.authentication.k8s.io ann",
        ];
        let on_pods = |mode: &str| {
            format!(
                "pods is forbidden: User \"bob\" cannot impersonate-on:{mode}:list resource \"pods\" in API group \"\" at the cluster scope"
            )
        };
        for (headers, allowed, expected) in [
            (&[(USER, "ann")][..], &legacy[..], Ok("ann system:authenticated".to_owned())),
            (&[(USER, "ann")], &constrained, Ok("ann system:authenticated".into())),
            (&[(USER, "ann"), (GROUP, "g")], &legacy, Ok("ann g,system:authenticated".into())),
            (&[(USER, "ann"), (GROUP, "h")], &legacy, Err(on_pods("user-info"))),
            (&[(USER, "ann"), (GROUP, MASTERS)], &constrained, Err(format!(
                "groups.authentication.k8s.io \"{MASTERS}\" is forbidden: User \"bob\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed"
            ))),
            (&[(USER, "ann"), ("impersonate-extra-a.b%2fc", "1")], &legacy, Ok("ann system:authenticated".into())),
            (&[(USER, "ann"), ("impersonate-extra-a.b%2fc", "2")], &legacy, Err(on_pods("user-info"))),
            (&[(USER, "system:serviceaccount:n:s")], &legacy,
             Ok("system:serviceaccount:n:s system:serviceaccounts,system:serviceaccounts:n,system:authenticated".into())),
            (&[(USER, "system:serviceaccount:n:t")], &legacy, Err(on_pods("serviceaccount"))),
            (&[(USER, "system:node:n")], &legacy, Err(on_pods("arbitrary-node"))),
            (&[(USER, "system:anonymous")], &["impersonate users system:anonymous"],
             Ok("system:anonymous system:unauthenticated".into())),
            (&[(GROUP, "joe")], &[], Err(
                "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"joe\"}, Extra:map[string][]string(nil)} without impersonating a user name".into()
            )),
        ] {
            assert_eq!(check(headers, allowed), expected, "{headers:?}");
        }
    }
}
