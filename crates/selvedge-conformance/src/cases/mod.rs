//! The cases of the suite by name, for [`suite!`](crate::suite). Each file holds the cases of one subject.

mod execution;
mod flows;
mod gates;
mod list;
mod suspension;

crate::conformance_cases!(crate::conformance_reexport;);
