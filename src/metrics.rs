//! `INFO rl`: counters, configuration, and the state that the module keeps beside the keys.

use std::ffi::{CStr, CString};
use std::io::Write;

use redis_module::{InfoContext, RedisResult, raw};
use redis_module_macros::info_command_handler;

use crate::api::{MainThread, api, clock_ms};
use crate::counters::{self, Counts, WaitEnd};
use crate::waiting::queue;
use crate::{config, listener, policies, rules, top};

/// Writes fields in the server's own style. The crate's builder takes quadratic time, and there
/// can be thousands of names.
struct Section(*mut raw::RedisModuleInfoCtx);

impl Section {
    /// Begins the section, and returns whether it was asked for. Without a name, it is the
    /// module's own section.
    fn begin(&self) -> bool {
        // SAFETY: the context is that of the running `INFO`.
        let begun = unsafe { api!(RedisModule_InfoAddSection)(self.0, c"".as_ptr()) };
        begun == raw::REDISMODULE_OK as i32
    }

    fn number(&self, name: &str, value: u64) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the context is that of the running `INFO`; the server copies the name.
        unsafe { api!(RedisModule_InfoAddFieldULongLong)(self.0, name.as_ptr(), value) };
    }

    fn text(&self, name: &str, value: &str) {
        let (name, value) =
            (CString::new(name).unwrap_or_default(), CString::new(value).unwrap_or_default());
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldCString)(self.0, name.as_ptr(), value.as_ptr()) };
    }

    fn counts(&self, name: &str, counts: Counts) {
        self.named_counts(&mut Vec::new(), "", name.as_bytes(), counts);
    }

    /// Writes a field in the form of a dictionary of the server, but in one call, since there can
    /// be a hundred thousand of them. `text` is a buffer to write in.
    fn named_counts(&self, text: &mut Vec<u8>, prefix: &str, name: &[u8], counts: Counts) {
        text.clear();
        text.extend([prefix.as_bytes(), name, b"\0"].into_iter().flatten());
        let value = text.len();
        let Counts { granted, denied, shadow_denied } = counts;
        // Writing to memory does not fail.
        let _ = write!(text, "granted={granted},denied={denied},shadow_denied={shadow_denied}\0");
        let texts = text.split_at_checked(value).unwrap_or_default();
        if let (Ok(name), Ok(value)) =
            (CStr::from_bytes_with_nul(texts.0), CStr::from_bytes_with_nul(texts.1))
        {
            // SAFETY: the context is that of the running `INFO`; the server copies both.
            unsafe { api!(RedisModule_InfoAddFieldCString)(self.0, name.as_ptr(), value.as_ptr()) };
        }
    }
}

// The macro cannot read C string literals, so `fill` does the work.
#[info_command_handler]
fn info(ctx: &InfoContext, for_crash_report: bool) -> RedisResult<()> {
    fill(&Section(ctx.ctx), for_crash_report);
    Ok(())
}

fn fill(section: &Section, for_crash_report: bool) {
    if !section.begin() {
        return;
    }
    section.text("version", env!("CARGO_PKG_VERSION"));
    let calls = counters::calls();
    section.number("granted", calls.granted);
    section.number("denied", calls.denied);
    section.number("shadow_denied", calls.shadow_denied);
    section.number("errors", counters::errors());
    section.number("propagates", u64::from(listener::is_heard()));
    section.number("limiters", counters::limiters());
    for (algorithm, counts) in counters::by_algorithm() {
        section.counts(&format!("algo_{}", algorithm.word()), counts);
    }
    for (name, value) in config::shown() {
        section.text(&format!("config_{}", name.replace('-', "_")), &value);
    }
    // A crash may have struck in the middle of a change, and another thread may report it.
    if !for_crash_report {
        guarded_fields(section);
    }
}

/// The fields with state that only the main thread may read.
fn guarded_fields(section: &Section) {
    // SAFETY: outside a crash report, only `INFO` on the main thread comes here.
    let main = unsafe { MainThread::in_callback() };
    let now_ms = clock_ms();
    policies::with(&main, |policies| {
        section.number("policies", policies.count(now_ms) as u64);
        section.text("policies_digest", &format!("{:016x}", policies.digest(now_ms)));
    });
    section.number("policies_mismatched", counters::mismatches());
    section.number("waiters", queue::waiters() as u64);
    section.number("waits_granted", counters::waits(WaitEnd::Granted));
    section.number("waits_timed_out", counters::waits(WaitEnd::TimedOut));
    section.number("waits_denied", counters::waits(WaitEnd::Denied));
    section.number("top_tracked", top::tracked(&main) as u64);
    let figures = rules::figures(&main);
    section.number("rules_parsed", figures.parsed);
    section.number("rules_remembered", figures.count as u64);
    section.number("rules_memory", figures.bytes as u64);
    let mut text = Vec::new();
    counters::for_each_name(&main, |name, counts| {
        section.named_counts(&mut text, "name_", name, counts);
    });
    if let Some(counts) = counters::other_names(&main) {
        section.counts("other_names", counts);
    }
}
