//! The run: every part in turn, most of them on one server.

use std::error::Error;
use std::time::Instant;

use crate::cases::{self, Case, LOG_PERMITS};
use crate::cpu::{self, Cost, Effort, Point};
use crate::load::Load;
use crate::machine::Machine;
use crate::options::{Options, Part};
use crate::results::{OnServer, Results, Setup};
use crate::scripts::Scripts;
use crate::server::{Copies, Server, Setup as ServerSetup};
use crate::{growth, latency, logs, longest, memory, others, throughput};

/// Connections of redis-benchmark.
const CONNECTIONS: u32 = 20;
/// The servers of the main table beside the installed one.
const SERVERS: [&str; 2] = ["redis-8.2", "valkey-9.1"];

/// Runs the parts that are wanted.
pub fn run(options: &Options, machine: Machine) -> Result<Results, Box<dyn Error>> {
    let start = Instant::now();
    let installed = ServerSetup::new(&options.modules);
    let mut server = Server::start(&installed)?;
    let scripts = Scripts::load(&mut server)?;
    let mut results = nothing(options, machine, &mut server)?;
    let say = |what: &str| eprintln!("{:>4} s  {what}", start.elapsed().as_secs());
    if options.wants(Part::Cpu) {
        say("CPU per command");
        results.main = costs(&mut server, options, cases::main_cases(&scripts))?;
    }
    if options.wants(Part::Algorithms) {
        say("CPU of each algorithm");
        let keys: &[usize] = options.pick(&[1, 3], &[1, 2, 3, 8]);
        results.algorithms = costs(&mut server, options, cases::algorithm_cases(keys))?;
    }
    if options.wants(Part::Durable) {
        say("CPU with an AOF, and with a replica");
        durable(&mut server, options, &scripts, &mut results)?;
    }
    if options.wants(Part::Servers) {
        say("CPU on other servers");
        results.servers = servers(options, &installed)?;
    }
    if options.wants(Part::Others) {
        say("CPU of other applications' commands");
        let effort = Effort { rounds: options.pick(1, 7), ..options.effort() };
        let starts = options.pick(1, 3);
        results.others = others::measure(&installed, starts, load(options), effort)?;
    }
    if options.wants(Part::Longest) {
        say("the longest calls");
        let (many, tries) = options.pick((10_000, 1), (100_000, 5));
        results.longest = longest::measure(&installed, many, tries)?;
    }
    let few = cases::few_cases(&scripts);
    if options.wants(Part::Throughput) {
        say("throughput");
        server.flush()?;
        let load = load(options);
        results.throughput =
            throughput::measure(&mut server, &few, options.less_effort().rounds, load)?;
    }
    if options.wants(Part::Latency) {
        say("latency");
        server.flush()?;
        let round = options.latency_round();
        results.latency = latency::measure(&mut server, &few, 4, round, options.keys)?;
    }
    if options.wants(Part::Memory) {
        say("memory");
        let kinds = cases::memory_cases(&scripts);
        results.memory = memory::measure(&mut server, &kinds, results.setup.memory_keys)?;
        let most = options.pick(10_000, 100_000);
        results.leases = memory::leases(&mut server, &[1, 10, most], most)?;
    }
    if options.wants(Part::Logs) {
        say("sliding logs");
        let sizes: &[u32] = options.pick(&[10, 100, 1000], &[10, 100, 1000, 10_000, 1_000_000]);
        let most = options.pick(1000, 10_000);
        results.logs = Some(logs::measure(&mut server, sizes, most, options.less_effort())?);
    }
    if options.wants(Part::Growth) {
        say("growth");
        grow(&mut server, options, &mut results)?;
    }
    server.check_no_errors()?;
    say("done");
    Ok(results)
}

