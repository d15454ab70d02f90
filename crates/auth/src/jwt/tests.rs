//! Attacks on token verification, and accepted key formats.

use super::*;

const ISSUER: &str = "https://optik.test";
const NOW: i64 = 1_000_000;

fn claims() -> JwtClaims {
    JwtClaims {
        aud: Audiences(vec![ISSUER.into()]),
        exp: NOW + 3600,
        iat: NOW,
        nbf: NOW,
        iss: ISSUER.into(),
        jti: "1".into(),
        kubernetes: KubernetesClaims {
            namespace: "n".into(),
            serviceaccount: BoundObjectReference {
                name: "s".into(),
                uid: "u".into(),
            },
            ..KubernetesClaims::default()
        },
        sub: "system:serviceaccount:n:s".into(),
    }
}

fn keys() -> (SigningKey, Vec<PublicKey>) {
    let (key, _) = SigningKey::generate().unwrap();
    let public = vec![key.public().clone()];
    (key, public)
}

/// Verifies a token and its times.
fn check(token: &[u8], keys: &[PublicKey], issuer: &str, now: i64) -> Result<JwtClaims, JwtError> {
    let claims = verify(token, keys, issuer)?;
    claims.check_times(now).map(|()| claims)
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn jwt_verifies_only_within_its_validity() {
    let (key, public) = keys();
    let token = sign(&key, &claims()).unwrap();
    let at = |now| check(token.as_bytes(), &public, ISSUER, now);
    assert_eq!(at(NOW).unwrap(), claims());
    assert_eq!(at(NOW + 3600 + LEEWAY_SECONDS).unwrap(), claims());
    assert_eq!(at(NOW + 3601 + LEEWAY_SECONDS), Err(JwtError::Expired));
    assert_eq!(at(NOW - LEEWAY_SECONDS - 1), Err(JwtError::NotYetValid));
    assert_eq!(
        check(token.as_bytes(), &public, "https://other", NOW),
        Err(JwtError::NotOurs)
    );
    let (_, others) = keys();
    assert_eq!(
        check(token.as_bytes(), &others, ISSUER, NOW),
        Err(JwtError::UnknownKey)
    );
}

/// A single invalid time claim is enough to reject a token.
#[test]
fn jwt_with_bad_nbf_iat_or_exp_is_rejected() {
    let of = |exp, nbf, iat| JwtClaims {
        exp,
        nbf,
        iat,
        ..claims()
    };
    let far = 2 * LEEWAY_SECONDS;
    for (claims, expected) in [
        (of(NOW, NOW, NOW), Ok(())),
        (of(NOW - far, NOW, NOW), Err(JwtError::Expired)),
        (of(NOW + 1, NOW + far, NOW), Err(JwtError::NotYetValid)),
        (of(NOW + 1, NOW, NOW + far), Err(JwtError::IssuedInFuture)),
        (of(i64::MIN, 0, 0), Err(JwtError::Expired)),
        (of(i64::MAX, i64::MIN, i64::MIN), Ok(())),
    ] {
        assert_eq!(claims.check_times(NOW), expected, "{claims:?}");
    }
}

/// Header parameters can only make a token invalid; they never change the algorithm.
#[test]
fn jwt_with_forged_header_is_rejected() {
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
        let found = check(forged.as_bytes(), &public, ISSUER, NOW);
        assert!(found.is_err(), "{header}");
    }
    let mut other = claims();
    other.sub = "system:serviceaccount:kube-system:s".into();
    let moved = encoded(&serde_json::to_value(&other).unwrap());
    let forged = format!("{}.{moved}.{}", parts[0], parts[2]);
    assert_eq!(
        check(forged.as_bytes(), &public, ISSUER, NOW),
        Err(JwtError::Signature)
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
            check(odd.as_bytes(), &public, ISSUER, NOW).is_err(),
            "{odd}"
        );
    }
}

/// The subject must be the service account in the `kubernetes.io` claim.
#[test]
fn jwt_subject_must_match_service_account_claims() {
    let (key, public) = keys();
    let mut other = claims();
    other.sub = "system:serviceaccount:n:t".into();
    let token = sign(&key, &other).unwrap();
    assert_eq!(
        check(token.as_bytes(), &public, ISSUER, NOW),
        Err(JwtError::Claims)
    );
}

/// A 2048-bit RSA key as `openssl genrsa` and `openssl genpkey` write it.
#[test]
fn rsa_pem_keys_are_read() {
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
        check(token.as_bytes(), &public, ISSUER, NOW).unwrap(),
        claims()
    );
    assert_eq!(public[0].jwk()["e"], "AQAB");
    let older = SigningKey::from_pem(include_bytes!("rsa-test-key.pkcs1.pem")).unwrap();
    assert_eq!(older.public(), rsa.public());
    assert_eq!(
        SigningKey::from_pem(include_bytes!("rsa-test-key.pub.pem")).unwrap_err(),
        KeyError::PublicOnly
    );
}

/// EC keys as `openssl ecparam` and `openssl ec` write them (SEC 1, the first with its curve in a
/// separate block), and as `openssl genpkey` does (PKCS#8).
#[test]
fn ec_pem_keys_are_read() {
    let p256: [&[u8]; 2] = [
        include_bytes!("p256-test-key.sec1.pem"),
        include_bytes!("p256-test-key.pem"),
    ];
    let p384: [&[u8]; 2] = [
        include_bytes!("p384-test-key.sec1.pem"),
        include_bytes!("p384-test-key.pem"),
    ];
    let public: [&[u8]; 2] = [
        include_bytes!("p256-test-key.pub.pem"),
        include_bytes!("p384-test-key.pub.pem"),
    ];
    for (files, public, algorithm) in [(p256, public[0], "ES256"), (p384, public[1], "ES384")] {
        let public = PublicKey::all_from_pem(public).unwrap();
        assert_eq!(public[0].jwk()["alg"], algorithm);
        for file in files {
            let key = SigningKey::from_pem(file).unwrap();
            assert_eq!([key.public().clone()], *public, "{algorithm}");
            assert_eq!(PublicKey::all_from_pem(file).unwrap(), public);
            let token = sign(&key, &claims()).unwrap();
            assert_eq!(check(token.as_bytes(), &public, ISSUER, NOW), Ok(claims()));
        }
    }
    // An unrelated block before the key; then an unsupported curve.
    let whole = p256[0];
    let text = String::from_utf8_lossy(whole).replace("EC PARAMETERS", "OTHER");
    assert!(SigningKey::from_pem(text.as_bytes()).is_err());
    let other = include_bytes!("p521-test-key.sec1.pem");
    assert_eq!(
        SigningKey::from_pem(other).unwrap_err(),
        KeyError::Unsupported
    );
}
