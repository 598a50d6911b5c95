//! Compares logs with plain lists, and counts how many entries of a long log are walked over.

use super::live::STEPS;
use super::*;

fn grant(log: &mut Log, now_ms: i64, window_ms: i64) {
    let step = LogStep::Add { at_ms: now_ms, permits: 1 };
    log.apply(LogChange { now_ms, step }, window_ms);
}

fn loaded(log: &Log) -> Log {
    let mut stored = Vec::new();
    log.encode(&mut stored);
    Log::decode(&mut Reader::new(&stored)).unwrap()
}

#[test]
fn a_full_log_is_not_moved_for_each_entry() {
    const WINDOW_MS: i64 = 4000;
    let mut log = Log::default();
    (0..WINDOW_MS).for_each(|now_ms| grant(&mut log, now_ms, WINDOW_MS));
    // A log has no room behind its run after a load.
    let mut log = loaded(&log);
    let mut moves = 0;
    for now_ms in WINDOW_MS..2 * WINDOW_MS {
        let start = log.head().start;
        grant(&mut log, now_ms, WINDOW_MS);
        moves += u32::from(log.head().start < start || log.head().start == 0);
        assert_eq!(log.entries(), WINDOW_MS as u32);
    }
    assert!((1..10).contains(&moves), "{moves} moves");
}

/// The log's entries: times and permits.
fn entries(log: &Log) -> Vec<(i64, u64)> {
    let mut live = log.live(i64::MIN);
    let mut entries = Vec::new();
    while live.entries > 0 {
        entries.push((live.first_ms, live.first_permits(log.run())));
        live.advance(log.run());
    }
    entries
}

#[test]
fn the_oldest_permits_are_given_back_and_the_rest_stays_as_it_was() {
    // Numbers of one byte and of more, which get shorter when permits are given back.
    let grants: [(i64, u64); 5] = [(0, 3), (7, 200), (500, 1), (501, 20_000), (90_000, 130)];
    let in_all: u64 = grants.iter().map(|(_, permits)| permits).sum();
    for (given, step) in (0..in_all + 2).map(|given| (given, LogStep::GiveBack(given))) {
        let mut log = Log::default();
        for (at_ms, permits) in grants {
            let step = LogStep::Add { at_ms, permits };
            log.apply(LogChange { now_ms: at_ms, step }, 100_000);
        }
        log.apply(LogChange { now_ms: 90_000, step }, 100_000);
        let mut left = given;
        let mut expected = grants.to_vec();
        for (_, permits) in &mut expected {
            let back = left.min(*permits);
            *permits -= back;
            left -= back;
        }
        expected.retain(|(_, permits)| *permits > 0);
        assert_eq!(entries(&log), expected, "{given}");
        assert_eq!(loaded(&log), log, "{given}");
    }
}

#[test]
fn an_effect_of_an_earlier_version_takes_the_newest() {
    let mut log = Log::default();
    [10, 20].into_iter().for_each(|now_ms| grant(&mut log, now_ms, 1000));
    log.apply(LogChange { now_ms: 30, step: LogStep::GiveBackNewest(1) }, 1000);
    assert_eq!(entries(&log), [(10, 1)]);
}

/// A log with these entries: times and permits.
fn log_of(entries: &[(i64, u64)]) -> Log {
    let mut log = Log::default();
    for (at_ms, permits) in entries.iter().copied() {
        let add = LogStep::Add { at_ms, permits };
        log.apply(LogChange { now_ms: at_ms, step: add }, MAX_TIME_MS);
    }
    log
}

#[test]
fn what_counts_and_when_it_leaves_is_what_a_list_says() {
    const WINDOW_MS: i64 = 1000;
    let mut state = 1u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for round in 0..300 {
        // Numbers of one byte, of two, and of any length, in turn and mixed.
        let gaps: &[u64] =
            [&[100][..], &[300], &[100, 100, 100, 20_000], &[5, 300, 1 << 40]][round % 4];
        let permits: &[u64] = [&[1][..], &[2, 200], &[100]][round / 4 % 3];
        let mut at_ms = 5;
        let entries: Vec<(i64, u64)> = (0..random(40) as usize)
            .map(|i| {
                at_ms += 1 + random(gaps[(i + round) % gaps.len()]) as i64;
                (at_ms, 1 + random(permits[i % permits.len()]))
            })
            .collect();
        let log = log_of(&entries);
        for from in 0..=entries.len() {
            let cutoff_ms = from.checked_sub(1).map_or(0, |last| entries[last].0);
            let live = log.live(cutoff_ms);
            let counts = &entries[from..];
            let in_use: u64 = counts.iter().map(|(_, permits)| permits).sum();
            assert_eq!((live.entries as usize, live.permits), (counts.len(), in_use));
            for at_most in (0..in_use).step_by(1 + in_use as usize / 20) {
                let mut left = in_use;
                let last = counts.iter().position(|(_, permits)| {
                    left -= permits;
                    left <= at_most
                });
                let expected = last
                    .filter(|last| last + 1 < counts.len())
                    .map(|last| counts[last].0 + WINDOW_MS);
                assert_eq!(
                    log.earliest(live, WINDOW_MS, at_most),
                    expected,
                    "{counts:?}, {at_most}"
                );
            }
        }
    }
}

#[test]
fn a_long_log_is_not_walked_over_one_by_one() {
    const MANY: i64 = 100_000;
    let steps = |work: &dyn Fn()| {
        let before = STEPS.get();
        work();
        STEPS.get() - before
    };
    for gap_ms in [1, 100, 1000] {
        let entries: Vec<(i64, u64)> = (0..MANY).map(|i| (i * gap_ms, 1)).collect();
        let log = log_of(&entries);
        // All but the newest leave at once; a limit was lowered to 4; half of the permits are
        // asked for.
        let last = steps(&|| assert_eq!(log.live((MANY - 1) * gap_ms - 1).entries, 1));
        let all = log.live(-1);
        let lowered = steps(&|| assert_eq!(log.earliest(all, 0, 3), Some((MANY - 4) * gap_ms)));
        let half = steps(&|| assert!(log.earliest(all, 0, MANY as u64 / 2).is_some()));
        assert!(last < 20 && lowered < 20 && half < 20, "{gap_ms}: {last}, {lowered}, {half}");
    }
}

#[test]
fn memory_is_given_back_when_a_log_gets_short() {
    const WINDOW_MS: i64 = 10_000;
    let mut full = Log::default();
    (0..5000).for_each(|now_ms| grant(&mut full, now_ms, WINDOW_MS));
    let large = full.heap_bytes();
    assert!((10_000..20_000).contains(&large), "{large}");
    let give_back = LogStep::GiveBack(4990);
    let now_ms = WINDOW_MS + 4990;
    let changes = [(5000, give_back), (now_ms, LogStep::Add { at_ms: now_ms, permits: 1 })];
    for (now_ms, step) in changes {
        let mut log = full.clone();
        log.apply(LogChange { now_ms, step }, WINDOW_MS);
        assert!(log.heap_bytes() < 1000, "{}", log.heap_bytes());
        assert_eq!(loaded(&log), log);
    }
}
