//! The lexer of label selectors.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectorToken<'a> {
    /// A key or a value; also `in` and `notin`, which the parser recognizes by position.
    Word(&'a str),
    Open,
    Close,
    Comma,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl<'a> SelectorToken<'a> {
    /// The token as error messages quote it.
    pub(super) fn literal(self) -> &'a str {
        match self {
            Self::Word(text) => text,
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
            Self::Not => "!",
            Self::Equals => "=",
            Self::DoubleEquals => "==",
            Self::NotEquals => "!=",
            Self::Greater => ">",
            Self::Less => "<",
            Self::End => "",
        }
    }
}

/// All tokens, ending with `End`. A zero byte ends a word; at the start of a token it ends the
/// selector.
pub(super) fn tokenize(selector: &str) -> Vec<SelectorToken<'_>> {
    let mut rest = selector;
    let mut tokens = Vec::new();
    loop {
        let (token, after) = next(rest);
        tokens.push(token);
        if token == SelectorToken::End {
            return tokens;
        }
        rest = after;
    }
}

fn next(text: &str) -> (SelectorToken<'_>, &str) {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    for (symbol, token) in [
        ("==", SelectorToken::DoubleEquals),
        ("!=", SelectorToken::NotEquals),
        ("=", SelectorToken::Equals),
        ("!", SelectorToken::Not),
        ("(", SelectorToken::Open),
        (")", SelectorToken::Close),
        (",", SelectorToken::Comma),
        (">", SelectorToken::Greater),
        ("<", SelectorToken::Less),
    ] {
        if let Some(rest) = text.strip_prefix(symbol) {
            return (token, rest);
        }
    }
    if text.is_empty() || text.starts_with('\0') {
        return (SelectorToken::End, "");
    }
    let end = text.find(is_boundary).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (
        SelectorToken::Word(word),
        rest.strip_prefix('\0').unwrap_or(rest),
    )
}

fn is_boundary(c: char) -> bool {
    matches!(
        c,
        '\0' | ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '>' | '<'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_selector_lexer_splits_words_and_symbols() {
        let literals: Vec<&str> = tokenize("a in(b , c)!=d==e=f>1<\t2!g")
            .iter()
            .map(|t| t.literal())
            .collect();
        assert_eq!(
            literals,
            [
                "a", "in", "(", "b", ",", "c", ")", "!=", "d", "==", "e", "=", "f", ">", "1", "<",
                "2", "!", "g", ""
            ]
        );
        assert_eq!(
            tokenize("a\0b\0"),
            [
                SelectorToken::Word("a"),
                SelectorToken::Word("b"),
                SelectorToken::End
            ]
        );
        assert_eq!(
            tokenize("a\0\0b"),
            [SelectorToken::Word("a"), SelectorToken::End]
        );
    }
}
