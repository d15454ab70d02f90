//! Access reviews: SubjectAccessReview and its variants, SelfSubjectReview, TokenReview.
//!
//! A review is posted and returned with a status; it is not stored. The descriptor of the resource
//! tells which review it is.

use crate::auth::authorizer::RbacAuthorizer;
use crate::auth::review_selectors;
use crate::auth::service_account_tokens::ServiceAccountTokens;
use optik_auth::{AuthorizationAttributes, ResourceAttributes, TokenFile, User};
use optik_catalog::ReviewKind;
use optik_object::{FieldError, Object, ResourceName, Status, Timestamp, Value};
use serde_json::{Map, json};

/// The inputs of a review.
pub(crate) struct Reviewer<'a> {
    pub(crate) authorizer: &'a RbacAuthorizer,
    pub(crate) tokens: &'a TokenFile,
    pub(crate) service_accounts: Option<&'a ServiceAccountTokens>,
    /// The user who posts the review.
    pub(crate) user: &'a User,
    /// Empty for a cluster-scoped review.
    pub(crate) namespace: &'a str,
    pub(crate) now: Timestamp,
}

/// The response to a review.
pub(crate) struct ReviewResponse {
    pub(crate) object: Object,
    /// Whether managed fields are recorded in the response.
    pub(crate) records_manager: bool,
}

impl Reviewer<'_> {
    pub(crate) fn evaluate(
        &self,
        review: ReviewKind,
        mut object: Object,
    ) -> Result<ReviewResponse, Status> {
        let managed = !matches!(
            review,
            ReviewKind::SelfSubjectReview | ReviewKind::SelfSubjectRulesReview
        );
        let status = match review {
            ReviewKind::SelfSubjectAccessReview => {
                let spec = spec(&object);
                into_result(&object, check_attributes(spec))?;
                self.access_review_status(self.user, spec)
            }
            ReviewKind::SubjectAccessReview => {
                let spec = spec(&object);
                let mut errors = check_attributes(spec);
                errors.extend(check_subject(spec));
                into_result(&object, errors)?;
                self.access_review_status(&subject_user(spec), spec)
            }
            ReviewKind::LocalSubjectAccessReview => {
                let spec = spec(&object);
                into_result(&object, self.check_local_namespace(spec))?;
                self.access_review_status(&subject_user(spec), spec)
            }
            ReviewKind::SelfSubjectRulesReview => self.rules_review_status(&mut object)?,
            ReviewKind::SelfSubjectReview => {
                *object.metadata_mut() = Map::new();
                object.set_creation_timestamp(Some(self.now));
                json!({"userInfo": user_info(self.user)})
            }
            ReviewKind::TokenReview => self.token_review_status(spec(&object))?,
        };
        object.members_mut().insert("status".into(), status);
        Ok(ReviewResponse {
            object,
            records_manager: managed,
        })
    }

    fn access_review_status(&self, user: &User, spec: &Value) -> Value {
        let text =
            |of: &'_ str, member: &'_ str| spec[of][member].as_str().unwrap_or_default().to_owned();
        let decision = if spec["resourceAttributes"].is_object() {
            let of = |member: &str| text("resourceAttributes", member);
            // An empty name means all names, in a review as in a rule.
            let parts = [
                "verb",
                "group",
                "version",
                "resource",
                "subresource",
                "namespace",
                "name",
            ]
            .map(of);
            let [verb, group, version, resource, subresource, namespace, name] = &parts;
            let resource = ResourceAttributes {
                group,
                version,
                resource,
                subresource,
                namespace,
                name,
            };
            self.authorizer
                .authorize(user, &AuthorizationAttributes::for_resource(verb, resource))
        } else {
            let of = |member: &str| text("nonResourceAttributes", member);
            let (verb, path) = (of("verb"), of("path"));
            self.authorizer
                .authorize(user, &AuthorizationAttributes::for_path(&verb, &path))
        };
        let mut status = json!({"allowed": decision.allowed});
        if !decision.reason.is_empty() {
            status["reason"] = decision.reason.into();
        }
        let ignored = review_selectors::unparsed_requirements(&spec["resourceAttributes"]);
        if !ignored.is_empty() {
            status["evaluationError"] = ignored.into();
        }
        status
    }

    fn check_local_namespace(&self, spec: &Value) -> Vec<FieldError> {
        let mut errors = check_attributes(spec);
        errors.extend(check_subject(spec));
        let other = &spec["nonResourceAttributes"];
        if other.is_object() {
            let text = "disallowed on this kind of request";
            errors = vec![FieldError::invalid(
                "spec.nonResourceAttributes",
                go_field_names(other),
                text,
            )];
        }
        let wanted = spec["resourceAttributes"]["namespace"]
            .as_str()
            .unwrap_or_default();
        if spec["resourceAttributes"].is_object() && wanted != self.namespace {
            let path = "spec.resourceAttributes.namespace";
            errors.push(FieldError::invalid(
                path,
                wanted,
                "must match metadata.namespace",
            ));
        }
        errors
    }

    fn rules_review_status(&self, object: &mut Object) -> Result<Value, Status> {
        let namespace = spec(object)["namespace"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        // The response does not repeat the spec.
        object.members_mut().insert("spec".into(), json!({}));
        *object.metadata_mut() = Map::new();
        let (rules, errors) = self.authorizer.policy().rules_for(self.user, &namespace);
        let parts = |rule: &optik_auth::PolicyRule, of: &[&str]| {
            let value = serde_json::to_value(rule).unwrap_or_default();
            let members = value.as_object().into_iter().flatten();
            let members = members.filter(|(name, _)| of.contains(&name.as_str()));
            Value::Object(
                members
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect(),
            )
        };
        let of_resources = ["verbs", "apiGroups", "resources", "resourceNames"];
        let resources: Vec<Value> = rules
            .iter()
            .filter(|rule| !rule.resources.is_empty())
            .map(|rule| parts(rule, &of_resources))
            .collect();
        let others: Vec<Value> = rules
            .iter()
            .filter(|rule| !rule.non_resource_urls.is_empty())
            .map(|rule| parts(rule, &["verbs", "nonResourceURLs"]))
            .collect();
        let mut status = json!({
            "resourceRules": resources, "nonResourceRules": others, "incomplete": false,
        });
        // Without RBAC there are no rules to list: everything is allowed.
        if !self.authorizer.uses_rbac() {
            let all = json!(["*"]);
            let rule = json!({"verbs": all, "apiGroups": all, "resources": all});
            let path = json!({"verbs": all, "nonResourceURLs": all});
            status["resourceRules"] = json!([rule]);
            status["nonResourceRules"] = json!([path]);
        }
        if !errors.is_empty() {
            status["evaluationError"] = errors.join(", ").into();
        }
        Ok(status)
    }

    fn token_review_status(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            let text = "token is required for TokenReview in authentication";
            return Err(Status::bad_request(text));
        }
        let own: &[String] = self
            .service_accounts
            .map_or(&[], ServiceAccountTokens::audiences);
        let asked: Vec<String> = match spec["audiences"].as_array() {
            Some(list) if !list.is_empty() => list
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => own.to_vec(),
        };
        let good = |user: &User, audiences: Vec<String>| json!({"authenticated": true, "user": user_info(user), "audiences": audiences});
        let mut error = "invalid bearer token".to_owned();
        if let Some(user) = self.tokens.user_for(token.as_bytes()) {
            let audiences: Vec<String> = own
                .iter()
                .filter(|audience| asked.contains(audience))
                .cloned()
                .collect();
            if !audiences.is_empty() || own.is_empty() {
                return Ok(good(user, audiences));
            }
        } else if let Some(accounts) = self
            .service_accounts
            .filter(|known| known.has_own_issuer(token.as_bytes()))
        {
            match accounts.authenticate(token.as_bytes(), &asked) {
                Ok((user, audiences)) => return Ok(good(&user, audiences)),
                Err(why) => error = format!("[{error}, {why}]"),
            }
        }
        Ok(json!({"user": {}, "error": error}))
    }
}

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// A user as `UserInfo` in a review.
fn user_info(user: &User) -> Value {
    let mut shown = Map::new();
    shown.insert("username".into(), user.name.as_str().into());
    for (name, value) in [
        ("uid", Value::from(user.uid.as_str())),
        ("groups", Value::from(user.groups.clone())),
        ("extra", json!(user.extra)),
    ] {
        let empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !empty {
            shown.insert(name.into(), value);
        }
    }
    Value::Object(shown)
}

