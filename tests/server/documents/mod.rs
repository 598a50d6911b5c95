//! The documents: what they show runs as it stands and does what they say.

mod logins;
mod migrating;
mod migrating_java;
mod transcripts;

use std::fs;
use std::path::Path;

/// A call in a document, and the lines that follow it.
pub struct Step {
    /// The call as one types it in redis-cli.
    pub call: String,
    /// The reply as redis-cli shows it.
    expected: Vec<String>,
}

/// The text of a document.
pub fn read(document: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    fs::read_to_string(path).expect("the document")
}

/// The transcripts of a document in their order: in fenced blocks, lines behind a prompt and what follows them.
pub fn transcripts(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut fenced, mut answers) = (false, false);
    for line in read(document).lines() {
        if line.starts_with("```") {
            (fenced, answers) = (!fenced, false);
            continue;
        }
        let call = line.strip_prefix("> ").or_else(|| line.strip_prefix("$ redis-cli "));
        match (fenced, call) {
            (true, Some(call)) => {
                steps.push(Step { call: call.into(), expected: Vec::new() });
                answers = true;
            }
            (true, None) if answers => {
                steps.last_mut().expect("a call").expected.push(line.into());
            }
            _ => {}
        }
    }
    steps
}
