//! A progress bar on stderr, for people only: nothing is drawn unless stderr is a terminal.

use std::io::{IsTerminal, Read, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// Below this a log is read before anyone could look.
const LONG_BYTES: u64 = 1 << 23;

/// See the file's head. One bar at a time.
pub struct Progress {
    bar: ProgressBar,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Progress {
    /// Draws nothing yet.
    pub fn new() -> Progress {
        let bar = ProgressBar::no_length();
        if !stderr().is_terminal() {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        Progress { bar }
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    /// Counts what is read from `input`, of so many bytes if that is known.
    pub fn read<'a>(
        &self,
        what: &'static str,
        bytes: Option<u64>,
        input: impl Read + 'a,
    ) -> Box<dyn Read + 'a> {
        match bytes {
            Some(bytes) if bytes < LONG_BYTES => return Box::new(input),
            Some(bytes) => {
                self.style("{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left");
                self.bar.set_length(bytes);
            }
            None => self.style("{msg} {spinner} {bytes}"),
        }
        self.bar.set_message(what);
        Box::new(self.bar.wrap_read(input))
    }

    /// Starts counting steps, which are long for so many requests.
    pub fn steps(&self, what: String, steps: u64, requests: usize) {
        if requests < 100_000 {
            return;
        }
        self.style("{msg} {wide_bar} {pos} of {len}");
        self.bar.set_length(steps);
        self.bar.reset();
        self.bar.set_message(what);
    }

    /// A step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Wipes the bar.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
