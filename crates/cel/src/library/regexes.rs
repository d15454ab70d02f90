//! The regex library, in Go's regular expression syntax.

use super::args;
use crate::go_regex;
use crate::value::{EvalError, Result, Value};

pub(crate) type Regex = regex::Regex;

pub(crate) fn compile(source: &str) -> Result<Regex> {
    go_regex::compile(source).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().last().unwrap_or_default();
        let line = match line.trim_start_matches("error: ") {
            "unclosed group" => "missing closing )",
            "unopened group" => "unexpected )",
            "unclosed character class" => "missing closing ]",
            other => other,
        };
        EvalError::new(format!("error parsing regexp: {line}: `{source}`"))
    })
}

pub(crate) fn matches<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::String(regex) => {
        Ok(Value::Bool(compile(regex.as_str())?.is_match(text.as_str())))
    })
}

pub(crate) fn find_function<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text), Value::String(regex) => {
        Ok(find(&compile(regex.as_str())?, text.as_str()))
    })
}

pub(crate) fn find<'a>(regex: &Regex, text: &str) -> Value<'a> {
    Value::string(regex.find(text).map_or("", |found| found.as_str()))
}

pub(crate) fn find_all_function<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    match args {
        [Value::String(text), Value::String(regex)] => {
            Ok(find_all(&compile(regex.as_str())?, text.as_str(), -1))
        }
        [Value::String(text), Value::String(regex), Value::Int(most)] => {
            Ok(find_all(&compile(regex.as_str())?, text.as_str(), *most))
        }
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn find_all<'a>(regex: &Regex, text: &str, most: i64) -> Value<'a> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = regex.find_iter(text).take(most);
    Value::strings(found.map(|found| found.as_str()))
}
