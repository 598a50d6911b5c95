//! A client that shows replies and errors whole, and the words of commands.

use redis::{PushInfo, ServerError, Value};
use std::sync::mpsc::{Receiver, channel};

use crate::waits::patience;

/// The arguments of a command.
#[derive(Clone)]
pub struct Words(Vec<Vec<u8>>);

impl Words {
    /// Adds one argument of any bytes.
    pub fn arg(mut self, bytes: impl AsRef<[u8]>) -> Words {
        self.0.push(bytes.as_ref().to_vec());
        self
    }

    /// Adds the words of a line.
    pub fn then(mut self, line: &str) -> Words {
        self.0.extend(words(line).0);
        self
    }

    /// How many arguments there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds the arguments of another command.
    pub fn append(mut self, other: Words) -> Words {
        self.0.extend(other.0);
        self
    }

    /// Puts the words of a line in front.
    pub fn behind(mut self, line: &str) -> Words {
        self.0.splice(0..0, words(line).0);
        self
    }

    /// For messages.
    pub fn lossy(&self) -> Vec<String> {
        self.0.iter().map(|word| word.escape_ascii().to_string()).collect()
    }

    fn packed(&self) -> Vec<u8> {
        redis::pack_command(&self.0)
    }
}

/// The words of a line as one types it in redis-cli: what stands in quotes is one argument.
pub fn words(line: &str) -> Words {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, behind) = if matches!(first, '\'' | '"') {
            let quoted = rest[1..].split_once(first);
            let (word, behind) = quoted.unwrap_or_else(|| panic!("an open quote: {line}"));
            let ends = behind.is_empty() || behind.starts_with(char::is_whitespace);
            assert!(ends && !word.contains('\\'), "more than a quoted argument: {line}");
            (word, behind)
        } else {
            let (word, behind) =
                rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
            assert!(!word.contains(['\'', '"']), "a quote within a word: {line}");
            (word, behind)
        };
        words.push(word.as_bytes().to_vec());
        rest = behind.trim_start();
    }
    Words(words)
}

/// Arguments of any bytes.
pub fn args<A: AsRef<[u8]>>(args: impl IntoIterator<Item = A>) -> Words {
    Words(args.into_iter().map(|arg| arg.as_ref().to_vec()).collect())
}

impl From<&str> for Words {
    fn from(line: &str) -> Words {
        words(line)
    }
}

impl From<String> for Words {
    fn from(line: String) -> Words {
        words(&line)
    }
}

/// The whole line of an error, which the client library splits after its first word.
pub fn line_of(error: &ServerError) -> String {
    match error.details() {
        Some(detail) => format!("{} {detail}", error.code()),
        None => error.code().into(),
    }
}

/// The six integers of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many acquisitions were granted.
    pub granted: i64,
    /// The capacity of the binding key.
    pub limit: i64,
    /// Permits left on it.
    pub remaining: i64,
    /// When to try again, in ms.
    pub retry_after: i64,
    /// When it is as good as new, in ms.
    pub reset_after: i64,
    /// Its index.
    pub key: i64,
}

impl Reply {
    /// Reads a reply; `None` when it is no array of six integers.
    pub fn read(value: &Value) -> Option<Reply> {
        let Value::Array(fields) = value else { return None };
        let integer = |field: &Value| match field {
            Value::Int(integer) => Some(*integer),
            _ => None,
        };
        let fields: Vec<i64> = fields.iter().map(integer).collect::<Option<_>>()?;
        let [granted, limit, remaining, retry_after, reset_after, key] = fields[..] else {
            return None;
        };
        Some(Reply { granted, limit, remaining, retry_after, reset_after, key })
    }

    /// Reads what must be a reply.
    pub fn of(value: &Value) -> Reply {
        Reply::read(value).unwrap_or_else(|| panic!("no six integers: {value:?}"))
    }

    /// Whether it is a grant.
    pub fn is_grant(&self) -> bool {
        self.granted > 0
    }
}

/// A connection.
pub struct Client {
    connection: redis::Connection,
    pushes: Receiver<PushInfo>,
}

impl Client {
    pub(crate) fn connect(url: &str) -> redis::RedisResult<Client> {
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(patience())?;
        connection.set_read_timeout(Some(patience()))?;
        let (sender, pushes) = channel();
        connection.set_push_sender(sender);
        Ok(Client { connection, pushes })
    }

    /// A connection to whatever listens at a port.
    pub fn at(port: u16) -> Result<Client, String> {
        Client::connect(&format!("redis://127.0.0.1:{port}/")).map_err(|error| error.to_string())
    }

    /// Sends commands to a server that may be gone.
    pub fn try_send(&mut self, commands: &[Words]) -> Result<(), String> {
        let packed: Vec<u8> = commands.iter().flat_map(Words::packed).collect();
        let sent = self.connection.send_packed_command(&packed);
        sent.map_err(|error| format!("not sent: {error}"))
    }

    /// Sends commands without waiting for the replies.
    pub fn send<W: Into<Words>>(&mut self, commands: impl IntoIterator<Item = W>) {
        let packed: Vec<u8> =
            commands.into_iter().flat_map(|words| words.into().packed()).collect();
        self.connection.send_packed_command(&packed).expect("a server that reads");
    }

    /// The next reply: a value, or an error's line.
    pub fn receive(&mut self) -> Result<Value, String> {
        loop {
            match self.connection.recv_response() {
                Ok(Value::Push { .. }) => {}
                Ok(Value::ServerError(error)) => return Err(line_of(&error)),
                Ok(value) => return Ok(value),
                Err(error) => return Err(format!("no reply: {error}")),
            }
        }
    }

