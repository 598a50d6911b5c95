//! Compares leases with a plain list, and counts how many leases a call looks at when there are
//! many.

use std::sync::Arc;

use super::pack::WALKED;
use super::*;

/// A list of leases: the obvious implementation.
#[derive(Clone, Debug, Default)]
struct Plain(Vec<(Vec<u8>, Lease)>);

impl Plain {
    fn apply(&mut self, change: &LeaseChange) {
        match change {
            LeaseChange::Put { now_ms, id, lease, carried } => {
                self.0.retain(|(_, lease)| lease.end_ms > *now_ms);
                if *carried > 0 {
                    self.put(b"", Lease { permits: *carried, ..*lease });
                }
                self.put(id, *lease);
            }
            LeaseChange::End { now_ms, id } => {
                self.0.retain(|(other, lease)| lease.end_ms > *now_ms && other[..] != **id);
            }
            LeaseChange::PullBack { now_ms } => {
                for (_, lease) in self.0.iter_mut().filter(|(_, lease)| lease.taken_ms > *now_ms) {
                    lease.end_ms -= lease.taken_ms - *now_ms;
                    lease.taken_ms = *now_ms;
                }
            }
        }
        self.0.sort_by(|(id, one), (other_id, other)| {
            (one.end_ms, id).cmp(&(other.end_ms, other_id))
        });
    }

    fn put(&mut self, id: &[u8], mut lease: Lease) {
        self.0.retain(|(other, _)| other != id);
        let stored: u64 = self.0.iter().map(|(_, lease)| lease.permits).sum();
        lease.permits = lease.permits.min(MAX_IN_USE - stored);
        if lease.permits > 0 {
            self.0.push((id.to_vec(), lease));
        }
    }

    fn live(&self, now_ms: i64) -> impl Iterator<Item = &(Vec<u8>, Lease)> {
        self.0.iter().filter(move |(_, lease)| lease.end_ms > now_ms)
    }

    fn in_use(&self, now_ms: i64, except: Option<&[u8]>) -> u64 {
        let counts = self.live(now_ms).filter(|(id, _)| except != Some(id));
        counts.map(|(_, lease)| lease.permits).sum()
    }

    fn earliest(&self, now_ms: i64, at_most: u64, except: Option<&[u8]>) -> i64 {
        let ends = self.0.iter().map(|(_, lease)| lease.end_ms).filter(|end_ms| *end_ms > now_ms);
        let mut times = std::iter::once(now_ms).chain(ends);
        times.find(|at_ms| self.in_use(*at_ms, except) <= at_most).unwrap()
    }

