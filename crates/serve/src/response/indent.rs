//! Indentation of JSON: two spaces per level, one member per line.

/// Indents JSON in chunks of any size, without buffering it.
///
/// Members keep their order and numbers their digits. White space outside strings is dropped, so
/// there is no newline at the end. Input that is not JSON gives meaningless output, never a panic.
#[derive(Debug, Default)]
pub(crate) struct Indenter {
    depth: usize,
    context: IndentContext,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum IndentContext {
    #[default]
    Values,
    /// Right after an opening bracket, which may be closed at once.
    Opened,
    Text,
    /// After a backslash in a string.
    Escape,
}

impl Indenter {
    /// Appends the indented `piece` to `out`.
    pub(crate) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some((&byte, behind)) = rest.split_first() {
            if self.context == IndentContext::Text {
                let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                let (plain, behind) = rest.split_at(plain.unwrap_or(rest.len()));
                out.extend_from_slice(plain);
                rest = behind;
                if let Some((&end, behind)) = rest.split_first() {
                    out.push(end);
                    self.context = if end == b'"' {
                        IndentContext::Values
                    } else {
                        IndentContext::Escape
                    };
                    rest = behind;
                }
                continue;
            }
            self.push_byte(byte, out);
            rest = behind;
        }
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            _ if self.context == IndentContext::Escape => {
                out.push(byte);
                self.context = IndentContext::Text;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' | b'[' => {
                self.begin_value(out);
                out.push(byte);
                self.depth += 1;
                self.context = IndentContext::Opened;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.context != IndentContext::Opened {
                    self.new_line(out);
                }
                out.push(byte);
                self.context = IndentContext::Values;
            }
            b',' => {
                out.push(byte);
                self.new_line(out);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                self.begin_value(out);
                out.push(byte);
                self.context = IndentContext::Text;
            }
            _ => {
                self.begin_value(out);
                out.push(byte);
            }
        }
    }

    /// Puts the first value in a bracket onto a line of its own.
    fn begin_value(&mut self, out: &mut Vec<u8>) {
        if self.context == IndentContext::Opened {
            self.new_line(out);
            self.context = IndentContext::Values;
        }
    }

    fn new_line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn indent<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let (mut indenter, mut out) = (Indenter::default(), Vec::new());
        for piece in pieces {
            indenter.push(piece, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn indenter_formats_json_as_upstream() {
        for (json, expected) in [
            ("{}\n", "{}"),
            (" [ ] ", "[]"),
            ("1.50e+3\n", "1.50e+3"),
            (r#""a\"{,:}\\""#, r#""a\"{,:}\\""#),
            (
                r#"{"b":{},"a":[[],[1,{"c":null}]]}"#,
                "{\n  \"b\": {},\n  \"a\": [\n    [],\n    [\n      1,\n      {\n        \"c\": null\n      }\n    ]\n  ]\n}",
            ),
        ] {
            assert_eq!(indent([json.as_bytes()]), expected);
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f64>().prop_map(Into::into),
            "[a\"\\\\{}\\[\\],: \n]*".prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn indenter_output_is_independent_of_chunking(value in json(), cuts in prop::collection::vec(0_usize..4096, 0..12)) {
            let compact = serde_json::to_vec(&value).unwrap();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % (compact.len() + 1)).collect();
            cuts.push(0);
            cuts.push(compact.len());
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &compact[cut[0]..cut[1]]);
            prop_assert_eq!(indent(pieces), serde_json::to_string_pretty(&value).unwrap());
        }

        #[test]
        fn indenter_survives_arbitrary_bytes(bytes: Vec<u8>) {
            let (mut indenter, mut out) = (Indenter::default(), Vec::new());
            indenter.push(&bytes, &mut out);
        }
    }
}
