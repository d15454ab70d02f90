//! The nesting depth of an expression, bounded before any code recurses over it.
//!
//! The parser recurses for every operand, so a long expression could exhaust the stack. The depth
//! is counted in one pass over the text and is never too low.

use std::sync::{Mutex, PoisonError};

/// Upper bound of the stack use of one nesting level in the parser, in unoptimised builds.
const LEVEL_BYTES: usize = 96 * 1024;
/// Up to this depth the stack of any thread is large enough.
const DEFAULT_STACK_DEPTH_MAX: usize = 8;

/// An upper bound of the nesting depth of an expression.
pub(crate) fn nesting_depth(source: &str) -> usize {
    let mut levels = vec![0_usize];
    let mut below = 0_usize;
    let mut deepest = 0;
    let bytes = source.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'"' | b'\'' => {
                at = string_end(bytes, at);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = line_end(bytes, at);
                continue;
            }
            b'(' | b'[' | b'{' => {
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                    below += *level;
                }
                levels.push(0);
            }
            b')' | b']' | b'}' if levels.len() > 1 => {
                levels.pop();
                below -= levels.last().copied().unwrap_or(0).min(below);
            }
            b',' => reset(&mut levels),
            b'&' | b'|' if bytes.get(at + 1) == Some(&byte) => {
                reset(&mut levels);
                at += 1;
            }
            b'.' if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) => {}
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'<' | b'>' | b'=' | b'?' => {
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                }
                if bytes.get(at + 1) == Some(&b'=') {
                    at += 1;
                }
            }
            // ` in `
            b'i' if is_in(bytes, at) => {
                if let Some(level) = levels.last_mut() {
                    *level += 1;
                }
            }
            _ => {}
        }
        deepest = deepest.max(below + levels.last().copied().unwrap_or(0));
        at += 1;
    }
    deepest
}

fn reset(levels: &mut [usize]) {
    if let Some(level) = levels.last_mut() {
        *level = 0;
    }
}

fn is_in(bytes: &[u8], at: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    bytes.get(at + 1) == Some(&b'n')
        && !word(bytes.get(at + 2))
        && !word(at.checked_sub(1).and_then(|at| bytes.get(at)))
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().position(|byte| *byte == b'\n');
    rest.map_or(bytes.len(), |length| at + length)
}

/// The offset behind a string literal that begins at `start`.
///
/// An unterminated literal is skipped as one character only: the parser rejects it anyway.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let letters = bytes[..start].iter().rev();
    let raw = letters
        .take_while(|byte| byte.is_ascii_alphabetic())
        .take(2)
        .any(|byte| byte.eq_ignore_ascii_case(&b'r'));
    let triple = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if triple { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if !raw => at += 1,
            // The lexer gives up on the literal here and continues with the next character.
            b'\n' if !triple => return start + 1,
            byte if byte == quote && !triple => return at + 1,
            byte if byte == quote && bytes[at..].starts_with(&[quote; 3]) => return at + 3,
            _ => {}
        }
        at += 1;
    }
    // Unterminated: the following text is counted as if there were no string.
    start + 1
}

/// Runs a recursive function on a thread whose stack is large enough for `depth`.
pub(crate) fn with_stack_for_depth<T: Send>(depth: usize, run: impl FnOnce() -> T + Send) -> T {
    if depth <= DEFAULT_STACK_DEPTH_MAX {
        return run();
    }
    let work = Mutex::new(Some(run));
    let take = || {
        let run = work.lock().unwrap_or_else(PoisonError::into_inner).take();
        run.map(|run| run())
    };
    let done = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(depth.saturating_mul(LEVEL_BYTES));
        match builder.spawn_scoped(scope, take) {
            Ok(thread) => thread.join(),
            // No thread can be started: run on the current stack.
            Err(_) => Ok(take()),
        }
    });
    match done {
        Ok(Some(done)) => done,
        Ok(None) => std::panic::resume_unwind(Box::new("work was done twice")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_depth_counts_brackets_and_operators() {
        for (source, least, most) in [
            ("a", 0, 0),
            ("a.b.c", 2, 2),
            ("a && b && c && d", 0, 0),
            ("((a))", 2, 2),
            ("!!!!a", 4, 4),
            ("'((((('", 0, 0),
            ("r'\\' + (a)", 2, 2),
            ("\"\"\"((\"(\"\"\" + a", 1, 1),
            ("f(a, b, c).g(d)", 3, 3),
            ("1.5 + 2.5", 1, 1),
            ("[1, 2, 3] // ((((", 1, 1),
            ("a in b", 1, 1),
            ("'((((", 4, 4),
        ] {
            let depth = nesting_depth(source);
            assert!((least..=most).contains(&depth), "{source}: {depth}");
        }
        assert!(nesting_depth(&"(".repeat(1000)) >= 1000);
        assert!(nesting_depth(&format!("a{}", ".b".repeat(1000))) >= 1000);
    }

    #[test]
    fn deep_recursion_runs_on_enlarged_stack() {
        fn deep(n: usize) -> usize {
            let page = std::hint::black_box([0_u8; 4096]);
            if n == 0 {
                return usize::from(page[0]);
            }
            deep(n - 1) + 1
        }
        assert_eq!(with_stack_for_depth(250, || deep(1000)), 1000);
    }
}
