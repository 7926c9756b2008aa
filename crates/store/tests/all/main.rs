//! Tests from outside, in one program: it is linked once, and what waits in one of them holds up no other.

mod clusters;
mod common;
mod companions;
mod doubts;
mod examples;
mod format_doc;
mod in_place;
mod inspect;
mod locality;
mod lru;
mod many_variants;
mod model;
mod needed;
mod opening;
mod parts;
mod predicates;
mod recovery;
mod room;
mod scattered;
mod slow_device;
mod slow_disk;
mod starts;
mod stress;
mod traces;
mod variants;
mod window;
