//! What survives: files of an RDB and an AOF, also damaged and old ones, and copies of keys.

mod crashes;
mod durability;
mod fixture;
mod payloads;
mod save_points;
