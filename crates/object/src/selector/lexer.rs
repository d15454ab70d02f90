//! The words of a label selector.

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A key or a value; also `in` and `notin`, which the parser tells apart by place.
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

impl<'a> Token<'a> {
    /// As error messages quote it.
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

/// All words, with `End` last. A zero byte ends a word; where a word would begin, it
/// ends the selector.
pub(super) fn tokens(selector: &str) -> Vec<Token<'_>> {
    let mut rest = selector;
    let mut tokens = Vec::new();
    loop {
        let (token, after) = next(rest);
        tokens.push(token);
        if token == Token::End {
            return tokens;
        }
        rest = after;
    }
}

fn next(text: &str) -> (Token<'_>, &str) {
    let text = text.trim_start_matches([' ', '\t', '\r', '\n']);
    for (symbol, token) in [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Not),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
        (">", Token::Greater),
        ("<", Token::Less),
    ] {
        if let Some(rest) = text.strip_prefix(symbol) {
            return (token, rest);
        }
    }
    if text.is_empty() || text.starts_with('\0') {
        return (Token::End, "");
    }
    let end = text.find(is_boundary).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (Token::Word(word), rest.strip_prefix('\0').unwrap_or(rest))
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
    fn words_and_symbols() {
        let literals: Vec<&str> = tokens("a in(b , c)!=d==e=f>1<\t2!g")
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
            tokens("a\0b\0"),
            [Token::Word("a"), Token::Word("b"), Token::End]
        );
        assert_eq!(tokens("a\0\0b"), [Token::Word("a"), Token::End]);
    }
}
