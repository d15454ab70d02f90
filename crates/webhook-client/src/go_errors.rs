//! Webhook call failures, with the error texts of Go's HTTP client. The texts appear in API
//! responses, and users search for them.

use std::error::Error;
use std::io;
use tokio_rustls::rustls::{self, CertificateError};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    #[error("{}", dial_error(.address, .error))]
    Dial { address: String, error: io::Error },
    #[error("{}", handshake_error(.host, .error))]
    Handshake { host: String, error: io::Error },
    /// The server closed the connection.
    #[error("EOF")]
    Closed,
    #[error("response body exceeds {max} bytes")]
    TooLong { max: usize },
    #[error("{0}")]
    Other(String),
}

fn dial_error(address: &str, error: &io::Error) -> String {
    if error.raw_os_error().is_none() {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        return format!("dial tcp: lookup {host}: no such host");
    }
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::NetworkUnreachable => "network is unreachable",
        io::ErrorKind::HostUnreachable => "no route to host",
        io::ErrorKind::TimedOut => "connection timed out",
        io::ErrorKind::ConnectionReset => "connection reset by peer",
        _ => return format!("dial tcp {address}: {error}"),
    };
    format!("dial tcp {address}: connect: {what}")
}

fn handshake_error(host: &str, error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|error| error.downcast_ref());
    let Some(error) = inner else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".into(),
            io::ErrorKind::ConnectionReset => "read: connection reset by peer".into(),
            _ => error.to_string(),
        };
    };
    let why = match error {
        rustls::Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "x509: certificate signed by unknown authority".to_owned()
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                "x509: certificate has expired or is not yet valid".to_owned()
            }
            CertificateError::NotValidForName => {
                format!("x509: certificate is not valid for any names, but wanted to match {host}")
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let names = presented.iter().map(|name| plain_name(name));
                let names: Vec<&str> = names.collect();
                match names.as_slice() {
                    [] => format!(
                        "x509: certificate is not valid for any names, but wanted to match {host}"
                    ),
                    names => format!(
                        "x509: certificate is valid for {}, not {host}",
                        names.join(", ")
                    ),
                }
            }
            other => format!("x509: {other}"),
        },
        rustls::Error::InvalidMessage(_) => {
            return "tls: first record does not look like a TLS handshake".into();
        }
        other => return format!("tls: {other}"),
    };
    format!("tls: failed to verify certificate: {why}")
}

/// The name in a debug format: `DnsName("a.b")` becomes `a.b`.
fn plain_name(shown: &str) -> &str {
    let inside = shown.split_once('"').map(|(_, rest)| rest);
    let inside = inside.and_then(|rest| rest.split_once('"'));
    inside.map_or(shown, |(name, _)| name)
}

/// Translates an error of hyper, or of the layers below it.
pub(crate) fn from_client_error(error: &(dyn Error + 'static)) -> CallFailure {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(lost) = error.downcast_ref::<CallFailure>() {
            return CallFailure::Other(lost.to_string());
        }
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
                return CallFailure::Closed;
            }
            if error.is_parse() {
                return CallFailure::Other(
                    "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
                        .into(),
                );
            }
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => CallFailure::Closed,
                io::ErrorKind::ConnectionReset => {
                    CallFailure::Other("read: connection reset by peer".into())
                }
                _ => CallFailure::Other(error.to_string()),
            };
        }
        at = error.source();
    }
    CallFailure::Other(error.to_string())
}
