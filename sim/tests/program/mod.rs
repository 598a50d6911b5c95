//! Runs the program.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub fn simulator() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rl-sim"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"));
    command
}

pub fn run(args: &[&str]) -> Output {
    simulator().args(args).stdin(Stdio::null()).output().expect("the simulator")
}

/// What was printed, and nothing on stderr.
pub fn printed(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What is printed for a log on stdin: status, stdout and stderr.
pub fn piped(log: &[u8], args: &[&str]) -> (i32, String, String) {
    let mut child = simulator()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the simulator");
    // One that does not want the log may have gone already.
    let _ = child.stdin.take().expect("a pipe").write_all(log);
    let output = child.wait_with_output().expect("its end");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("a status"), text(output.stdout), text(output.stderr))
}

/// The findings for a log on stdin.
pub fn findings(log: &[u8], args: &[&str]) -> Value {
    let (status, out, error) = piped(log, &[&["--json"], args].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    serde_json::from_str(&out).expect("JSON")
}
