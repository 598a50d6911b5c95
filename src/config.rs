//! The configuration: `rl.*` in redis.conf and `CONFIG SET`, without the prefix as load arguments.
//!
//! Registered by hand rather than by the crate's macro: that one ignores load arguments it does not
//! know and values that the server refused, and a limiter must not start with another
//! configuration than the one written down.

use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use redis_module::configuration::{
    ConfigurationContext, ConfigurationFlags, register_enum_configuration,
    register_i64_configuration,
};
use redis_module::{
    ConfigurationValue, Context, EnumConfigurationValue, RedisError, RedisString, Status, raw,
};
use rl_core::request::integer;
use rl_core::sliding::DEFAULT_RESOLUTION;

const RESOLUTION: &str = "sliding-resolution";
const RESOLUTION_RANGE: std::ops::RangeInclusive<i64> = 16..=65_536;
const SLOT_VALIDATION: &str = "slot-validation";

static RESOLUTION_CELL: AtomicI64 = AtomicI64::new(DEFAULT_RESOLUTION as i64);
static SLOT_VALIDATION_CELL: SlotValidationCell =
    SlotValidationCell(AtomicI32::new(SlotValidation::Cluster as i32));

/// Above how many entries a sliding log rounds.
pub fn sliding_resolution() -> u32 {
    RESOLUTION_CELL.load(Ordering::Relaxed) as u32
}

/// Whether the module itself must refuse keys of different slots.
pub fn validates_slots() -> bool {
    SLOT_VALIDATION_CELL.0.load(Ordering::Relaxed) == SlotValidation::Always as i32
}

/// Who refuses keys of different slots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotValidation {
    /// The server, in a cluster.
    Cluster = 0,
    /// The module too, everywhere.
    Always = 1,
}

impl SlotValidation {
    const ALL: [(SlotValidation, &'static str); 2] =
        [(SlotValidation::Cluster, "cluster"), (SlotValidation::Always, "always")];
}

impl TryFrom<i32> for SlotValidation {
    type Error = RedisError;

    fn try_from(value: i32) -> Result<Self, RedisError> {
        let known = Self::ALL.iter().find(|(known, _)| *known as i32 == value);
        known.map(|(known, _)| *known).ok_or(RedisError::Str("unknown slot validation"))
    }
}

impl From<SlotValidation> for i32 {
    fn from(value: SlotValidation) -> i32 {
        value as i32
    }
}

impl EnumConfigurationValue for SlotValidation {
    fn get_options(&self) -> (Vec<String>, Vec<i32>) {
        Self::ALL.iter().map(|(value, name)| (name.to_string(), *value as i32)).unzip()
    }
}

/// An enum in an atomic: it is read on each call, where a lock would cost more than the check.
struct SlotValidationCell(AtomicI32);

impl ConfigurationValue<SlotValidation> for SlotValidationCell {
    fn get(&self, _: &ConfigurationContext) -> SlotValidation {
        SlotValidation::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(SlotValidation::Cluster)
    }

    fn set(&self, _: &ConfigurationContext, value: SlotValidation) -> Result<(), RedisError> {
        self.0.store(value as i32, Ordering::Relaxed);
        Ok(())
    }
}

/// Load arguments, `name value` pairs, over the defaults.
struct Defaults {
    resolution: i64,
    slot_validation: SlotValidation,
}

impl Defaults {
    fn from_args(args: &[RedisString]) -> Result<Defaults, String> {
        let mut defaults = Defaults {
            resolution: i64::from(DEFAULT_RESOLUTION),
            slot_validation: SlotValidation::Cluster,
        };
        let mut seen = Vec::new();
        for pair in args.chunks(2) {
            let name = pair.first().map(RedisString::to_string_lossy).unwrap_or_default();
            if seen.contains(&name) {
                return Err(format!("load argument {name:?} is given twice"));
            }
            seen.push(name.clone());
            let Some(value) = pair.get(1).map(RedisString::to_string_lossy) else {
                return Err(format!("load argument {name:?} has no value"));
            };
            let refused = |expected: &str| format!("{name} must be {expected}, got {value:?}");
            match name.as_str() {
                RESOLUTION => {
                    let number = integer(value.as_bytes());
                    let number = number.filter(|n| RESOLUTION_RANGE.contains(n));
                    defaults.resolution = number.ok_or_else(|| refused("16 to 65536"))?;
                }
                SLOT_VALIDATION => {
                    let known = SlotValidation::ALL.iter().find(|(_, name)| *name == value);
                    defaults.slot_validation = known
                        .map(|(known, _)| *known)
                        .ok_or_else(|| refused("cluster or always"))?;
                }
                _ => {
                    return Err(format!(
                        "unknown load argument {name:?}, expected {RESOLUTION} or {SLOT_VALIDATION}"
                    ));
                }
            }
        }
        Ok(defaults)
    }
}

/// Registers the configuration and loads it: defaults, then load arguments, then redis.conf.
///
/// # Errors
/// An argument or a value that cannot be, or a server older than 7.0.
pub fn load(ctx: &Context, args: &[RedisString]) -> Result<(), String> {
    let defaults = Defaults::from_args(args)?;
    // SAFETY: the module API was initialised before `init` runs; its table does not change
    // afterwards.
    let load_configs = unsafe { raw::RedisModule_LoadConfigs };
    let load_configs =
        load_configs.ok_or("this server is too old, Redis 7.0 or later is needed")?;
    register_i64_configuration(
        ctx,
        RESOLUTION,
        &RESOLUTION_CELL,
        defaults.resolution,
        *RESOLUTION_RANGE.start(),
        *RESOLUTION_RANGE.end(),
        ConfigurationFlags::DEFAULT,
        None,
    );
    register_enum_configuration(
        ctx,
        SLOT_VALIDATION,
        &SLOT_VALIDATION_CELL,
        defaults.slot_validation,
        ConfigurationFlags::DEFAULT,
        None,
    );
    // SAFETY: `ctx` is the context of the load that is going on.
    match unsafe { load_configs(ctx.ctx) }.into() {
        Status::Ok => Ok(()),
        Status::Err => Err("the server refused the configuration, see its message above".into()),
    }
}
