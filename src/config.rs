//! The configuration: `rl.*` in redis.conf and `CONFIG SET`, without the prefix as load arguments.
//!
//! Does not use the crate's macro, which ignores unknown load arguments and values that the server
//! refused. A limiter must not start with another configuration than the one written down.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

use redis_module::configuration::{
    ConfigurationContext, ConfigurationFlags, register_enum_configuration,
    register_i64_configuration,
};
use redis_module::{
    ConfigurationValue, Context, EnumConfigurationValue, RedisError, RedisString, Status, raw,
};
use rl_core::algorithm::sliding::DEFAULT_RESOLUTION;
use rl_core::grammar::integer;
use rl_core::top;

use words::cl_throttle::ClThrottle;
use words::enforce::Enforce;
use words::slot_validation::SlotValidation;

/// A directive whose value is a number.
struct Number {
    name: &'static str,
    cell: AtomicI64,
    low: i64,
    high: i64,
}

impl Number {
    const fn new(name: &'static str, default: i64, low: i64, high: i64) -> Number {
        Number { name, cell: AtomicI64::new(default), low, high }
    }

    fn get(&self) -> i64 {
        self.cell.load(Ordering::Relaxed)
    }

    /// Makes a load argument the new default.
    fn set_default(&self, value: &str) -> Result<(), String> {
        let number = integer(value.as_bytes()).filter(|n| (self.low..=self.high).contains(n));
        let Some(number) = number else {
            let Number { name, low, high, .. } = self;
            return Err(format!("{name} must be {low} to {high}, got {value:?}"));
        };
        self.cell.store(number, Ordering::Relaxed);
        Ok(())
    }

    fn register(&'static self, ctx: &Context) {
        let (default, flags) = (self.get(), ConfigurationFlags::DEFAULT);
        let Number { name, low, high, .. } = self;
        register_i64_configuration(ctx, name, &self.cell, default, *low, *high, flags, None);
    }
}

static RESOLUTION: Number =
    Number::new("sliding-resolution", DEFAULT_RESOLUTION as i64, 16, 65_536);
static TOP_CAPACITY: Number = Number::new("top-capacity", 256, 0, 65_536);
static TOP_PERIOD: Number = Number::new("top-period", 60_000, 1000, 86_400_000);
static MAX_NAMES: Number = Number::new("max-names", 1000, 0, 100_000);

static MAX_WAITERS: Number = Number::new("max-waiters", 10_000, 0, 1_000_000);

static NUMBERS: [&Number; 5] = [&RESOLUTION, &TOP_CAPACITY, &TOP_PERIOD, &MAX_NAMES, &MAX_WAITERS];

/// The crate's macro defines only one enum in each module.
mod words {
    pub mod slot_validation {
        redis_module::enum_configuration! {
            #[derive(Copy, PartialEq, Eq)]
            #[expect(non_camel_case_types, reason = "the words of the configuration")]
            pub enum SlotValidation {
                cluster = 0,
                always = 1,
            }
        }
    }

    pub mod cl_throttle {
        redis_module::enum_configuration! {
            #[derive(Copy, PartialEq, Eq)]
            #[expect(non_camel_case_types, reason = "the words of the configuration")]
            pub enum ClThrottle {
                no = 0,
                yes = 1,
            }
        }
    }

    pub mod enforce {
        redis_module::enum_configuration! {
            #[derive(Copy, PartialEq, Eq)]
            #[expect(non_camel_case_types, reason = "the words of the configuration")]
            pub enum Enforce {
                yes = 0,
                shadow = 1,
            }
        }
    }
}

/// A directive whose value is a word. It is an atomic because each call reads it, and a lock would
/// cost more than the decision that depends on it.
struct Choice<T> {
    name: &'static str,
    cell: AtomicI32,
    words: PhantomData<fn() -> T>,
}

impl<T: EnumConfigurationValue> Choice<T> {
    const fn new(name: &'static str, default: i32) -> Choice<T> {
        Choice { name, cell: AtomicI32::new(default), words: PhantomData }
    }

    fn is(&self, value: i32) -> bool {
        self.cell.load(Ordering::Relaxed) == value
    }

    /// Makes a load argument the new default.
    fn set_default(&self, default: T, value: &str) -> Result<(), String> {
        let (words, values) = default.get_options();
        let known = words.iter().zip(values).find(|(word, _)| *word == value);
        let Some((_, number)) = known else {
            let words = words.join(" or ");
            return Err(format!("{} must be {words}, got {value:?}", self.name));
        };
        self.cell.store(number, Ordering::Relaxed);
        Ok(())
    }
}

impl<T: EnumConfigurationValue + 'static> ConfigurationValue<T> for Choice<T> {
    fn get(&self, _: &ConfigurationContext) -> T {
        let value = self.cell.load(Ordering::Relaxed);
        T::try_from(value).unwrap_or_else(|_| unreachable!("only values of the type are stored"))
    }

    fn set(&self, _: &ConfigurationContext, value: T) -> Result<(), RedisError> {
        self.cell.store(value.into(), Ordering::Relaxed);
        Ok(())
    }
}