    /// Runs a command: its reply, or the error's line.
    pub fn call(&mut self, command: impl Into<Words>) -> Result<Value, String> {
        let packed = command.into().packed();
        match self.connection.send_packed_command(&packed) {
            Ok(()) => self.receive(),
            Err(error) => Err(format!("not sent: {error}")),
        }
    }

    /// Runs commands in one go, and returns the replies.
    pub fn pipeline<W: Into<Words>>(
        &mut self,
        commands: impl IntoIterator<Item = W>,
    ) -> Vec<Result<Value, String>> {
        let commands: Vec<Words> = commands.into_iter().map(Into::into).collect();
        let count = commands.len();
        self.send(commands);
        (0..count).map(|_| self.receive()).collect()
    }

    /// Runs a command that succeeds.
    pub fn run(&mut self, command: impl Into<Words>) -> Value {
        self.call(command).unwrap_or_else(|error| panic!("unexpected error: {error}"))
    }

    /// Runs a command that answers an error.
    pub fn error(&mut self, command: impl Into<Words>) -> String {
        match self.call(command) {
            Ok(value) => panic!("expected an error, got {value:?}"),
            Err(line) => line,
        }
    }

    /// Runs a command that answers an integer.
    pub fn int(&mut self, command: impl Into<Words>) -> i64 {
        match self.run(command) {
            Value::Int(integer) => integer,
            value => panic!("expected an integer, got {value:?}"),
        }
    }

    /// Runs a command that answers bytes.
    pub fn bytes(&mut self, command: impl Into<Words>) -> Vec<u8> {
        let value = self.run(command);
        bytes_of(&value).unwrap_or_else(|| panic!("expected a string, got {value:?}"))
    }

    /// Runs a command that answers a text.
    pub fn text(&mut self, command: impl Into<Words>) -> String {
        String::from_utf8(self.bytes(command)).expect("UTF-8")
    }

    /// Runs a command that answers a list of texts.
    pub fn texts(&mut self, command: impl Into<Words>) -> Vec<String> {
        let value = self.run(command);
        redis::from_redis_value(value).expect("a list of texts")
    }

    /// `RL.ACQUIRE` that answers.
    pub fn acquire(&mut self, keys: &str, rule: &str) -> Reply {
        Reply::of(&self.run(acquire(keys, rule)))
    }

    /// Takes permits one by one; all must be granted.
    pub fn take(&mut self, count: i64, keys: &str, rule: &str) {
        for i in 0..count {
            let reply = self.acquire(keys, rule);
            assert!(reply.is_grant(), "grant {i} of {count} on {keys} with {rule}: {reply:?}");
        }
    }

    /// Takes permits until none is left, and returns how many there were.
    pub fn drain(&mut self, key: &str, rule: &str) -> i64 {
        (0..).find(|_| !self.acquire(key, rule).is_grant()).expect("a denial at last")
    }

    /// A field of `INFO`; empty when there is none.
    pub fn info(&mut self, section: &str, field: &str) -> String {
        let text = match self.run(format!("INFO {section}")) {
            Value::VerbatimString { text, .. } => text,
            value => String::from_utf8(bytes_of(&value).expect("a text")).expect("UTF-8"),
        };
        let value =
            |line: &str| Some(line.split_once(':').filter(|(k, _)| *k == field)?.1.to_owned());
        text.lines().find_map(value).unwrap_or_default()
    }

    /// A number among the fields of `INFO`.
    pub fn info_number(&mut self, section: &str, field: &str) -> i64 {
        let value = self.info(section, field);
        value.parse().unwrap_or_else(|_| panic!("{field} is {value:?}"))
    }

    /// A parameter of the configuration.
    pub fn config(&mut self, name: &str) -> String {
        let pair = self.texts(format!("CONFIG GET {name}"));
        pair.get(1).unwrap_or_else(|| panic!("no parameter {name}")).clone()
    }

    /// All that is stored under a key: value, digest and time of expiry.
    pub fn stored(&mut self, key: &str) -> Stored {
        Stored {
            dump: bytes_of(&self.run(format!("DUMP {key}"))),
            digest: self.texts(format!("DEBUG DIGEST-VALUE {key}")),
            expires_at: self.int(format!("PEXPIRETIME {key}")),
        }
    }

    /// All keys, sorted.
    pub fn keys(&mut self) -> Vec<String> {
        let mut keys = self.texts("KEYS *");
        keys.sort();
        keys
    }

    /// The server's clock in ms.
    pub fn time_ms(&mut self) -> i64 {
        let parts: Vec<i64> =
            self.texts("TIME").iter().map(|part| part.parse().expect("a number")).collect();
        parts[0] * 1000 + parts[1] / 1000
    }

    /// The push messages so far. Those sent before the reply to this command's `PING` are among them.
    pub fn pushes(&mut self) -> Vec<PushInfo> {
        self.run("PING");
        self.pushes.try_iter().collect()
    }
}

/// See [`Client::stored`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// `DUMP`, `None` for no such key.
    pub dump: Option<Vec<u8>>,
    /// `DEBUG DIGEST-VALUE`.
    pub digest: Vec<String>,
    /// `PEXPIRETIME`.
    pub expires_at: i64,
}

/// `RL.ACQUIRE` as a command.
pub fn acquire(keys: &str, rule: &str) -> Words {
    words("RL.ACQUIRE").then(keys).then(rule)
}

/// The bytes of a string reply of any kind.
pub fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        Value::SimpleString(text) => Some(text.clone().into_bytes()),
        Value::VerbatimString { text, .. } => Some(text.clone().into_bytes()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}
