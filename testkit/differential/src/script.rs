//! Requests, as text.
//!
//! ```text
//! ### a title, which no other request has
//! @keep rv /metadata/resourceVersion
//! PUT /api/v1/namespaces/n/configmaps/a
//! Content-Type: application/json
//!
//! {"metadata": {"name": "a", "resourceVersion": "{{rv}}"}}
//! ```
//!
//! Lines that begin with `@` say more: `@each NAME A B C` makes a request of each of the
//! words, put for `{{NAME}}`; `@keep NAME POINTER` keeps a part of the answer for later
//! requests; `@only POINTER…` takes down these parts of the answer alone; `@until STATUS`
//! asks again until that is the answer; `@quiet` takes down nothing.

/// The requests of a file, in order.
#[derive(Clone, Debug)]
pub struct RequestScript {
    pub steps: Vec<ScriptStep>,
}

#[derive(Clone, Debug, Default)]
pub struct ScriptStep {
    pub title: String,
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Names, and where in the answer they are found.
    pub keep: Vec<(String, String)>,
    pub only: Vec<String>,
    pub until: Option<u16>,
    pub quiet: bool,
    each: Option<(String, Vec<String>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("{title}: {line:?} is not a request line, header or directive")]
    Line { title: String, line: String },
    #[error("{title}: there is no request")]
    Empty { title: String },
    #[error("two requests are called {title}")]
    Twice { title: String },
}

const TITLE: &str = "### ";

impl RequestScript {
    /// # Errors
    /// If the text is no script.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut steps: Vec<ScriptStep> = Vec::new();
        for block in blocks(text) {
            for step in expanded(parse_step(&block)?) {
                if steps.iter().any(|other| other.title == step.title) {
                    return Err(ScriptError::Twice { title: step.title });
                }
                steps.push(step);
            }
        }
        Ok(Self { steps })
    }
}

/// The lines of each request; what stands before the first title is for people.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks: Vec<Vec<&str>> = Vec::new();
    for line in text.lines() {
        match blocks.last_mut() {
            _ if line.starts_with(TITLE) => blocks.push(vec![line]),
            Some(block) => block.push(line),
            None => {}
        }
    }
    blocks
}

fn parse_step(block: &[&str]) -> Result<ScriptStep, ScriptError> {
    let mut step = ScriptStep::default();
    let mut lines = block.iter();
    step.title = lines.next().map_or("", |line| &line[TITLE.len()..]).into();
    for line in lines.by_ref() {
        if line.is_empty() {
            break;
        }
        take_line(&mut step, line).ok_or_else(|| ScriptError::Line {
            title: step.title.clone(),
            line: (*line).into(),
        })?;
    }
    if step.method.is_empty() {
        return Err(ScriptError::Empty { title: step.title });
    }
    let body: Vec<&str> = lines.copied().collect();
    step.body = body.join("\n").trim_end().into();
    Ok(step)
}

fn take_line(step: &mut ScriptStep, line: &str) -> Option<()> {
    if let Some(direction) = line.strip_prefix('@') {
        return take_direction(step, direction);
    }
    if step.method.is_empty() {
        let (method, path) = line.split_once(' ')?;
        step.method = method.into();
        step.path = path.into();
        return path.starts_with('/').then_some(());
    }
    let (name, value) = line.split_once(": ")?;
    step.headers.push((name.to_lowercase(), value.into()));
    Some(())
}

fn take_direction(step: &mut ScriptStep, direction: &str) -> Option<()> {
    let mut words = direction.split_whitespace().map(String::from);
    match words.next()?.as_str() {
        "each" => step.each = Some((words.next()?, words.collect())),
        "keep" => step.keep.push((words.next()?, words.next()?)),
        "only" => step.only = words.collect(),
        "until" => step.until = Some(words.next()?.parse().ok()?),
        "quiet" => step.quiet = true,
        _ => return None,
    }
    Some(())
}

fn expanded(mut step: ScriptStep) -> Vec<ScriptStep> {
    let Some((name, words)) = step.each.take() else {
        return vec![step];
    };
    words.iter().map(|word| step.with(&name, word)).collect()
}

impl ScriptStep {
    /// The same with a word put for a name.
    #[must_use]
    pub fn with(&self, name: &str, word: &str) -> Self {
        let mark = format!("{{{{{name}}}}}");
        let put = |text: &String| text.replace(&mark, word);
        Self {
            title: put(&self.title),
            method: put(&self.method),
            path: put(&self.path),
            body: put(&self.body),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), put(value)))
                .collect(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_request_is_parsed() {
        let text = "for people\n### one {{what}}\n@each what a b\n@keep rv /metadata/resourceVersion\nP-{{what}} /x/{{what}}?y=1\nAccept: text/plain\n\n{\"a\":\n \"{{what}}\"}\n\n### two\nGET /\n";
        let script = RequestScript::parse(text).unwrap();
        let titles: Vec<_> = script
            .steps
            .iter()
            .map(|step| step.title.as_str())
            .collect();
        assert_eq!(titles, ["one a", "one b", "two"]);
        let step = &script.steps[1];
        assert_eq!(
            (step.method.as_str(), step.path.as_str()),
            ("P-b", "/x/b?y=1")
        );
        assert_eq!(step.headers, [("accept".into(), "text/plain".into())]);
        assert_eq!(step.body, "{\"a\":\n \"b\"}");
        assert_eq!(
            step.keep,
            [("rv".into(), "/metadata/resourceVersion".into())]
        );
    }

    #[test]
    fn script_errors_are_reported() {
        for text in [
            "### a\nGET x\n",
            "### a\n",
            "### a\n@what\nGET /\n",
            "### a\nGET /\n### a\nGET /\n",
        ] {
            assert!(RequestScript::parse(text).is_err(), "{text}");
        }
    }
}
