//! A user with many role bindings, for cost measurements.

use optik_auth::{Policy, ResourceAttributes, Role, RoleBinding, User, bootstrap};

pub(crate) const CONFIGMAP: ResourceAttributes<'_> = ResourceAttributes {
    group: "",
    version: "v1",
    resource: "configmaps",
    subresource: "",
    namespace: "n7",
    name: "some-name",
};

/// The bootstrap policy, and a user who is an editor in a hundred namespaces.
pub(crate) fn policy() -> Policy {
    let mut editor = Policy::default().edit();
    for wanted in bootstrap::objects() {
        let bytes = wanted.object.encode().expect("it can be encoded");
        match wanted.plural.ends_with("roles") {
            true => editor.put_role(Role::from_json(&bytes).expect("it is a role")),
            false => editor.put_binding(RoleBinding::from_json(&bytes).expect("it is a binding")),
        }
    }
    for at in 0..100 {
        let binding = format!(
            r#"{{"metadata":{{"name":"e","namespace":"n{at}"}},"subjects":[{{"kind":"User","name":"kim"}}],
               "roleRef":{{"kind":"ClusterRole","name":"system:aggregate-to-edit"}}}}"#
        );
        editor.put_binding(RoleBinding::from_json(binding.as_bytes()).expect("it is a binding"));
    }
    editor.finish()
}

/// The user with the bindings of [`policy`].
pub(crate) fn kim() -> User {
    let kim = User {
        name: "kim".into(),
        ..User::default()
    };
    kim.authenticated()
}