static SLOT_VALIDATION: Choice<SlotValidation> =
    Choice::new("slot-validation", SlotValidation::cluster as i32);
static ENFORCE: Choice<Enforce> = Choice::new("enforce", Enforce::yes as i32);
static CL_THROTTLE: Choice<ClThrottle> = Choice::new("cl-throttle", ClThrottle::no as i32);

/// The number of entries above which a sliding log rounds its times.
pub fn sliding_resolution() -> u32 {
    RESOLUTION.get() as u32
}

/// Whether the module itself must refuse keys of several hash slots.
pub fn validates_slots() -> bool {
    SLOT_VALIDATION.is(SlotValidation::always as i32)
}

/// Whether nothing is denied, only counted.
pub fn only_shadows() -> bool {
    ENFORCE.is(Enforce::shadow as i32)
}

/// Whether the command `CL.THROTTLE` exists.
pub fn has_throttle() -> bool {
    CL_THROTTLE.is(ClThrottle::yes as i32)
}

/// The size of the sketches of denied keys, and the length of their periods.
pub fn top_shape() -> top::Shape {
    top::Shape { capacity: TOP_CAPACITY.get() as usize, period_ms: TOP_PERIOD.get() }
}

/// The number of names that get counters of their own.
pub fn max_names() -> usize {
    MAX_NAMES.get() as usize
}

/// The number of clients that may wait for permits at once.
pub fn max_waiters() -> usize {
    MAX_WAITERS.get() as usize
}

/// Names and values of all directives, for `INFO`.
pub fn shown() -> Vec<(&'static str, String)> {
    let numbers = NUMBERS.iter().map(|number| (number.name, number.get().to_string()));
    let word = |is: bool, yes: &str, no: &str| if is { yes.to_string() } else { no.to_string() };
    let choices = [
        (SLOT_VALIDATION.name, word(validates_slots(), "always", "cluster")),
        (ENFORCE.name, word(only_shadows(), "shadow", "yes")),
        (CL_THROTTLE.name, word(has_throttle(), "yes", "no")),
    ];
    numbers.chain(choices).collect()
}

/// Makes load arguments, which are pairs of name and value, the new defaults.
fn set_defaults(args: &[RedisString]) -> Result<(), String> {
    let mut seen = Vec::new();
    for pair in args.chunks(2) {
        let name = pair.first().map(RedisString::to_string_lossy).unwrap_or_default();
        let Some(value) = pair.get(1).map(RedisString::to_string_lossy) else {
            return Err(format!("load argument {name:?} has no value"));
        };
        if seen.contains(&name) {
            return Err(format!("load argument {name:?} is given twice"));
        }
        if let Some(number) = NUMBERS.iter().find(|number| number.name == name) {
            number.set_default(&value)?;
        } else if name == SLOT_VALIDATION.name {
            SLOT_VALIDATION.set_default(SlotValidation::cluster, &value)?;
        } else if name == ENFORCE.name {
            ENFORCE.set_default(Enforce::yes, &value)?;
        } else if name == CL_THROTTLE.name {
            CL_THROTTLE.set_default(ClThrottle::no, &value)?;
        } else {
            let known: Vec<_> = shown().into_iter().map(|(name, _)| name).collect();
            let known = known.join(", ");
            return Err(format!("unknown load argument {name:?}, expected one of {known}"));
        }
        seen.push(name);
    }
    Ok(())
}

/// Registers the configuration and loads it: defaults, then load arguments, then redis.conf.
///
/// # Errors
/// An argument or a value that is not allowed, or a server older than 7.0.
pub fn load(ctx: &Context, args: &[RedisString]) -> Result<(), String> {
    set_defaults(args)?;
    // SAFETY: the module API was initialised before `init` runs; its table does not change
    // afterwards.
    let load_configs = unsafe { raw::RedisModule_LoadConfigs };
    let load_configs =
        load_configs.ok_or("this server is too old, Redis 7.0 or later is needed")?;
    NUMBERS.iter().for_each(|number| number.register(ctx));
    register_enum_configuration(
        ctx,
        SLOT_VALIDATION.name,
        &SLOT_VALIDATION,
        if validates_slots() { SlotValidation::always } else { SlotValidation::cluster },
        ConfigurationFlags::DEFAULT,
        None,
    );
    register_enum_configuration(
        ctx,
        ENFORCE.name,
        &ENFORCE,
        if only_shadows() { Enforce::shadow } else { Enforce::yes },
        ConfigurationFlags::DEFAULT,
        None,
    );
    register_enum_configuration(
        ctx,
        CL_THROTTLE.name,
        &CL_THROTTLE,
        if has_throttle() { ClThrottle::yes } else { ClThrottle::no },
        // A command cannot be registered later.
        ConfigurationFlags::IMMUTABLE,
        None,
    );
    // SAFETY: `ctx` is the context of the load under way.
    match unsafe { load_configs(ctx.ctx) }.into() {
        Status::Ok => Ok(()),
        Status::Err => Err("the server refused the configuration, see its message above".into()),
    }
}
