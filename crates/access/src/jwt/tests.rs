//! What an attacker would try.

use super::*;

const ISSUER: &str = "https://optik.test";
const NOW: i64 = 1_000_000;

fn claims() -> Claims {
    Claims {
        aud: Audiences(vec![ISSUER.into()]),
        exp: NOW + 3600,
        iat: NOW,
        nbf: NOW,
        iss: ISSUER.into(),
        jti: "1".into(),
        kubernetes: Kubernetes {
            namespace: "n".into(),
            serviceaccount: Reference {
                name: "s".into(),
                uid: "u".into(),
            },
            ..Kubernetes::default()
        },
        sub: "system:serviceaccount:n:s".into(),
    }
}

fn keys() -> (SigningKey, Vec<PublicKey>) {
    let (key, _) = SigningKey::generate().unwrap();
    let public = vec![key.public().clone()];
    (key, public)
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn a_token_is_believed_while_it_is_valid() {
    let (key, public) = keys();
    let token = sign(&key, &claims()).unwrap();
    let check = |now| verify(token.as_bytes(), &public, ISSUER, now);
    assert_eq!(check(NOW).unwrap(), claims());
    assert_eq!(check(NOW + 3600 + LEEWAY_SECONDS).unwrap(), claims());
    assert_eq!(check(NOW + 3601 + LEEWAY_SECONDS), Err(TokenError::Expired));
    assert_eq!(
        check(NOW - LEEWAY_SECONDS - 1),
        Err(TokenError::NotYetValid)
    );
    assert_eq!(
        verify(token.as_bytes(), &public, "https://other", NOW),
        Err(TokenError::Foreign)
    );
    let (_, others) = keys();
    assert_eq!(
        verify(token.as_bytes(), &others, ISSUER, NOW),
        Err(TokenError::Signature)
    );
}

/// What the token says about its algorithm only ever makes it worse.
#[test]
fn forged_headers() {
    let (key, public) = keys();
    let token = sign(&key, &claims()).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let body = encoded(&serde_json::to_value(claims()).unwrap());
    let kid = public[0].id();
    for (header, signature) in [
        (serde_json::json!({"alg": "none"}), ""),
        (serde_json::json!({"alg": "None", "kid": kid}), ""),
        (serde_json::json!({"alg": "none"}), parts[2]),
        (serde_json::json!({"alg": "HS256", "kid": kid}), parts[2]),
        (serde_json::json!({"alg": "RS256", "kid": kid}), parts[2]),
        (
            serde_json::json!({"alg": "ES256", "kid": "other"}),
            parts[2],
        ),
        (
            serde_json::json!({"alg": "ES256", "kid": kid, "crit": ["x"]}),
            parts[2],
        ),
        (serde_json::json!({"alg": "ES256"}), ""),
        (serde_json::json!({}), parts[2]),
    ] {
        let forged = format!("{}.{body}.{signature}", encoded(&header));
        let found = verify(forged.as_bytes(), &public, ISSUER, NOW);
        assert!(found.is_err(), "{header}");
    }
    let mut other = claims();
    other.sub = "system:serviceaccount:kube-system:s".into();
    let moved = encoded(&serde_json::to_value(&other).unwrap());
    let forged = format!("{}.{moved}.{}", parts[0], parts[2]);
    assert_eq!(
        verify(forged.as_bytes(), &public, ISSUER, NOW),
        Err(TokenError::Signature)
    );
    for odd in [
        "",
        ".",
        "..",
        "a.b.c",
        "a.b.c.d",
        &token[1..],
        &format!("{token}.x"),
    ] {
        assert!(
            verify(odd.as_bytes(), &public, ISSUER, NOW).is_err(),
            "{odd}"
        );
    }
}

/// A subject must be the account that is named beside it.
#[test]
fn claims_agree_with_each_other() {
    let (key, public) = keys();
    let mut other = claims();
    other.sub = "system:serviceaccount:n:t".into();
    let token = sign(&key, &other).unwrap();
    assert_eq!(
        verify(token.as_bytes(), &public, ISSUER, NOW),
        Err(TokenError::Claims)
    );
}

/// A 2048 bit key as `openssl genrsa` and `openssl genpkey` write it.
#[test]
fn keys_of_others() {
    let (key, text) = SigningKey::generate().unwrap();
    let again = SigningKey::from_pem(text.as_bytes()).unwrap();
    assert_eq!(again.public(), key.public());
    assert_eq!(
        PublicKey::all_from_pem(text.as_bytes()).unwrap(),
        [key.public().clone()]
    );
    assert_eq!(
        SigningKey::from_pem(b"nothing").unwrap_err(),
        KeyError::NoPem
    );

    let rsa = SigningKey::from_pem(include_bytes!("rsa-test-key.pem")).unwrap();
    let token = sign(&rsa, &claims()).unwrap();
    let public = PublicKey::all_from_pem(include_bytes!("rsa-test-key.pub.pem")).unwrap();
    assert_eq!(public, [rsa.public().clone()]);
    let certified = PublicKey::all_from_pem(include_bytes!("rsa-test-key.crt.pem")).unwrap();
    assert_eq!(certified, public);
    assert_eq!(
        verify(token.as_bytes(), &public, ISSUER, NOW).unwrap(),
        claims()
    );
    assert_eq!(public[0].jwk()["e"], "AQAB");
    assert_eq!(
        SigningKey::from_pem(include_bytes!("rsa-test-key.pub.pem")).unwrap_err(),
        KeyError::PublicOnly
    );
}
