//! The static token file authenticator (`--token-auth-file`), in the format of kube-apiserver: one
//! line per token, `token,user,uid,"group1,group2"`; the groups are optional.

use crate::User;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Users by token.
///
/// Tokens are stored as digests: lookup time then reveals nothing about them, and a core dump does
/// not contain them.
#[derive(Clone, Default)]
pub struct TokenFile {
    users: BTreeMap<[u8; 32], Arc<User>>,
}

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenFileError {
    #[error(
        "line {line}: there must be at least 3 columns (token, user name, user uid), found {found}"
    )]
    TooFewColumns { line: usize, found: usize },
    #[error("invalid CSV")]
    Malformed(#[source] csv::Error),
}

impl TokenFile {
    /// Parses a token file.
    ///
    /// # Errors
    /// If a line has too few columns, or the file is not text.
    pub fn parse(file: &[u8]) -> Result<Self, TokenFileError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(file);
        let mut users = BTreeMap::new();
        for record in reader.records() {
            let record = record.map_err(TokenFileError::Malformed)?;
            let line = record
                .position()
                .map_or(0, |at| record_line(file, at.byte()));
            let (Some(token), Some(name), Some(uid)) =
                (record.get(0), record.get(1), record.get(2))
            else {
                let found = record.len();
                return Err(TokenFileError::TooFewColumns { line, found });
            };
            if token.is_empty() {
                tracing::warn!(line, "ignoring empty token in token file");
                continue;
            }
            let groups = record.get(3).filter(|groups| !groups.is_empty());
            let user = User {
                name: name.into(),
                groups: groups
                    .map_or_else(Vec::new, |all| all.split(',').map(Into::into).collect()),
                uid: uid.into(),
                ..User::default()
            };
            let user = Arc::new(user.authenticated());
            if users.insert(digest(token.as_bytes()), user).is_some() {
                tracing::warn!(line, "duplicate token in token file; the last line wins");
            }
        }
        Ok(Self { users })
    }

    #[must_use]
    pub fn user_for(&self, token: &[u8]) -> Option<&Arc<User>> {
        self.users.get(&digest(token))
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.users.len())
    }
}

/// The line number of the record at or behind a byte offset; blank lines before it are skipped.
fn record_line(file: &[u8], byte: u64) -> usize {
    let at = usize::try_from(byte).map_or(file.len(), |at| at.min(file.len()));
    let (before, record) = file.split_at(at);
    let blank = record
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n'));
    let newlines = before.iter().chain(blank).filter(|byte| **byte == b'\n');
    newlines.count() + 1
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_file_lines_parse_to_users() {
        let file = "a,ann,1\n\nb,bob,2,\"x,y\",more\n,nobody,3\na,amy,4,z\n";
        let tokens = TokenFile::parse(file.as_bytes()).unwrap();
        let user = |token: &str| tokens.user_for(token.as_bytes());
        let bob = user("b").unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "2"));
        assert_eq!(bob.groups, ["x", "y", "system:authenticated"]);
        assert_eq!(user("a").unwrap().name, "amy", "the later line counts");
        assert_eq!(user(""), None);
        assert_eq!(user("c"), None);
    }

    #[test]
    fn token_file_error_names_the_short_line() {
        let error = TokenFile::parse("a,ann,1\n\nb,bob\n".as_bytes()).unwrap_err();
        let text = "line 3: there must be at least 3 columns (token, user name, user uid), found 2";
        assert_eq!(error.to_string(), text);
    }
}
