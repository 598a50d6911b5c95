//! The module as a server loads it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What a variable of the environment names, else the default.
pub fn program(variable: &str, default: &str) -> String {
    env::var(variable).unwrap_or_else(|_| default.into())
}

/// The module. It is built here unless `RL_TEST_MODULE` names one: a test target does not depend on a library that
/// it cannot link, so cargo would leave an old one in place, or none.
pub fn module_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| env::var_os("RL_TEST_MODULE").map_or_else(build_module, PathBuf::from))
}

/// Builds the module with the profile of the tests, which are in `<target>/<profile>/deps`.
fn build_module() -> PathBuf {
    let test = env::current_exe().expect("the path of the test");
    let directory = test.ancestors().nth(2).expect("a directory of the profile");
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(program("CARGO", "cargo"))
        .args(["build", "--quiet", "--lib", "--package", "redis-rl", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")])
        .arg("--target-dir")
        .arg(directory.parent().expect("the target directory"))
        .status()
        .expect("cargo");
    assert!(status.success(), "the module does not build");
    directory.join("libredis_rl.so")
}
