//! What commands of other applications cost on a server with the module, against one without it.
//!
//! Servers run side by side, and a round puts each of them under the same load in turn: the ratio
//! is taken within the round, since a machine's speed changes by more than what is looked for. They
//! are started several times over, because where a process happens to lie in memory makes a
//! difference, too.

use std::error::Error;

use crate::cases;
use crate::cpu::{Cost, Effort, Point};
use crate::fill;
use crate::load::Load;
use crate::server::{Copies, OURS, Server, Setup};
use crate::waiters::{self, Waiters};

/// Policies that are set.
const POLICIES: usize = 10_000;

/// A state of the module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not loaded.
    Absent,
    /// It is loaded, and nobody has called it.
    Idle,
    /// A call has waited, and is over.
    HasWaited,
    /// A thousand clients wait.
    Waiters,
    /// Ten thousand policies are set.
    Policies,
}

/// All states; the first is what the others are compared with.
pub const STATES: [State; 5] =
    [State::Absent, State::Idle, State::HasWaited, State::Waiters, State::Policies];

impl State {
    /// For the report.
    pub fn name(self) -> &'static str {
        match self {
            State::Absent => "without the module",
            State::Idle => "module loaded",
            State::HasWaited => "after a call that waited",
            State::Waiters => "1,000 waiters",
            State::Policies => "10,000 policies",
        }
    }
}

/// What a command costs in the states of the module.
pub struct Tax {
    /// The command.
    pub name: String,
    /// In µs without the module.
    pub micros: f64,
    /// Ratios to that, in the order of [`STATES`].
    pub ratios: Vec<(State, Cost)>,
}

impl Tax {
    /// The ratio in a state.
    pub fn in_state(&self, state: State) -> Option<f64> {
        let ratio = self.ratios.iter().find(|(found, _)| *found == state);
        ratio.map(|(_, cost)| cost.micros)
    }
}

/// Measures with so many starts of all servers.
pub fn measure(
    setup: &Setup,
    starts: usize,
    load: Load,
    effort: Effort,
) -> Result<Vec<Tax>, Box<dyn Error>> {
    let points: Vec<Point> =
        cases::others().into_iter().map(|case| Point::new(case, load)).collect();
    let mut found: Vec<Found> = points.iter().map(|_| Found::default()).collect();
    for _ in 0..starts {
        let mut subjects = Vec::new();
        for state in STATES {
            subjects.push(Subject::start(state, setup)?);
        }
        for round in 0..=effort.rounds {
            for (point, found) in points.iter().zip(&mut found) {
                found.round(point, &mut subjects, effort, round > 0)?;
            }
        }
    }
    let taxes = points.iter().zip(found).map(|(point, found)| found.tax(&point.case.name));
    Ok(taxes.collect())
}

/// What was found of a command.
#[derive(Default)]
struct Found {
    requests: Option<u32>,
    /// Without the module, in µs.
    bare: Vec<f64>,
    /// Ratios to that in the same round, by state.
    ratios: [Vec<f64>; STATES.len()],
}

impl Found {
    fn round(
        &mut self,
        point: &Point,
        subjects: &mut [Subject],
        effort: Effort,
        counts: bool,
    ) -> Result<(), Box<dyn Error>> {
        let requests = self.requests.unwrap_or(point.first);
        let mut costs = Vec::new();
        for subject in subjects {
            costs.push(point.run(&mut subject.server, requests, Copies::None)?);
        }
        let bare = costs.first().copied().unwrap_or(f64::NAN);
        self.requests.get_or_insert(point.next(bare, effort));
        if counts {
            self.bare.push(bare);
            costs.iter().zip(&mut self.ratios).for_each(|(cost, all)| all.push(cost / bare));
        }
        Ok(())
    }

    fn tax(mut self, name: &str) -> Tax {
        let micros = Cost::of(name.to_owned(), &mut self.bare).micros;
        let ratios = STATES.into_iter().zip(&mut self.ratios);
        let ratios =
            ratios.map(|(state, ratios)| (state, Cost::of(state.name().to_owned(), ratios)));
        Tax { name: name.to_owned(), micros, ratios: ratios.collect() }
    }
}

/// A server in a state, with what keeps it there.
struct Subject {
    server: Server,
    _waiters: Option<Waiters>,
}

impl Subject {
    fn start(state: State, setup: &Setup) -> Result<Subject, Box<dyn Error>> {
        let libraries: &[&str] = if state == State::Absent { &[] } else { &[OURS] };
        let mut server = Server::start(&Setup { libraries, ..setup.clone() })?;
        let waiters = match state {
            State::Absent | State::Idle => None,
            State::HasWaited => {
                waiters::wait_in_vain(&mut server)?;
                None
            }
            State::Waiters => Some(Waiters::come(&mut server)?),
            State::Policies => {
                let policy = |number: usize| {
                    let mut set = redis::cmd("RL.POLICY");
                    set.arg("SET").arg(format!("name-{number}"));
                    let rule = ["WINDOW", "1m", "LIMIT", "5", "ALGO", "bucket"];
                    set.arg(&rule).get_packed_command()
                };
                fill::send(&server, (0..POLICIES).map(policy))?;
                None
            }
        };
        server.check_no_errors()?;
        Ok(Subject { server, _waiters: waiters })
    }
}