/// Results with nothing in them yet.
fn nothing(
    options: &Options,
    machine: Machine,
    server: &mut Server,
) -> Result<Results, Box<dyn Error>> {
    let setup = Setup {
        quick: options.quick,
        rounds: options.effort().rounds,
        server_rounds: options.less_effort().rounds,
        keys: options.keys,
        pipeline: options.pipeline,
        memory_keys: options.pick([40_000, 100_000], [400_000, 1_000_000]),
    };
    Ok(Results {
        machine,
        server: server.version()?,
        setup,
        main: Vec::new(),
        servers: Vec::new(),
        others: Vec::new(),
        longest: Vec::new(),
        algorithms: Vec::new(),
        aof: Vec::new(),
        replica: Vec::new(),
        throughput: Vec::new(),
        latency: Vec::new(),
        memory: Vec::new(),
        leases: Vec::new(),
        logs: None,
        keys_in_a_call: Vec::new(),
        keys_in_the_database: Vec::new(),
        clients: Vec::new(),
    })
}

fn load(options: &Options) -> Load {
    Load {
        connections: CONNECTIONS,
        pipeline: options.pipeline,
        keys: options.keys,
        requests: options.requests(),
    }
}

fn points(options: &Options, cases: Vec<Case>) -> Vec<Point> {
    let wanted = cases.into_iter().filter(|case| options.wants_case(&case.name));
    let point = |case: Case| {
        let mut point = Point::new(case, load(options));
        if point.case.fills_a_log() && !options.quick {
            point.first = point.first.max(options.keys.saturating_mul(LOG_PERMITS));
        }
        point
    };
    wanted.map(point).collect()
}

/// The costs of the cases that are wanted, in an empty database without persistence.
fn costs(
    server: &mut Server,
    options: &Options,
    cases: Vec<Case>,
) -> Result<Vec<Cost>, Box<dyn Error>> {
    server.flush()?;
    cpu::measure(server, &points(options, cases), options.effort(), Copies::None)
}

/// The cases of tables beside the main one.
fn side_cases(options: &Options, scripts: &Scripts) -> Vec<Case> {
    if options.quick { cases::few_cases(scripts) } else { cases::main_cases(scripts) }
}

fn durable(
    server: &mut Server,
    options: &Options,
    scripts: &Scripts,
    results: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let points = points(options, side_cases(options, scripts));
    server.flush()?;
    server.start_aof()?;
    results.aof = cpu::measure(server, &points, options.effort(), Copies::Aof)?;
    server.config("appendonly", "no")?;
    server.flush()?;
    let replica = server.start_replica()?;
    results.replica = cpu::measure(server, &points, options.effort(), Copies::Replica)?;
    drop(replica);
    server.end_replication()
}

/// The main table on the servers that are there.
fn servers(options: &Options, installed: &ServerSetup) -> Result<Vec<OnServer>, Box<dyn Error>> {
    let mut found = Vec::new();
    for name in SERVERS {
        let Ok(binary) = options.servers.join(name).canonicalize() else {
            eprintln!("{name} is left out: scripts/servers {}", options.servers.display());
            continue;
        };
        let mut server = Server::start(&ServerSetup { binary: Some(binary), ..installed.clone() })?;
        let scripts = Scripts::load(&mut server)?;
        let points = points(options, side_cases(options, &scripts));
        let costs = cpu::measure(&mut server, &points, options.less_effort(), Copies::None)?;
        server.check_no_errors()?;
        found.push(OnServer { version: server.version()?, costs });
    }
    Ok(found)
}

fn grow(
    server: &mut Server,
    options: &Options,
    results: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let effort = options.less_effort();
    let keys: &[u32] = options.pick(&[1, 8, 64], &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
    results.keys_in_a_call = growth::keys_in_a_call(server, keys, effort)?;
    let clients: &[u32] = options.pick(&[1, 100], &[1, 10, 50, 100, 500, 1000]);
    results.clients = growth::clients(server, clients, effort)?;
    let decades: &[u32] = &[1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let decades = decades.get(..options.pick(3, 5)).unwrap_or(decades);
    // Last, as it leaves the database full.
    results.keys_in_the_database = growth::keys_in_the_database(server, decades, effort)?;
    Ok(())
}
