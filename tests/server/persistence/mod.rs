//! What survives: RDB and AOF files, damaged and old ones too, and copies of keys.

mod crashes;
mod durability;
mod fixture;
mod payloads;
mod save_points;
