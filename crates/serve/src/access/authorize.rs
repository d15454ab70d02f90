//! Who may do what.

use super::Asked;
use super::attempt::attempt;
use http::Method;
use optik_apiserver::User;
use optik_object::Status;

/// What anybody may read: whether the server lives, and what it is.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Lets a request pass or says why not.
///
/// For now everybody who proved who they are may do everything, and everybody else
/// nothing but look at the public pages.
pub(crate) fn authorize(user: &User, asked: Asked<'_>) -> Result<(), Status> {
    if !user.is_anonymous() || (asked.method == Method::GET && is_public(asked.path)) {
        return Ok(());
    }
    Err(match attempt(asked, &user.name) {
        Some(attempt) => Status::forbidden_attempt(attempt),
        None => {
            let verb = asked.method.as_str().to_ascii_lowercase();
            Status::forbidden_path(&user.name, &verb, asked.path, "")
        }
    })
}

fn is_public(path: &str) -> bool {
    PUBLIC.iter().any(|page| {
        path.strip_prefix(page)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_see_the_public_pages() {
        let kim = User {
            name: "kim".into(),
            ..User::default()
        };
        let nobody = User::anonymous();
        for (user, method, path, refusal) in [
            (&nobody, Method::GET, "/healthz", None),
            (&nobody, Method::GET, "/readyz/ping", None),
            (&nobody, Method::GET, "/version", None),
            (
                &nobody,
                Method::POST,
                "/healthz",
                Some(r#"forbidden: User "system:anonymous" cannot post path "/healthz""#),
            ),
            (
                &nobody,
                Method::GET,
                "/versions",
                Some(r#"forbidden: User "system:anonymous" cannot get path "/versions""#),
            ),
            (
                &nobody,
                Method::GET,
                "/api/v1/namespaces/x/pods",
                Some(
                    r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" in the namespace "x""#,
                ),
            ),
            (&kim, Method::DELETE, "/api/v1/nodes", None),
            (&kim, Method::GET, "/metrics", None),
        ] {
            let asked = Asked {
                method: &method,
                path,
                query: "",
            };
            let found = authorize(user, asked).err();
            let found = found.as_ref().map(Status::message);
            assert_eq!(found, refusal, "{} {method} {path}", user.name);
        }
    }
}
