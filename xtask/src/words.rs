//! Word search in source text.

/// Whether `word` occurs in `text`, not as a part of a longer word.
pub(crate) fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole() {
        for (text, found) in [
            ("fn write() {}", true),
            ("write", true),
            ("rewrite write_all write2", false),
            ("rewrite, then write", true),
        ] {
            assert_eq!(contains_word(text, "write"), found, "{text}");
        }
    }
}
