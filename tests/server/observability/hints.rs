//! The hints of redis-cli while one types, and `COMMAND DOCS`, from which it takes them.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use testkit::{Server, array, field, int, program, text, wait_for};

/// redis-cli at a terminal, which the program `script` provides.
struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(server: &Server) -> Terminal {
        let client = format!("{} -p {}", program("RL_TEST_CLI", "redis-cli"), server.port());
        let mut child = Command::new("script")
            .args(["-qec", &format!("stty cols 500 && exec {client}"), "/dev/null"])
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, which Debian always has");
        let screen = Arc::new(Mutex::new(Vec::new()));
        let mut output = child.stdout.take().expect("the output");
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("the screen").extend_from_slice(&bytes[..len]);
            }
        });
        let keyboard = child.stdin.take().expect("the input");
        let terminal = Terminal { child, keyboard, screen };
        wait_for("the prompt", || terminal.line().ends_with("> ").then_some(()));
        terminal
    }

    /// The last line without colours and movements of the cursor.
    fn line(&self) -> String {
        let screen = self.screen.lock().expect("the screen");
        let screen = String::from_utf8_lossy(&screen);
        let mut parts = screen.split("\x1b[");
        let mut line = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
            line.push_str(&part[end..]);
        }
        line.split(['\r', '\n']).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }

    /// The hint that redis-cli shows after a typed line.
    fn hint(&mut self, typed: &str) -> String {
        const CLEAR_LINE: char = '\x15';
        self.keyboard.write_all(typed.as_bytes()).expect("a terminal");
        let hint = wait_for(typed, || {
            let line = self.line();
            Some(line.split_once("> ")?.1.strip_prefix(typed)?.to_owned())
        });
        self.keyboard.write_all(CLEAR_LINE.to_string().as_bytes()).expect("a terminal");
        wait_for("an empty line", || self.line().ends_with("> ").then_some(()));
        hint
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // redis-cli ends with its terminal.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SPENDING: &str = "sliding|bucket|leaky|fixed|counter";

#[test]
fn the_client_shows_the_arguments_of_each_command() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut terminal = Terminal::open(&server);
    let algorithms = format!("{SPENDING}|concurrency");
    let options = "[BURST burst] [OFFSET offset] [BLOCK block]";
    let numbers = format!("WINDOW window LIMIT limit ALGO {algorithms} {options}");
    for (typed, hint) in [
        ("RL.ACQUIRE ", format!("key [key ...] WINDOW window LIMIT limit ALGO {SPENDING}")),
        ("RL.ACQUIRE k ", format!("[key ...] WINDOW window LIMIT limit ALGO {SPENDING}")),
        ("RL.ACQUIREX ", "key [key ...] rules".into()),
        ("RL.ACQUIREX k ", "[key ...] rules".into()),
        ("RL.PEEK ", "key [key ...] rules".into()),
        ("RL.REFUND ", "key [key ...] COST cost".into()),
        ("RL.RELEASE ", "key [key ...] ID id".into()),
        ("RL.BLOCK ", "key [key ...] FOR duration".into()),
        ("RL.EXEMPT ", "key [key ...] FOR duration".into()),
        ("RL.INFO ", "key".into()),
        ("RL.POLICY SET ", format!("name {numbers} [SHADOW] [FOR duration]")),
        ("RL.POLICY GET ", "name".into()),
        ("RL.POLICY DEL ", "name [name ...]".into()),
        ("RL.TOP ", "[COUNT count]".into()),
        ("CL.THROTTLE ", "key max-burst count period [quantity]".into()),
    ] {
        let shown = terminal.hint(typed);
        assert_eq!(shown.trim_end(), hint, "behind {typed:?}");
    }
}

#[test]
fn the_documentation_of_each_command_is_complete() {
    let server = Server::builder().module_args("cl-throttle yes").start();
    let mut client = server.client();
    let names = client.texts("COMMAND LIST FILTERBY MODULE rl");
    assert_eq!(names.len(), 18, "{names:?}");
    for name in names {
        let reply = client.run(format!("COMMAND DOCS {name}"));
        let docs = field(&reply, &name);
        for part in ["summary", "complexity"] {
            assert!(text(field(docs, part)).len() > 3, "{part} of {name}");
        }
        assert_eq!(text(field(docs, "since")), "0.1.0", "{name}");
        assert_eq!(text(field(docs, "group")), "module", "{name}");
        match name.as_str() {
            "rl.policy" => assert_eq!(array(field(docs, "subcommands")).len(), 2 * 5),
            "rl.policy|list" | "rl.policy|help" | "rl._policy" => {}
            _ => assert!(!array(field(docs, "arguments")).is_empty(), "{name} has no arguments"),
        }
    }
    // The server enforces the arity that it tells.
    let info = client.run("COMMAND INFO cl.throttle rl.policy|set");
    let arity = |at: usize| int(&array(&array(&info)[at])[1]);
    assert_eq!((arity(0), arity(1)), (-5, -9));
}

#[test]
fn the_container_has_a_help() {
    let server = Server::start();
    let mut client = server.client();
    let help = client.texts("RL.POLICY HELP");
    for word in ["SET ", "GET ", "DEL ", "LIST", "HELP"] {
        assert!(help.iter().any(|line| line.starts_with(word)), "{word}: {help:?}");
    }
    let unknown = client.error("RL.POLICY WHAT");
    assert!(unknown.contains("Try RL.POLICY HELP"), "{unknown}");
}
