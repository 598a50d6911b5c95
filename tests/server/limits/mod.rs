//! What a limit promises: leases, debts, blocks, high rates, other rules than before, clocks that step.

pub mod clock;
mod concurrency;
mod debt;
mod denial;
mod lockout;
mod rates;
mod renewals;
mod rule_change;
mod ttl;