/// The subject of a SubjectAccessReview.
fn subject_user(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: spec["user"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: texts(&spec["groups"]),
        extra: extra
            .map(|(key, values)| (key.clone(), texts(values)))
            .collect(),
    }
}

/// Validation errors of reviews; the message names no kind.
fn into_result(object: &Object, mut errors: Vec<FieldError>) -> Result<(), Status> {
    let metadata = object.metadata().cloned().unwrap_or_default();
    let own = |name: &&String| {
        !matches!(
            name.as_str(),
            "managedFields" | "namespace" | "creationTimestamp"
        )
    };
    if metadata.keys().any(|name| own(&name)) {
        errors.push(FieldError::invalid(
            "metadata",
            Value::Object(metadata),
            "must be empty",
        ));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let nothing = ResourceName {
        group: "authorization.k8s.io",
        plural: "",
        kind: "",
    };
    Err(Status::invalid(nothing, "", &errors))
}

fn check_attributes(spec: &Value) -> Vec<FieldError> {
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    match (resource.is_object(), other.is_object()) {
        (true, true) => {
            let text = "cannot be specified in combination with resourceAttributes";
            vec![FieldError::invalid(
                "spec.nonResourceAttributes",
                go_field_names(other),
                text,
            )]
        }
        (false, false) => {
            let text =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![FieldError::invalid(
                "spec.resourceAttributes",
                Value::Null,
                text,
            )]
        }
        (true, false) => review_selectors::validate(resource),
        (false, true) => Vec::new(),
    }
}

/// Renames members to the names of the fields in upstream's Go structs.
fn go_field_names(other: &Value) -> Value {
    let text = |member: &str| other[member].as_str().unwrap_or_default();
    json!({"Path": text("path"), "Verb": text("verb")})
}

fn check_subject(spec: &Value) -> Option<FieldError> {
    let user = spec["user"].as_str().unwrap_or_default();
    let groups = spec["groups"].as_array();
    let nobody = user.is_empty() && groups.is_none_or(Vec::is_empty);
    let text = "at least one of user or group must be specified";
    nobody.then(|| FieldError::invalid("spec.user", "", text))
}