    fn last_end_ms(&self, except: Option<&[u8]>) -> i64 {
        self.0
            .iter()
            .filter(|(id, _)| except != Some(id))
            .map(|(_, lease)| lease.end_ms)
            .max()
            .unwrap_or(0)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint::write(&mut bytes, self.0.len() as u64);
        self.0.iter().for_each(|(id, lease)| lease::encode(id, lease, &mut bytes));
        bytes
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn encoded(leases: &Leases) -> Vec<u8> {
    let mut bytes = Vec::new();
    leases.encode(&mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Option<Leases> {
    let mut reader = Reader::new(bytes);
    Leases::decode(&mut reader).filter(|_| reader.is_at_end())
}

/// Everything that `leases` says is true of the list.
fn compare(leases: &Leases, plain: &Plain, id: &[u8], now_ms: i64, at_most: u64) {
    let of_id = plain.live(now_ms).find(|(other, _)| other == id).map(|(_, lease)| *lease);
    assert_eq!(leases.live(id, now_ms), of_id);
    assert_eq!(leases.len(), plain.0.len());
    assert_eq!(leases.in_use(now_ms), plain.in_use(now_ms, None));
    assert_eq!(leases.count_live(now_ms), plain.live(now_ms).count());
    for except in [None, Some(id)] {
        assert_eq!(leases.last_end_without(except), plain.last_end_ms(except));
        let earliest = plain.earliest(now_ms, at_most, except);
        assert_eq!(leases.earliest(now_ms, at_most, except), earliest, "{at_most}, {except:?}");
    }
    let ahead = plain.0.iter().any(|(_, lease)| lease.taken_ms > now_ms);
    assert!(leases.is_ahead(now_ms) || !ahead);
}

#[test]
fn few_or_many_they_are_what_a_list_says() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut leases, mut plain) = (Leases::default(), Plain::default());
        let names = [3, 40, 200, 1000][seed as usize % 4];
        let windows = [[1, 50], [300, 300], [1000, 5000]][seed as usize / 4 % 3];
        let mut now_ms = 1_700_000_000_000;
        for step in 0..3000 {
            now_ms += [0, 0, 1, 1, 3, 20][random.below(6) as usize];
            now_ms +=
                [-40, 2000][usize::from(random.below(4) == 0)] * i64::from(random.below(400) == 0);
            let id: Arc<[u8]> = match random.below(names) {
                0 => [7; MAX_ID][..].into(),
                n => format!("holder:{n}").into_bytes().into(),
            };
            let permits =
                [1, 1, 2, 0, 1000, MAX_IN_USE][random.below(6) as usize % (3 + step / 500)];
            let end_ms = now_ms + windows[random.below(2) as usize];
            let lease = Lease { permits, taken_ms: now_ms, end_ms };
            let carried = u64::from(random.below(300) == 0);
            let change = match random.below(20) {
                0..3 => LeaseChange::End { now_ms, id: id.clone() },
                3 if leases.is_ahead(now_ms) => LeaseChange::PullBack { now_ms },
                _ => LeaseChange::Put { now_ms, id: id.clone(), lease, carried },
            };
            leases.apply(&change);
            plain.apply(&change);
            if random.below(4) == 0 {
                let looked_ms = now_ms + random.below(400) as i64 - 100;
                let held = plain.in_use(looked_ms, None);
                let at_most = [0, held / 2, random.below(held + 2)][random.below(3) as usize];
                compare(&leases, &plain, &id, looked_ms, at_most);
            }
            if random.below(50) == 0 {
                let bytes = plain.encode();
                assert_eq!(encoded(&leases), bytes, "seed {seed}, step {step}");
                let loaded = decoded(&bytes).expect("leases");
                assert_eq!(loaded, leases);
                if random.below(4) == 0 {
                    leases = loaded;
                }
            }
        }
    }
}

const MANY: i64 = 100_000;
const NOW_MS: i64 = 1_700_000_000_000;

fn put(leases: &mut Leases, now_ms: i64, id: i64, for_ms: i64) {
    let lease = Lease { permits: 1, taken_ms: now_ms, end_ms: now_ms + for_ms };
    let id = format!("{id}").into_bytes().into();
    leases.apply(&LeaseChange::Put { now_ms, id, lease, carried: 0 });
}

/// Leases taken one a millisecond, all of the same length.
fn many() -> Leases {
    let mut leases = Leases::default();
    (0..MANY).for_each(|i| put(&mut leases, NOW_MS + i, i, 10 * MANY));
    leases
}

/// The number of leases that `work` looks at.
fn walked(work: impl FnOnce()) -> usize {
    let before = WALKED.get();
    work();
    WALKED.get() - before
}

#[test]
fn nothing_looks_at_all_of_many() {
    const FEW: usize = 500;
    let leases = many();
    let now_ms = NOW_MS + MANY;
    let half_ms = NOW_MS + 10 * MANY + MANY / 2;
    for now_ms in [now_ms, half_ms, half_ms + MANY] {
        for id in [b"70000".as_slice(), b"nobody"] {
            let looks = walked(|| {
                leases.live(id, now_ms);
                leases.in_use(now_ms);
                leases.count_live(now_ms);
                leases.grows(now_ms);
                leases.is_ahead(now_ms);
                for at_most in [0, MANY as u64 / 10, MANY as u64] {
                    leases.earliest(now_ms, at_most, Some(id));
                }
                leases.last_end_without(Some(id));
            });
            assert!(looks < FEW, "a look at {now_ms} walks over {looks}");
        }
        let mut changed = leases.clone();
        let grant = walked(|| put(&mut changed, now_ms, 70_000, 1));
        assert!(grant < FEW, "a grant at {now_ms} walks over {grant}");
        let renewed = usize::from(leases.live(b"70000", now_ms).is_some());
        assert_eq!(changed.len(), leases.count_live(now_ms) + 1 - renewed);
        let mut released = leases.clone();
        let id: Arc<[u8]> = b"99999"[..].into();
        let release = walked(|| released.apply(&LeaseChange::End { now_ms, id }));
        assert!(release < FEW, "a release at {now_ms} walks over {release}");
    }
}

/// Also when they were renewed in another order, ended one by one, or share an end.
#[test]
fn names_stay_found_at_the_same_price() {
    let mut leases = many();
    let mut most = 0;
    for (i, now_ms) in (NOW_MS + MANY..).enumerate().take(MANY as usize) {
        let i = i as i64;
        most = most.max(walked(|| put(&mut leases, now_ms, i * 7919 % MANY, 10 * MANY)));
    }
    assert_eq!(leases.len() as i64, MANY);
    leases.apply(&LeaseChange::PullBack { now_ms: NOW_MS });
    assert_eq!(leases.last_end_ms(), NOW_MS + 10 * MANY);
    for i in (0..MANY).step_by(97) {
        let id = format!("{i}").into_bytes();
        most = most.max(walked(|| assert!(leases.live(&id, NOW_MS).is_some())));
    }
    for i in 0..MANY - 10 {
        let id = format!("{}", i * 7919 % MANY).into_bytes().into();
        most = most.max(walked(|| leases.apply(&LeaseChange::End { now_ms: NOW_MS, id })));
    }
    assert_eq!(leases.len(), 10);
    // Now and then the index is rebuilt, for the few leases that are left.
    assert!(most < MANY as usize / 50, "{most}");
    assert!(leases.heap_bytes() < 5000, "{} bytes for 10 leases", leases.heap_bytes());
}

#[test]
fn leases_take_little_memory() {
    for (count, most) in [(1, 80), (10, 640), (1000, 110_000), (MANY, 11_000_000)] {
        let mut leases = Leases::default();
        for i in 0..count {
            let id = format!("{i:036}").into_bytes().into();
            let lease = Lease { permits: 1, taken_ms: NOW_MS, end_ms: NOW_MS + i };
            leases.apply(&LeaseChange::Put { now_ms: NOW_MS - 1, id, lease, carried: 0 });
        }
        assert!(leases.heap_bytes() <= most, "{count}: {}", leases.heap_bytes());
    }
}

#[test]
fn stored_leases_are_in_order_and_have_names_of_their_own() {
    let lease = |end_ms| Lease { permits: 1, taken_ms: 5, end_ms };
    let bytes = |leases: &[(&str, i64)]| {
        let mut bytes = Vec::new();
        varint::write(&mut bytes, leases.len() as u64);
        leases
            .iter()
            .for_each(|(id, end_ms)| lease::encode(id.as_bytes(), &lease(*end_ms), &mut bytes));
        bytes
    };
    assert!(decoded(&bytes(&[("b", 7), ("a", 8), ("c", 8)])).is_some());
    for damaged in
        [[("a", 8), ("b", 7)], [("b", 8), ("a", 8)], [("a", 8), ("a", 8)], [("a", 7), ("a", 8)]]
    {
        assert!(decoded(&bytes(&damaged)).is_none(), "{damaged:?}");
    }
    // The same name far apart in the list.
    let names: Vec<String> = (0..100).map(|i| format!("{}", i % 99)).collect();
    let leases: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(10..).collect();
    assert!(decoded(&bytes(&leases[..99])).is_some());
    assert!(decoded(&bytes(&leases)).is_none());
}
