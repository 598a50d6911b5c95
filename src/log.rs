//! Logging to the server's log, safe for any text.
//!
//! The crate's logging functions pass the message to the server as a printf *format*, and panic on
//! a NUL byte: a `%n` in a key would crash the server. So all messages go through this file.

use std::sync::Mutex;

use redis_module::logging::{RedisLogLevel, log};

/// Logs a warning.
pub fn warning(message: &str) {
    log(RedisLogLevel::Warning, format!("<rl> {}", harmless(message)));
}

/// Logs a warning, unless one for the same reason was logged in the same second: a newer primary
/// can send thousands of effects that this server does not understand.
pub fn rare_warning(now_ms: i64, what: &str, reason: &str) {
    /// The most warnings in a second. The number of different reasons is small.
    const MOST: usize = 8;
    static LOGGED: Mutex<(i64, Vec<String>)> = Mutex::new((0, Vec::new()));
    let Ok(mut logged) = LOGGED.lock() else { return };
    let (second, reasons) = &mut *logged;
    if *second != now_ms / 1000 {
        *second = now_ms / 1000;
        reasons.clear();
    }
    if reasons.len() < MOST && !reasons.iter().any(|known| known == reason) {
        reasons.push(reason.to_string());
        warning(&format!("{what}: {reason}"));
    }
}

/// The text without control characters (a log entry is one line) and with `%` doubled.
fn harmless(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '%' => text.push_str("%%"),
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    text
}

/// Logs the message of a panic to the server's log. The guard around commands survives the panic.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        warning(&format!("internal error, please report: {info}"))
    }));
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn formats_and_control_characters_are_disarmed() {
        assert_eq!(harmless("100% of %s%n\0\nend"), "100%% of %%s%%n\\u{0}\\nend");
    }
}
